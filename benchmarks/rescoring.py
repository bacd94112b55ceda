"""What rescoring gains: shared prefixes, skipping log Z, and ONNX, each as a ratio of sides that take turns.

    python benchmarks/rescoring.py [--run RUN] [--rounds 5] [--json FILE]

Lists are made up to look like 100-best lists: hypotheses differ from a sentence of 20 words in one to four places.
With --run the ONNX part uses a trained model and its validation text; otherwise random weights, d = 650, V = 10,000.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfnorm.bench.timing import interleaved
from selfnorm.export import export
from selfnorm.files import write_json
from selfnorm.memory import keep_freed_memory
from selfnorm.model import LanguageModel, build
from selfnorm.opening import open_with_text
from selfnorm.recipe import Model
from selfnorm.results import environment
from selfnorm.runs import load_model
from selfnorm.score import Scorer
from selfnorm.tasks.trie import score_together
from selfnorm.text import EOS, UNK, Vocab


def random_scorer(V: int, d: int) -> Scorer:
    rng = torch.Generator().manual_seed(0)
    words = [EOS, UNK, *(f"w{i}" for i in range(V - 2))]
    return Scorer(build(Model(d=d), V, rng), Vocab(words, [1] * V))


def made_up_lists(V: int, lists: int = 16, n: int = 100, length: int = 20) -> list[list[int]]:
    """Hypotheses of `lists` n-best lists; changes fall mostly late, as in a recogniser's lists."""
    chance, found = np.random.default_rng(0), []
    for _ in range(lists):
        sentence = chance.integers(2, V, length)
        for _ in range(n):
            other = sentence.copy()
            places = (length * chance.beta(2, 1, chance.integers(1, 5))).astype(int)
            other[places] = chance.integers(2, V, len(places))
            found.append(other.tolist())
    return found


def rows(rounds: int, run: Path | None) -> list[dict[str, Any]]:
    found = []

    def compare(what: str, works: dict[str, Any], slow: str, fast: str, least: float) -> None:
        seconds = interleaved(works, rounds, 1)
        ratio = seconds[slow] / seconds[fast]
        found.append({"claim": what, "ratio": round(ratio, 2), "bound": f"at least {least:g}", "holds": ratio >= least})
        print(f"{'ok  ' if ratio >= least else 'FAIL'} {ratio:7.2f}  at least {least:<5g} {what}", flush=True)

    torch.set_num_threads(2)
    scorer = random_scorer(10_000, 650)
    hypotheses = made_up_lists(10_000)
    works = {
        "shared": lambda: score_together(scorer, hypotheses),
        "batched": lambda: scorer.batch(hypotheses),
        "alone": lambda: [scorer.batch([h]) for h in hypotheses[:50]],
    }
    compare("batched by length over shared prefixes, 100-best, d = 650", works, "batched", "shared", 1.0)
    seconds = interleaved({k: works[k] for k in ("shared", "alone")}, rounds, 1)
    ratio = seconds["alone"] * len(hypotheses) / 50 / seconds["shared"]
    found.append(
        {
            "claim": "each hypothesis alone over shared prefixes",
            "ratio": round(ratio, 2),
            "bound": "at least 2.5",
            "holds": ratio >= 2.5,
        }
    )
    print(
        f"{'ok  ' if ratio >= 2.5 else 'FAIL'} {ratio:7.2f}  at least 2.5   each hypothesis alone over shared prefixes, d = 650"
    )
    large = random_scorer(33_278, 650)
    works = {
        "exact": lambda: score_together(large, hypotheses, log_z=True),
        "skipped": lambda: score_together(large, hypotheses),
    }
    compare("exact over unnormalized rescoring, V = 33,278, d = 650", works, "exact", "skipped", 4)
    onnx_rows(rounds, None, compare)
    return found + (onnx_rows(rounds, run, compare) if run is not None else [])


def onnx_rows(rounds: int, run: Path | None, compare: Any) -> list[dict[str, Any]]:
    """One step at batch 1 on one thread: torch, onnxruntime, onnxruntime int8; and what int8 does to perplexity."""
    import onnxruntime

    torch.set_num_threads(1)
    if run is None:
        scorer, ids = random_scorer(10_000, 650), None
        model, vocab, name = scorer.model, scorer.vocab, "random weights, d = 650"
    else:
        made, corpus = open_with_text(run)
        model, vocab, ids, name = load_model(made), made.vocab, corpus["valid"][:20_000], f"{run.name}"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        sessions = {}
        for int8 in (False, True):
            export(model, vocab, Path(folder) / f"{int8}.onnx", int8=int8)
            sessions[int8] = onnxruntime.InferenceSession(str(Path(folder) / f"{int8}.onnx"), options)
    many = 20
    works = {"torch": lambda: [torch_step(model) for _ in range(many)]}
    works |= {f"int8 {i}": (lambda s=s: [onnx_step(s, model) for _ in range(many)]) for i, s in sessions.items()}
    compare(f"torch over onnxruntime int8, one step, one thread, {name}", works, "torch", "int8 True", 2)
    if ids is None:
        return []
    perplexities = {int8: onnx_perplexity(s, ids, model) for int8, s in sessions.items()}
    change = abs(perplexities[True] / perplexities[False] - 1)
    print(f"{'ok  ' if change < 0.01 else 'FAIL'} {change:7.4f}  at most 0.01  int8's change of u_perplexity, {name}")
    return [
        {"claim": "int8's change of u_perplexity", "ratio": change, "bound": "at most 0.01", "holds": change < 0.01}
    ]


def torch_step(model: LanguageModel) -> None:
    with torch.no_grad():
        c, _ = model.contexts(torch.tensor([[5]]), None)
        model.output.m(torch.tensor([[7]]), c)


def onnx_step(session: Any, model: LanguageModel) -> Any:
    state = {i.name: np.zeros((1, 1, model.encoder.d), np.float32) for i in session.get_inputs()[2:]}
    return session.run(None, {"words": np.array([[5]]), "candidates": np.array([[[7]]]), **state})


def onnx_perplexity(session: Any, ids: np.ndarray, model: LanguageModel) -> float:
    state = {i.name: np.zeros((1, 1, model.encoder.d), np.float32) for i in session.get_inputs()[2:]}
    words, targets = ids[None, :-1].astype(np.int64), ids[None, 1:, None].astype(np.int64)
    return float(np.exp(-session.run(["m"], {"words": words, "candidates": targets, **state})[0].mean()))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--run", type=Path, default=None)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--json", type=Path, default=None)
    chosen = arguments.parse_args()
    keep_freed_memory()
    found = rows(chosen.rounds, chosen.run)
    if chosen.json:
        write_json(chosen.json, {**environment(), "command": "python benchmarks/rescoring.py", "claims": found})
    return 0 if all(row["holds"] for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
