"""Check an n-gram file before kenlm reads it: kenlm is fast and trusts its input, so a damaged file can end the process.

The header, the sections and the form of each line's numbers are checked here. What only kenlm can tell, it is asked in a
process of its own, once for a file: if that dies, the file is refused and not the user's program.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from selfnorm._util.errors import UserError
from selfnorm._util.manifest import digest, note_passed, passed

BINARY = b"mmap lm http://kheafield.com/code"  # how a KenLM binary begins
HEADER = re.compile(rb"ngram[ \t]+([1-9])[ \t]*=[ \t]*([0-9]{1,12})\s*")  # IRSTLM pads the numbers
SECTION = re.compile(rb"\\([1-9])-grams:\s*")
NUMBER = re.compile(rb"-?[0-9]{1,10}(\.[0-9]{0,20})?([eE][-+]?[0-9]{1,3})?|-inf")
LONGEST = 1 << 20  # bytes of a line


def check_arpa(path: Path) -> None:
    """Raise UserError unless this looks like a whole ARPA file; a KenLM binary is left to kenlm."""
    with path.open("rb") as handle:
        if handle.read(len(BINARY)) == BINARY:
            return
    lines = _lines(path)
    counts = _header(path, lines)
    for order, count in counts.items():
        _section(path, lines, order, count, last=order == len(counts))


def check_in_a_process(path: Path) -> None:
    """Let another process load the file first; remembered for this file as it is now."""
    key = digest(path)
    if passed(path, key):
        return
    code = "import sys, kenlm; kenlm.Model(sys.argv[1])"
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    if ended.returncode < 0:
        raise UserError(f"{path} makes kenlm crash (signal {-ended.returncode}): it is damaged. Make or copy it again.")
    if ended.returncode == 0:
        note_passed(path, key)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as handle:
        number = 0
        while line := handle.readline(LONGEST):
            number += 1
            if len(line) == LONGEST:
                raise UserError(f"{path} line {number} is longer than a megabyte: this is not an ARPA file.")
            if line.strip():
                yield number, line.rstrip(b"\r\n")


def _header(path: Path, lines: Iterator[tuple[int, bytes]]) -> dict[int, int]:
    """How many n-grams of each order follow; the section \\1-grams: has been read then."""
    number, line = next(lines, (1, b""))
    if line.strip() != b"\\data\\":
        raise UserError(f"{path} is not an ARPA or KenLM file: it does not begin with \\data\\.")
    counts: dict[int, int] = {}
    for number, line in lines:
        if SECTION.fullmatch(line):
            break
        match = HEADER.fullmatch(line)
        if match is None or int(match[1]) != len(counts) + 1:
            raise UserError(f"{path} line {number}: a line such as ngram {len(counts) + 1}=1000 was expected.")
        counts[int(match[1])] = int(match[2])
    if not counts or SECTION.fullmatch(line) is None or int(SECTION.fullmatch(line)[1]) != 1:  # type: ignore[index]
        raise UserError(f"{path} line {number}: \\1-grams: was expected after the numbers of n-grams.")
    return counts


def _section(path: Path, lines: Iterator[tuple[int, bytes]], order: int, count: int, last: bool) -> None:
    ending, found = b"\\end\\" if last else b"\\%d-grams:" % (order + 1), 0
    for number, line in lines:
        if line.strip() == ending:
            if found != count:
                raise UserError(f"{path} line {number}: {found:,} {order}-grams, but its header says {count:,}.")
            return
        words = line.split()
        whole = len(words) in (order + 1, order + 2) and NUMBER.fullmatch(words[0])
        if not whole or (len(words) == order + 2 and not NUMBER.fullmatch(words[-1])):
            raise UserError(
                f"{path} line {number}: a log10 probability, {order} words and perhaps a weight were expected."
            )
        found += 1  # noqa: SIM113 (empty lines are not n-grams)
    raise UserError(f"{path} ends within its {order}-grams: it is not whole. Copy it again.")
