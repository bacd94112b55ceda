"""Make the table of docs/reliability.md: python -m tests.reliability.soak --kills 2000 --flips 2000 --fuzz 1000000 …

With --minutes, go round through all faults until the time is up (make soak). Results go to a JSON file as they come.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from .faults import build


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("kills", "flips", "full", "pairs", "fuzz"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0.0, help="rounds of everything until the time is up")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", type=Path, help="JSON file to write")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    with tempfile.TemporaryDirectory(prefix="selfnorm-soak-") as folder:
        if "SELFNORM_FAULTS" not in os.environ:
            library = build(Path(folder))
            if library is None:
                print("No C compiler: kills and full disks need one.", file=sys.stderr)
                return 1
            environment = {**os.environ, "LD_PRELOAD": str(library), "SELFNORM_FAULTS": "1", "OMP_NUM_THREADS": "1"}
            command = [sys.executable, "-m", "tests.reliability.soak", *sys.argv[1:]]
            return subprocess.run(command, env=environment, check=False).returncode
        return _campaign(asked, Path(folder))


def _campaign(asked: argparse.Namespace, folder: Path) -> int:
    import torch

    torch.set_num_threads(1)
    logging.getLogger("selfnorm").setLevel(logging.ERROR)
    from .crashes import Tally, full_disks, kills
    from .flips import flips
    from .fuzz import fuzz
    from .pairs import pairs

    work: dict[str, Callable[[Path, int, Tally, int], None]] = {
        "full": full_disks,
        "pairs": lambda base, most, tally, seed: pairs(base, most, tally),
        "flips": flips,
        "kills": kills,
        "fuzz": fuzz,
    }
    named = {
        "full": "disk full",
        "pairs": "two commands at once",
        "flips": "bit flips",
        "kills": "kills",
        "fuzz": "fuzzed inputs",
    }
    share = {"full": 40, "pairs": 20, "flips": 400, "kills": 100, "fuzz": 50_000} if asked.minutes else {}
    tallies, start = {name: Tally(named[name]) for name in work}, time.monotonic()
    for tally in tallies.values():
        tally.note = lambda: _write(asked.to, tallies.values(), time.monotonic() - start)
    most = {name: getattr(asked, name) or share.get(name, 0) for name in work}
    seed = asked.seed
    while True:
        for name, go in work.items():
            if most[name]:
                go(folder / f"{name}-{seed}", most[name], tallies[name], seed)
                _write(asked.to, tallies.values(), time.monotonic() - start)
        if time.monotonic() - start > 60 * asked.minutes:
            break
        seed += 1
        most = {name: tallies[name].tried + share[name] for name in work}
    rows = [tally.row() for tally in tallies.values() if tally.tried]
    for row in rows:
        print(f"{row['fault']:24} tried {row['tried']:>9,}  held {row['held']:>9,}")
        for problem in row["wrong"]:
            print("   ", problem)
    return int(any(row["tried"] != row["held"] for row in rows))


def _write(path: Path | None, tallies: object, seconds: float) -> None:
    if path is not None:
        rows = [tally.row() for tally in tallies if tally.tried]  # type: ignore[attr-defined]
        path.write_text(json.dumps({"seconds": round(seconds), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
