"""Claims about speed: each is a ratio with a bound, printed as it is measured and stored as JSON."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfnorm._util.files import write_json
from selfnorm._util.machine import environment
from selfnorm.studies.bench.timing import Work, interleaved

AT_MOST, AT_LEAST = "at most", "at least"


class Claims:
    """The claims of one script, checked one after another."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def check(self, what: str, ratio: float, bound: str, limit: float, **more: Any) -> None:
        """Print and keep one claim: does `ratio` keep within its bound?"""
        holds = ratio <= limit if bound == AT_MOST else ratio >= limit
        self.rows.append(
            {"claim": what, "ratio": round(ratio, 4), "bound": f"{bound} {limit:g}", "holds": holds, **more}
        )
        print(f"{'ok  ' if holds else 'FAIL'} {ratio:8.4g}  {bound} {limit:<6g} {what}", flush=True)

    def compare(
        self, what: str, works: Mapping[str, Work], over: str, under: str, bound: str, limit: float, rounds: int
    ) -> None:
        """Time all of `works` in turns; the claim is about the median of `over` divided by that of `under`."""
        seconds = interleaved(works, rounds, 1)
        milliseconds = {name: round(1000 * value, 2) for name, value in seconds.items()}
        self.check(what, seconds[over] / seconds[under], bound, limit, ms=milliseconds)
        gc.collect()

    def finish(self, path: Path | None, command: str, **about: Any) -> int:
        """Write the claims where a path is given; the exit code is 1 if one does not hold."""
        if path:
            write_json(path, {**environment(), "command": command, **about, "claims": self.rows})
        return 0 if all(row["holds"] for row in self.rows) else 1
