"""What the runs of the paper cost, counted in operations: those that are not in results/ yet, and hours at a given speed.

    python benchmarks/research/operations.py [--results results] [--teraflops 5]

A training step makes three products of the size of the forward one: the LSTM's 16 d² multiply-adds a word, and the output layer's V·d
for an exact criterion, a share gamma of it for a penalty on a share of the contexts, (k + 1)·d for noise words. A run of the
sentence completion task is counted with the 41 million words of its novels. Launching small kernels is not counted.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from selfnorm._util.console import table
from selfnorm.config.recipe import Recipe
from selfnorm.registry.criteria import CRITERIA
from selfnorm.report.collect import collect
from selfnorm.report.paper import cells, expected, found
from selfnorm.studies.plan import read_study

WORDS = {"ptb": 929_589, "wikitext-2": 2_088_628, "mscc": 41_400_000}
V = {"ptb": 10_000, "wikitext-2": 33_278, "mscc": 51_392}


def operations(recipe: Recipe) -> float:
    """Floating-point operations of a whole training: two for a multiply-add."""
    data, d, criterion = recipe.data.name, recipe.model.d, recipe.criterion
    info = CRITERIA[criterion.name]
    share = 1.0 if info.normalizes == 1 else criterion.gamma if criterion.alpha > 0 else 0.0
    output = share * V[data] * d + (criterion.k + 1) * d * bool(info.draws)
    return 2.0 * 3 * (16 * d * d + output) * WORDS[data] * recipe.training.epochs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--teraflops", type=float, default=5.0, help="speed that is reached in practice")
    given = parser.parse_args()
    records = collect(given.results).records
    done = {
        (cell["data"], cell["criterion"], cell["d"], float(cell.get("alpha", 0)))
        for one in expected()["table"]
        for cell in cells(one)
        if "perplexity" in cell and "d" in cell and cell["data"] != "mscc" and found(cell, records)
    }
    groups: dict[tuple[str, int], list[float]] = defaultdict(list)
    for planned in read_study("paper").planned:
        recipe = planned.recipe
        key = (recipe.data.name, recipe.criterion.name, recipe.model.d, max(0.0, recipe.criterion.alpha))
        if key not in done:
            groups[recipe.data.name, recipe.model.d].append(operations(recipe))
    hours = {key: sum(found) / (given.teraflops * 1e12) / 3600 for key, found in groups.items()}
    rows = [
        [data, str(d), str(len(groups[data, d])), f"{sum(groups[data, d]):.1e}", f"{h:.1f}"]
        for (data, d), h in sorted(hours.items())
    ]
    rows.append(
        [
            "all",
            "",
            str(sum(map(len, groups.values()))),
            f"{sum(map(sum, groups.values())):.1e}",
            f"{sum(hours.values()):.1f}",
        ]
    )
    table(
        "runs of the paper that are left",
        ["text", "d", "runs", "operations", f"hours at {given.teraflops:g} TFLOP/s"],
        rows,
    )


if __name__ == "__main__":
    main()
