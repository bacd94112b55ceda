"""Calibrations on the head of a real language model: what they leave on texts they were not fitted on, and their time.

    python benchmarks/llm_head.py CONTEXTS --fit sotu_fit code_fit ptb_fit --test wiki_test readme_test --to FILE.json
    python benchmarks/llm_head.py CONTEXTS --words --fit train --test valid test wiki_test sotu_test --to FILE.json

CONTEXTS holds head.npy (V, d) and for each text NAME.c.npy (n, d), the inputs of the head, and NAME.w.npy (n,), the tokens that
follow. benchmarks/llm_contexts.py makes them from a model that transformers loads, benchmarks/word_contexts.py from a run of
selfnorm, with bias.npy (V,). --words takes sizes that suit a word model.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import selfnorm as sn
from selfnorm._util.console import table
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("affine", {}),
    ("mlp", {"frequent": 256, "passes": 8}),
    ("screen", {"rank": 192, "top": 2048, "preview": "int8"}),
    ("screen", {"rank": 128, "top": 1024, "preview": "int8"}),
    ("screen", {"rank": 288, "top": 512, "preview": "int8"}),
    ("int8", {"top": 64}),
    ("int8", {"top": 256}),
]


def word_kinds(d: int) -> list[tuple[str, dict[str, Any]]]:
    networks = [("mlp", {"frequent": rows}) for rows in (256, 1024)]
    return [
        ("shift", {}),
        ("affine", {}),
        *networks,
        ("screen", {"rank": d // 3, "top": 256}),
        ("screen", {"rank": d // 2, "top": 1024}),
        ("int8", {"top": 64}),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contexts", type=Path)
    parser.add_argument("--fit", nargs="+", required=True)
    parser.add_argument("--test", nargs="+", required=True)
    parser.add_argument("--most", type=int, default=1 << 30, help="contexts of each test text")
    parser.add_argument("--fit-most", type=int, default=1 << 30, help="contexts that are fitted on")
    parser.add_argument("--only", nargs="+", default=[], help="kinds of calibration, such as screen int8")
    parser.add_argument("--words", action="store_true", help="kinds and sizes for a word model")
    parser.add_argument("--to", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    head = sn.Output.from_rows(torch.from_numpy(np.load(given.contexts / "head.npy")), optional(given.contexts, "bias"))
    fit = torch.cat([read(given.contexts, name)[0] for name in given.fit])
    fit = fit[torch.randperm(len(fit), generator=torch.Generator().manual_seed(1))[: given.fit_most]]
    tests = {name: tuple(x[: given.most] for x in read(given.contexts, name)) for name in given.test}
    exact = {name: head.log_z(c).double() for name, (c, _) in tests.items()}
    found: dict[str, Any] = {"command": command_line(), **environment(), "V": head.V, "d": head.d, "fit": given.fit}
    found |= {"fitted_on": len(fit), "rows": [], "times": {}}
    for kind, size in word_kinds(head.d) if given.words else KINDS:
        if given.only and kind not in given.only:
            continue
        g = sn.fit_normalizer(head, fit, kind, progress=False, **size)
        name = ", ".join([kind, *(f"{key} {value}" for key, value in size.items())])
        for text, (c, w) in tests.items():
            row = left(head, g, c, w, exact[text])
            found["rows"].append({"kind": name, "text": text, "cost": g.multiply_adds() / head.weight.numel(), **row})
        found["times"][name] = {str(n): ratio(head, g, next(iter(tests.values()))[0][:n]) for n in (1, 512)}
        show(found, name)
        if given.to:
            write_json(given.to, found)


def optional(folder: Path, name: str) -> torch.Tensor | None:
    path = folder / f"{name}.npy"
    return torch.from_numpy(np.load(path)) if path.exists() else None


def read(folder: Path, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    c, w = (np.load(folder / f"{name}.{part}.npy") for part in "cw")
    return torch.from_numpy(c), torch.from_numpy(w)


def left(head: sn.Output, g: Any, c: torch.Tensor, w: torch.Tensor, log_z: torch.Tensor) -> dict[str, float]:
    """mu_z and sigma_z of what is left, its 99 % quantile, perplexities, and log p above 0.01."""
    with torch.no_grad():
        rest = log_z - g(c).double()
        m = head.m(w, c).double()
    log_p, estimate = m - log_z, m - log_z + rest
    return {
        "contexts": len(c),
        "sigma_z_before": float(log_z.std()),
        "mean": float(rest.mean()),
        "sigma_z": float(rest.std()),
        "quantile_99": float(rest.abs().quantile(0.99)),
        "perplexity": math.exp(-float(log_p.mean())),
        "u_perplexity": math.exp(-float(estimate.mean())),
        "log_p_above_0.01": float((estimate > 0.01).double().mean()),
    }


def ratio(head: sn.Output, g: Any, c: torch.Tensor, rounds: int = 7) -> dict[str, float]:
    """Milliseconds of exact log Z and of the estimate, CPU time, interleaved, medians, and their ratio."""
    repeats = 20 if len(c) == 1 else 1
    works: dict[str, Callable[[], Any]] = {"exact": lambda: head.log_z(c), "estimate": lambda: g(c)}
    taken: dict[str, list[float]] = {name: [] for name in works}
    with torch.no_grad():
        for turn in range(rounds + 1):
            for name, work in works.items():
                start = time.process_time()
                for _ in range(repeats):
                    work()
                if turn:
                    taken[name].append(1000 * (time.process_time() - start) / repeats)
    exact, estimate = (statistics.median(taken[name]) for name in works)
    return {"exact_ms": exact, "estimate_ms": estimate, "ratio": estimate / exact}


def show(found: dict[str, Any], name: str) -> None:
    rows = [r for r in found["rows"] if r["kind"] == name]
    columns = ("mean", "sigma_z", "quantile_99", "perplexity", "u_perplexity", "log_p_above_0.01")
    cells = [[r["text"], f"{r['cost']:.3f}", *(f"{r[key]:.4f}" for key in columns)] for r in rows]
    table(name, ["text", "cost", *columns], cells)
    print(json.dumps(found["times"][name]), flush=True)


if __name__ == "__main__":
    main()
