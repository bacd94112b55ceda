"""Every speed claim as a ratio, its two sides taking turns in one run, so that noise falls on both.

    python benchmarks/claims.py [--rounds 7] [--json FILE]

Exits with 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from claim import AT_LEAST, AT_MOST, Claims

from selfnorm._util.memory import keep_freed_memory
from selfnorm.calibration.base import Budget
from selfnorm.config.recipe import CriterionSettings, Model
from selfnorm.nn.model import LanguageModel, build
from selfnorm.nn.normalizers import Mlp
from selfnorm.studies.bench.scoring import _works as scoring_works
from selfnorm.studies.bench.steps import UsualProgram, lstm_floor, one_step, products_floor, random_window, zipf_counts
from selfnorm.studies.bench.timing import Work


def model_of(V: int, d: int) -> tuple[LanguageModel, torch.Generator]:
    rng = torch.Generator().manual_seed(0)
    return build(Model(d=d), V, rng), rng


def step_of(name: str, V: int, d: int) -> Work:
    model, rng = model_of(V, d)
    return one_step(model, CriterionSettings(name=name), zipf_counts(V), rng)


def usual_step(V: int, d: int) -> Work:
    program, rng = UsualProgram(V, d), torch.Generator().manual_seed(0)
    return lambda: program.step(random_window(V, rng))


def loss_of(V: int, d: int, whose: str) -> Work:
    """Cross-entropy forward and backward from given contexts: ours, plain torch's or its linear_cross_entropy."""
    model, rng = model_of(V, d)
    c, w = torch.rand(400, d, generator=rng).requires_grad_(), torch.randint(V, (400,), generator=rng)
    output = model.output

    def work() -> None:
        if whose == "ours":
            m, log_z = output.target_and_log_z(w, c)
            (log_z - m).sum().backward()
        elif whose == "linear_cross_entropy":
            F.linear_cross_entropy(c, output.weight, w, linear_bias=output.bias.view(-1), reduction="sum").backward()
        else:
            F.cross_entropy(F.linear(c, output.weight, output.bias.view(-1)), w, reduction="sum").backward()
        c.grad = output.weight.grad = output.bias.grad = None

    return work


def nce_steps(claims: Claims, rounds: int) -> None:
    """A step of NCE costs little more than the LSTM, whatever V is."""
    for d in (100, 650):
        for name in ("nce", "linear_bound"):
            works = {"1M": step_of(name, 1_000_000, d), "10K": step_of(name, 10_000, d)}
            what = f"{name} step, V = 1M over V = 10K, d = {d}"
            claims.compare(what, works, "1M", "10K", AT_MOST, 1.25, 2 * rounds + 1)
    model, rng = model_of(10_000, 650)
    step = one_step(model, CriterionSettings(), zipf_counts(10_000), rng)
    works = {"nce": step, "lstm": lstm_floor(model, rng)}
    claims.compare("nce step over the lstm alone, d = 650", works, "nce", "lstm", AT_MOST, 1.2, rounds)


def softmax_over_nce(claims: Claims, rounds: int) -> None:
    for V, least, turns in ((33_278, 4, rounds), (300_000, 30, 3)):
        works = {"nce": step_of("nce", V, 650), "softmax": step_of("softmax", V, 650), "usual": usual_step(V, 650)}
        what = f"softmax step of the usual torch program over nce step, V = {V:,}, d = 650"
        claims.compare(what, works, "usual", "nce", AT_LEAST, least, turns)
        # Our softmax is faster than torch's, which makes NCE look slower: reported, hardly bounded.
        what = f"our softmax step over nce step, V = {V:,}, d = 650"
        claims.compare(what, works, "softmax", "nce", AT_LEAST, 1, turns)


def softmax_loss(claims: Claims, rounds: int) -> None:
    for V in (10_000, 33_278):
        works = {name: loss_of(V, 650, name) for name in ("ours", "torch", "linear_cross_entropy")}
        works["products"] = products_floor(*model_of(V, 650))
        for what, under, limit in (
            ("its three products", "products", 1.3),
            ("plain torch cross_entropy", "torch", 1.0),
            ("torch's linear_cross_entropy", "linear_cross_entropy", 1.0),
        ):
            pair = {name: works[name] for name in ("ours", under)}
            what = f"softmax loss over {what}, V = {V:,}, d = 650"
            claims.compare(what, pair, "ours", under, AT_MOST, limit, 2 * rounds)
    pair = {"ours": step_of("softmax", 33_278, 100), "usual": usual_step(33_278, 100)}
    what = "softmax step over the usual torch program, V = 33,278, d = 100"
    claims.compare(what, pair, "ours", "usual", AT_MOST, 1.0, rounds)


def scoring(claims: Claims, rounds: int) -> None:
    """Scoring without log Z gains more the larger V is, and a calibration costs little."""
    for V, least, turns in ((10_000, 1.7, rounds), (33_278, 3.5, rounds), (800_000, 50, 2)):
        model, rng = model_of(V, 650)
        window = random_window(V, rng)
        works = scoring_works(model.requires_grad_(False), window.inputs, window.targets)
        what = f"normalized over unnormalized scoring, V = {V:,}, d = 650"
        claims.compare(what, works, "normalized", "unnormalized", AT_LEAST, least, turns)
        if V > 10_000:
            continue
        few = {name: works[name] for name in ("lstm", "unnormalized")}
        network = Mlp(650, Budget().hidden, Budget().frequent).requires_grad_(False)
        calibrated = model.with_output(model.output.with_normalizer(network))
        few["with mlp"] = scoring_works(calibrated, window.inputs, window.targets)["unnormalized"]
        for what, over, under in (
            ("over the lstm alone", "unnormalized", "lstm"),
            ("with an mlp over without", "with mlp", "unnormalized"),
        ):
            claims.compare(f"unnormalized scoring {what}, d = 650", few, over, under, AT_MOST, 1.1, 3 * rounds)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--json", type=Path, default=None)
    chosen = arguments.parse_args()
    torch.set_num_threads(2)
    keep_freed_memory()
    claims = Claims()
    for part in (nce_steps, softmax_over_nce, softmax_loss, scoring):
        part(claims, chosen.rounds)
    return claims.finish(chosen.json, f"python benchmarks/claims.py --rounds {chosen.rounds}")


if __name__ == "__main__":
    raise SystemExit(main())
