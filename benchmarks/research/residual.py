"""Can a small network remove what `screen` leaves of log Z?

    python benchmarks/research/residual.py CONTEXTS --fit sotu_fit code_fit ptb_fit --test wiki_test readme_test [--json FILE]

CONTEXTS is made by benchmarks/llm_contexts.py or benchmarks/word_contexts.py. The network (two layers of 32 units) sees six numbers of
a context that the estimate has anyway: the estimate, the largest score, the gap to the second, the share of the exact words, the
logarithm of s(c), and the sum of squared shares. It is fitted to exact log Z minus the estimate on contexts of the same texts
that the preview was fitted on, and tested on other texts.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import selfnorm as sn
from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment
from selfnorm.calibration.screen import Screen, directions
from selfnorm.calibration.top_exact import exact_scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contexts", type=Path)
    parser.add_argument("--fit", nargs="+", required=True)
    parser.add_argument("--test", nargs="+", required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256, 128, 1024], help="rank and top, in pairs")
    parser.add_argument("--most", type=int, default=6000, help="contexts for the network, and of each test text")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    bias = given.contexts / "bias.npy"
    head = sn.Output.from_rows(
        torch.from_numpy(np.load(given.contexts / "head.npy")),
        torch.from_numpy(np.load(bias)) if bias.exists() else None,
    )
    texts = {name: torch.from_numpy(np.load(given.contexts / f"{name}.c.npy")) for name in [*given.fit, *given.test]}
    fit = torch.cat([texts[name] for name in given.fit])
    fit = fit[torch.randperm(len(fit), generator=torch.Generator().manual_seed(1))]
    found: dict[str, Any] = {"command": command_line(), **environment(), "rows": []}
    for rank, top in zip(given.sizes[::2], given.sizes[1::2], strict=True):
        g = sn.fit_normalizer(head, fit, "screen", rank=rank, top=top, progress=False)
        network, scale = learned(*features(g, spread(fit, given.most)))
        for name in [given.fit[0], *given.test]:
            x, rest = features(g, spread(texts[name], given.most // 2))
            after = rest - network(standard(x, scale)).squeeze(1).double()
            row = {"rank": rank, "top": top, "text": name, "fitted_on": name in given.fit, "mean": float(rest.mean())}
            row |= {
                "sigma_z": float(rest.std()),
                "mean_after": float(after.mean()),
                "sigma_z_after": float(after.std()),
            }
            found["rows"].append(row)
    cells = [[str(v) if not isinstance(v, float) else f"{v:+.4f}" for v in row.values()] for row in found["rows"]]
    table("what screen leaves, and what is left of that after a network", list(found["rows"][0]), cells)
    if given.json:
        write_json(given.json, found)


def spread(c: Tensor, most: int) -> Tensor:
    return c[torch.linspace(0, len(c) - 1, min(most, len(c))).long()]


def features(g: Any, c: Tensor) -> tuple[Tensor, Tensor]:
    """Six numbers of each context (n, 6), and exact log Z minus the estimate (n,)."""
    assert isinstance(g, Screen)
    rows, left = [], []
    for piece in torch.split(c, 128):
        m = g.preview_scores(piece)
        words = m.topk(g.count, dim=1, sorted=False).indices
        exact = exact_scores(g.head, piece, words)
        estimate = m.scatter(1, words, exact).logsumexp(1)
        shares = (exact - estimate.unsqueeze(1)).exp()
        two = exact.topk(2, dim=1).values
        s = directions(piece, g.mean, g.project, g.preview.shape[1] - 1)[:, -1]
        rows.append(
            torch.stack([estimate, two[:, 0], two[:, 0] - two[:, 1], shares.sum(1), s.log(), shares.square().sum(1)], 1)
        )
        left.append(g.head.log_z(piece).double() - estimate.double())
    return torch.cat(rows), torch.cat(left)


def standard(x: Tensor, scale: tuple[Tensor, Tensor]) -> Tensor:
    return ((x - scale[0]) / scale[1]).clamp(-4, 4)


@torch.enable_grad()
def learned(x: Tensor, rest: Tensor) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
    scale = x.mean(0), x.std(0)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=3001)
    given, wanted = standard(x, scale), rest.float()
    for _ in range(3000):
        some = torch.randint(len(given), (512,))
        loss = (network(given[some]).squeeze(1) - wanted[some]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network, scale


if __name__ == "__main__":
    main()
