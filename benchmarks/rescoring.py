"""What rescoring gains: shared prefixes, skipping log Z, and ONNX, each as a ratio of sides that take turns.

    python benchmarks/rescoring.py [--run RUN] [--rounds 5] [--json FILE]

Lists are made up to look like 100-best lists: hypotheses differ from a sentence of 20 words in one to four places.
With --run the ONNX part uses a trained model and its validation text; otherwise random weights, d = 650, V = 10,000.
Exits with 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from claim import AT_LEAST, AT_MOST, Claims

from selfnorm._util.memory import keep_freed_memory
from selfnorm.config.recipe import Model
from selfnorm.data.vocab import EOS, UNK, Vocab
from selfnorm.nn.model import LanguageModel, build
from selfnorm.runs.loading import load_model
from selfnorm.runs.opening import open_with_text
from selfnorm.scoring.onnx.export import export
from selfnorm.scoring.scorer import Scorer
from selfnorm.scoring.trie import score_together
from selfnorm.studies.bench.timing import Work, interleaved


def random_scorer(V: int, d: int) -> Scorer:
    rng = torch.Generator().manual_seed(0)
    words = [EOS, UNK, *(f"w{i}" for i in range(V - 2))]
    return Scorer(build(Model(d=d), V, rng), Vocab(words, [1] * V))


def made_up_lists(V: int, lists: int = 16, n: int = 100, length: int = 20) -> list[list[int]]:
    """Hypotheses of `lists` n-best lists; changes fall mostly late, as in a recogniser's lists."""
    rng, hypotheses = np.random.default_rng(0), []
    for _ in range(lists):
        sentence = rng.integers(2, V, length)
        for _ in range(n):
            other = sentence.copy()
            places = (length * rng.beta(2, 1, rng.integers(1, 5))).astype(int)
            other[places] = rng.integers(2, V, len(places))
            hypotheses.append(other.tolist())
    return hypotheses


def rescoring(claims: Claims, rounds: int) -> None:
    """What sharing prefixes gains over batches and single hypotheses, and what skipping log Z gains."""
    torch.set_num_threads(2)
    scorer, hypotheses, few = random_scorer(10_000, 650), made_up_lists(10_000), 50
    works: dict[str, Work] = {
        "shared": lambda: score_together(scorer, hypotheses),
        "batched": lambda: scorer.batch(hypotheses),
    }
    what = "batched by length over shared prefixes, 100-best, d = 650"
    claims.compare(what, works, "batched", "shared", AT_LEAST, 1.0, rounds)
    works = {"shared": works["shared"], "alone": lambda: [scorer.batch([h]) for h in hypotheses[:few]]}
    seconds = interleaved(works, rounds, 1)
    ratio = seconds["alone"] * len(hypotheses) / few / seconds["shared"]
    claims.check("each hypothesis alone over shared prefixes, d = 650", ratio, AT_LEAST, 2.5)
    large = random_scorer(33_278, 650)
    works = {
        "exact": lambda: score_together(large, hypotheses, log_z=True),
        "skipped": lambda: score_together(large, hypotheses),
    }
    what = "exact over unnormalized rescoring, V = 33,278, d = 650"
    claims.compare(what, works, "exact", "skipped", AT_LEAST, 4, rounds)


def onnx(claims: Claims, rounds: int, run: Path | None) -> None:
    """One step at batch 1 on one thread: torch, onnxruntime, onnxruntime int8; and what int8 does to perplexity."""
    torch.set_num_threads(1)
    if run is None:
        scorer, ids = random_scorer(10_000, 650), None
        model, vocab, name = scorer.model, scorer.vocab, "random weights, d = 650"
    else:
        trained, corpus = open_with_text(run)
        model, vocab, ids, name = load_model(trained), trained.vocab, corpus["valid"][:20_000], run.name
    sessions = {int8: session_of(model, vocab, int8) for int8 in (False, True)}
    steps = range(20)
    works: dict[str, Work] = {"torch": lambda: [torch_step(model) for _ in steps]}
    for int8, session in sessions.items():
        works["int8" if int8 else "float32"] = lambda session=session: [onnx_step(session, model) for _ in steps]
    what = f"torch over onnxruntime int8, one step, one thread, {name}"
    claims.compare(what, works, "torch", "int8", AT_LEAST, 2, rounds)
    if ids is not None:
        plain, int8 = (onnx_perplexity(sessions[kind], ids, model) for kind in (False, True))
        claims.check(f"int8's change of u_perplexity, {name}", abs(int8 / plain - 1), AT_MOST, 0.01)


def session_of(model: LanguageModel, vocab: Vocab, int8: bool) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export(model, vocab, path, int8=int8)
        return onnxruntime.InferenceSession(str(path), options)


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
    claims = Claims()
    rescoring(claims, chosen.rounds)
    for run in dict.fromkeys((None, chosen.run)):
        onnx(claims, chosen.rounds, run)
    name = f" --run {chosen.run.name}" if chosen.run else ""
    return claims.finish(chosen.json, f"python benchmarks/rescoring.py{name} --rounds {chosen.rounds}")


if __name__ == "__main__":
    raise SystemExit(main())
