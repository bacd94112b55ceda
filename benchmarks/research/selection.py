"""Which words of a preview should be computed exactly: the N largest, or all whose share of the preview's sum is at least 1/N?

    python benchmarks/research/selection.py CONTEXTS --fit sotu_fit code_fit ptb_fit --test wiki_test [--rank 192] [--json FILE]

CONTEXTS is made by benchmarks/llm_contexts.py. By share, at most N words are exact and usually far fewer, so a batch gathers
fewer rows. What is left of log Z is compared at equal numbers of exact words.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

import selfnorm as sn
from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contexts", type=Path)
    parser.add_argument("--fit", nargs="+", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--rank", type=int, default=192)
    parser.add_argument("--most", type=int, default=1000, help="contexts of the test text")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    head = sn.Output.from_rows(torch.from_numpy(np.load(given.contexts / "head.npy")))
    fit = torch.cat([torch.from_numpy(np.load(given.contexts / f"{name}.c.npy")) for name in given.fit])
    c = torch.from_numpy(np.load(given.contexts / f"{given.test}.c.npy"))
    c = c[torch.linspace(0, len(c) - 1, given.most).long()]
    g: Any = sn.fit_normalizer(head, fit, "screen", rank=given.rank, progress=False)
    rows = tried(head, g, c)
    cells = [[r["way"], str(r["N"]), f"{r['words']:.0f}", f"{r['mean']:+.4f}", f"{r['sigma_z']:.4f}"] for r in rows]
    table("what is left of log Z", ["exact words", "N", "words a context", "mean", "sigma_z"], cells)
    if given.json:
        write_json(
            given.json,
            {"command": command_line(), **environment(), "rank": given.rank, "text": given.test, "rows": rows},
        )


WAYS = {"the N largest": (64, 256, 512, 1024, 2048), "share of 1/N": (256, 1024, 4096, 16384, 65536)}


@torch.no_grad()
def tried(head: sn.Output, g: Any, c: torch.Tensor) -> list[dict[str, Any]]:
    left: dict[tuple[str, int], list[torch.Tensor]] = {(way, N): [] for way, sizes in WAYS.items() for N in sizes}
    words = dict.fromkeys(left, 0)
    for piece in torch.split(c, 100):
        m, exact = g.preview_scores(piece), head.all_m(piece)
        log_z, preview, order = (
            exact.double().logsumexp(1),
            m.logsumexp(1),
            m.topk(max(WAYS["the N largest"]), 1).values,
        )
        for way, N in left:
            floor = order[:, N - 1] if way == "the N largest" else preview - math.log(N)
            chosen = m >= floor.unsqueeze(1)
            words[way, N] += int(chosen.sum())
            left[way, N].append(log_z - torch.where(chosen, exact, m).logsumexp(1).double())
    rests = {key: torch.cat(parts) for key, parts in left.items()}
    return [
        {"way": way, "N": N, "words": words[way, N] / len(c), "mean": float(rest.mean()), "sigma_z": float(rest.std())}
        for (way, N), rest in rests.items()
    ]


if __name__ == "__main__":
    main()
