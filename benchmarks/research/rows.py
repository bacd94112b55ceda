"""Which rows the network of `mlp` should start from, how many, and how long it should be fitted.

    python benchmarks/research/rows.py CONTEXTS [--only TEXT] [--contexts 300000] [--json FILE]

CONTEXTS is made by benchmarks/word_contexts.py. Ways to start K rows:

    count      the rows of the K most frequent words
    weight     the rows of the words with the largest mean of log(1 - p(w|c))²: what is lost of log Z without the word
    centroids  half of them by weight, the others the centroids of all other rows, each with the log-sum of its words' biases
    random     small and random, as a layer of any network starts

`noised` adds as many contexts again, each moved towards another one by up to a fifth of the way, with their exact log Z.
sigma_z is what is left on validation contexts; `on fit` the same on contexts that were fitted on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import selfnorm as sn
from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment
from selfnorm.calibration.base import Budget
from selfnorm.calibration.mlp import fit
from selfnorm.nn.normalizers import Mlp

Rows = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Variant:
    start: str = "count"
    rows: int = 256
    hidden: tuple[int, ...] = (128, 128)
    passes: float = 4
    noised: bool = False
    share: float = 1.0  # of the contexts

    @property
    def name(self) -> str:
        more = (
            [f"{self.passes:g} passes"]
            + ["noised"] * self.noised
            + [f"{self.share:g} of the contexts"] * (self.share < 1)
        )
        return ", ".join([f"{self.rows} rows by {self.start}", "x".join(map(str, self.hidden)), *more])


VARIANTS = [
    *(Variant(start) for start in ("count", "weight", "centroids", "random")),
    Variant(share=0.5),
    Variant(noised=True, passes=2),
    Variant(passes=12),
    *(Variant("weight", rows) for rows in (512, 768, 1024)),
    Variant("centroids", 1024),
    *(Variant(start, 384, (64, 64)) for start in ("count", "weight", "centroids")),
    Variant("weight", 96, (32, 32)),
    Variant("weight", 1024, (64, 64)),
    Variant("weight", 1024, (64, 64), 12),
]


def by_count(head: sn.Output, c: Tensor, counts: Tensor, K: int) -> Rows:
    chosen = counts.argsort(descending=True, stable=True)[:K]
    return head.weight[chosen], head.bias.view(-1)[chosen]


def weights_of(head: sn.Output, c: Tensor) -> Tensor:
    """Mean of log(1 - p)² of every word (V,)."""
    total = torch.zeros(head.V, dtype=torch.float64)
    for piece in torch.split(c, 256):
        p = head.all_m(piece).softmax(1).clamp(max=1 - 1e-6)
        total += torch.log1p(-p).square_().sum(0)
    return total / len(c)


def by_weight(head: sn.Output, c: Tensor, counts: Tensor, K: int) -> Rows:
    chosen = weights_of(head, c).argsort(descending=True, stable=True)[:K]
    return head.weight[chosen], head.bias.view(-1)[chosen]


def centroids(head: sn.Output, c: Tensor, counts: Tensor, K: int, turns: int = 8) -> Rows:
    order = weights_of(head, c).argsort(descending=True, stable=True)
    kept, others = order[: K // 2], order[K // 2 :]
    x, b = head.weight[others], head.bias.view(-1)[others]
    k = K - len(kept)
    centre = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(1))[:k]].clone()
    share = b.exp()
    for _ in range(turns):
        nearest = torch.cdist(x, centre).argmin(1)
        mass = torch.zeros(k).index_add_(0, nearest, share).clamp(min=1e-30)
        centre = torch.zeros(k, head.d).index_add_(0, nearest, x * share.unsqueeze(1)) / mass.unsqueeze(1)
    return torch.cat([head.weight[kept], centre]), torch.cat([head.bias.view(-1)[kept], mass.log()])


def at_random(head: sn.Output, c: Tensor, counts: Tensor, K: int) -> Rows:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(K, head.d, generator=rng) * head.d**-0.5, torch.zeros(K)


START: dict[str, Callable[[sn.Output, Tensor, Tensor, int], Rows]] = {
    "count": by_count, "weight": by_weight, "centroids": centroids, "random": at_random
}  # fmt: skip


def noised(head: sn.Output, c: np.ndarray, log_z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    way = rng.uniform(0, 0.2, (len(c), 1)).astype(np.float32)
    more = c + way * (c[rng.permutation(len(c))] - c)
    z = torch.cat([head.log_z(piece) for piece in torch.split(torch.from_numpy(more), 4096)]).numpy()
    return np.concatenate([c, more]), np.concatenate([log_z, z])


@torch.no_grad()
def left(network: Mlp, c: np.ndarray, log_z: np.ndarray) -> dict[str, float]:
    pieces = [network(piece) for piece in torch.split(torch.from_numpy(np.ascontiguousarray(c)), 4096)]
    rest = torch.from_numpy(np.ascontiguousarray(log_z)).double() - torch.cat(pieces).double()
    return {"mean": float(rest.mean()), "sigma_z": float(rest.std()), "quantile_99": float(rest.abs().quantile(0.99))}


def fitted(head: sn.Output, how: Variant, data: dict[str, np.ndarray], counts: Tensor) -> dict[str, Any]:
    n = int(how.share * len(data["c"]))
    c, log_z = data["c"][:n], data["lz"][:n]
    begun = time.process_time()
    if how.noised:
        c, log_z = noised(head, c, log_z)
    network = Mlp(head.d, how.hidden, how.rows)
    sample = torch.from_numpy(np.ascontiguousarray(data["c"][:: max(1, len(data["c"]) // 8192)]))
    with torch.no_grad():
        weight, bias = START[how.start](head, sample, counts, how.rows)
        network.frequent.weight.copy_(weight)
        network.frequent.bias.copy_(bias)
    fit(network, c, log_z, Budget(len(c), how.passes, 600, how.hidden), torch.Generator().manual_seed(1))
    seconds = time.process_time() - begun
    cost, lstm = network.requires_grad_(False).multiply_adds(), 16 * head.d**2
    row = {"variant": how.name, **asdict(how), "contexts": n, "multiply_adds": cost, "share_of_lstm": cost / lstm}
    row |= left(network, data["valid.c"], data["valid.lz"]) | {"cpu_seconds": seconds}
    row["test"] = left(network, data["test.c"], data["test.lz"])
    return row | {"sigma_z_on_fit": left(network, data["c"][:30_000], data["lz"][:30_000])["sigma_z"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contexts_folder", type=Path)
    parser.add_argument("--contexts", type=int, default=300_000)
    parser.add_argument("--only", default="", help="variants whose name contains this")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    read = {name: np.load(given.contexts_folder / f"{name}.npy") for name in ("head", "bias", "counts")}
    head = sn.Output.from_rows(torch.from_numpy(read["head"]), torch.from_numpy(read["bias"]))
    total = len(np.load(given.contexts_folder / "train.lz.npy", mmap_mode="r"))
    some = np.sort(np.random.default_rng(1).permutation(total)[: given.contexts])
    data = {part: np.load(given.contexts_folder / f"train.{part}.npy", mmap_mode="r")[some] for part in ("c", "lz")}
    for name in ("valid.c", "valid.lz", "test.c", "test.lz"):
        data[name] = np.load(given.contexts_folder / f"{name}.npy")
    rows: list[dict[str, Any]] = []
    found = {"command": command_line(), **environment(), "V": head.V, "d": head.d, "rows": rows}
    for how in VARIANTS:
        if given.only in how.name:
            rows.append(fitted(head, how, data, torch.from_numpy(read["counts"])))
            print(
                {k: rows[-1][k] for k in ("variant", "sigma_z", "sigma_z_on_fit", "quantile_99", "cpu_seconds")},
                flush=True,
            )
            if given.json:
                write_json(given.json, found)
    names = ("mean", "sigma_z", "sigma_z_on_fit", "quantile_99", "share_of_lstm")
    table("rows", ["variant", *names], [[r["variant"], *(f"{r[name]:.4f}" for name in names)] for r in rows])


if __name__ == "__main__":
    main()
