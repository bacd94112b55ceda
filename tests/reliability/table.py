"""Add up the JSON files of several campaigns and print the table of docs/reliability.md: python -m tests.reliability.table *.json"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> int:
    total: dict[str, list[int]] = {}
    for path in sys.argv[1:]:
        for row in json.loads(Path(path).read_text())["rows"]:
            sums = total.setdefault(row["fault"], [0, 0])
            sums[0], sums[1] = sums[0] + row["tried"], sums[1] + row["held"]
            for problem in row["wrong"]:
                print(f"{path}: {problem}", file=sys.stderr)
    print("| fault | tried | held |\n| --- | --- | --- |")
    for fault, (tried, held) in total.items():
        print(f"| {fault} | {tried:,} | {held:,} |")
    return int(any(tried != held for tried, held in total.values()))


if __name__ == "__main__":
    sys.exit(main())
