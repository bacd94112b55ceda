"""Memory and speed of `selfnorm rescore` as the number of lists grows.

    python benchmarks/rescore_memory.py RUN TEXT --utterances 2000 50000 --to FILE.json

TEXT has one sentence per line. Each list has ten hypotheses: the sentence, and the sentence with one or two words taken from other
lines. Peak memory is that of the command's process, as the operating system reports it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment

SIZE = 10
CHILD = """
import resource, sys
from selfnorm.cli import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--utterances", type=int, nargs="+", default=[2000, 50_000])
    parser.add_argument("--to", type=Path)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for count in given.utterances:
            lists = Path(folder) / f"{count}.jsonl"
            words = write(lists, given.text, count)
            start = time.perf_counter()
            command = [sys.executable, "-c", CHILD, "rescore", str(given.run), str(lists), "--to", f"{lists}.out"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds = time.perf_counter() - start
            peak = int(re.findall(r"^\d+$", done.stderr, re.MULTILINE)[-1]) // 1024
            written = Path(f"{lists}.out").read_text(encoding="utf-8").count("\n")
            rows.append(
                {"utterances": count, "written": written, "words": words, "peak MB": peak, "seconds": round(seconds, 1)}
            )
    table("rescore", list(rows[0]), [[str(value) for value in row.values()] for row in rows])
    if given.to:
        write_json(given.to, {"command": command_line(), **environment(), "rows": rows})


def write(path: Path, text: Path, count: int) -> int:
    """So many lists; the number of words in them."""
    lines = [line.split() for line in text.read_text(encoding="utf-8").splitlines() if line.strip()]
    rng, total = np.random.default_rng(0), 0
    with path.open("w", encoding="utf-8") as out:
        for number in range(count):
            base, hyps = lines[number % len(lines)], []
            for place in range(SIZE):
                words = list(base)
                for _ in range(place and rng.integers(1, 3)):
                    other = lines[rng.integers(len(lines))]
                    words[rng.integers(len(words))] = other[rng.integers(len(other))]
                hyps.append({"text": " ".join(words), "score": float(rng.normal())})
                total += len(words)
            out.write(json.dumps({"id": f"u{number}", "hyps": hyps}) + "\n")
    return total


if __name__ == "__main__":
    main()
