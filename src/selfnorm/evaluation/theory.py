"""Theorems 1 and 2 of the paper on a trained model, where the true p(w|c) is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfnorm.data.sources.synthetic import truth_in
from selfnorm.data.vocab import Vocab
from selfnorm.evaluation.measure import contexts
from selfnorm.nn.model import LanguageModel


def epsilon(m: Tensor, log_p: Tensor) -> Tensor:
    """Theorem 1's bound per context: log Σ_w p(w|c) exp|m(w,c) - log p(w|c)|, for m and log p (N, V).

    Where p(w|c) = 0 the term is e^m, its limit.
    """
    return torch.where(log_p.isinf(), m, log_p + (m - log_p).abs()).logsumexp(1)


def check_theorems(model: LanguageModel, vocab: Vocab, ids: np.ndarray, points: int = 400) -> dict[str, Any]:
    """|log Z| against epsilon for every context of a synthetic text; how often Theorem 1 holds, and Theorem 2."""
    truth = torch.from_numpy(truth_in(vocab))
    log_z, bound = [], []
    for window, c, _ in contexts(model, ids):
        assert window.counted is not None
        m = model.output.all_m(c).cpu().double()
        log_z.append(m.logsumexp(1))
        bound.append(epsilon(m, truth[window.inputs[window.counted]]))
    z, eps = torch.cat(log_z), torch.cat(bound)
    overall = float(eps.logsumexp(0) - np.log(len(eps)))  # log of the mean of exp(epsilon): Theorem 2's epsilon
    some = torch.linspace(0, len(z) - 1, min(points, len(z)), device=z.device).long()
    return {
        "contexts": len(z),
        "theorem_1_holds": int((z.abs() <= eps + 1e-9).sum()),
        "mean_epsilon": float(eps.mean()),
        "theorem_2_epsilon": overall,
        "abs_mu_z": float(z.mean().abs()),
        "theorem_2_holds": bool(z.mean().abs() <= overall + 1e-9),
        "points": [[round(float(e), 4), round(float(abs(v)), 4)] for e, v in zip(eps[some], z[some], strict=True)],
    }
