"""`python -m selfnorm` is the same as `selfnorm`."""

import sys

from selfnorm.cli import main

sys.exit(main())
