"""A bounded part of the campaign: kills and full disks by fault injection, bit flips, pairs of commands, fuzzed files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PART = {"kills": 14, "full": 8, "pairs": 4, "flips": 60, "fuzz": 5000}


@pytest.mark.skipif(os.name != "posix" or not (shutil.which("cc") or shutil.which("gcc")), reason="needs a C compiler")
def test_a_part_of_the_campaign_holds(tmp_path: Path) -> None:
    asked = [part for name, count in PART.items() for part in (f"--{name}", str(count))]
    command = [sys.executable, "-m", "tests.reliability.soak", *asked, "--to", str(tmp_path / "result.json")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SELFNORM_", "PYTEST_"))}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = {row["fault"]: row["tried"] for row in json.loads((tmp_path / "result.json").read_text())["rows"]}
    assert sorted(rows.values()) == sorted(PART.values())
