"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

Changes = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="Change one value: --set criterion.alpha=10. Repeat for more."),
]
From = Annotated[str, Parameter(name="--from", help="Folder that holds the text; also SELFNORM_DATA.")]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON for programs.")]
