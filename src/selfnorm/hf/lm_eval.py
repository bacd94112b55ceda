"""A model for EleutherAI's lm-eval that needs no (T, V) logits: loglikelihoods are exact, contexts that requests share run once.

    import lm_eval
    from selfnorm.hf.lm_eval import SelfnormLM

    lm_eval.simple_evaluate(model=SelfnormLM("FOLDER"), tasks=["hellaswag"])

With calibration="AUDIT_FOLDER" log Z is estimated (selfnorm audit). Then it is not known whether a continuation is the greedy one,
and is_greedy is always False: leave tasks out that count it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from selfnorm._util.errors import UserError, missing_extra
from selfnorm.hf.scorer import LmScorer, open_scorer
from selfnorm.hf.tree import TreeContexts
from selfnorm.nn.log_z import blocks, rows
from selfnorm.nn.output import Output
from selfnorm.scoring.trie import Trie

try:
    from lm_eval.api.model import TemplateLM
except ImportError:
    raise missing_extra("lm-eval", "hf", "The adapter for lm-eval (pip install lm-eval)") from None

Request = tuple[Any, list[int], list[int]]  # texts, tokens of the context, tokens of the continuation
AT_ONCE = 64  # requests that go through one trie


class SelfnormLM(TemplateLM):  # type: ignore[misc, unused-ignore]
    """loglikelihood and loglikelihood_rolling of a causal model of transformers. Nothing is generated."""

    def __init__(self, model: str | LmScorer, calibration: str | None = None, **settings: str) -> None:
        super().__init__()
        given = [f"{key}={value}" for key, value in settings.items()]
        self.scorer = (
            model if isinstance(model, LmScorer) else open_scorer(model, calibration is None, calibration, given)
        )
        self.tokenizer = self.scorer.words.tokenizer
        self.max_length = self.scorer.tree.longest or 2048

    @property
    def eot_token_id(self) -> int:
        return int(self.scorer.vocab.eos)

    @property
    def prefix_token_id(self) -> int:
        return int(self.scorer.vocab.start)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **more: Any) -> list[int]:
        ids: list[int] = self.tokenizer(string, add_special_tokens=bool(add_special_tokens), verbose=False)["input_ids"]
        return ids

    def _loglikelihood_tokens(self, requests: Sequence[Request], **more: Any) -> list[tuple[float, bool]]:
        """(Σ log p of the continuation, is it what greedy decoding gives) for each request."""
        results: list[tuple[float, bool]] = [(0.0, True)] * len(requests)
        groups: dict[int, list[tuple[int, list[int], list[int]]]] = defaultdict(list)
        for place, (_, context, continuation) in enumerate(requests):
            if not context or not continuation:
                raise UserError("lm-eval gave a request with an empty context or continuation.")
            every = [*context, *continuation][-(self.max_length + 1) :]
            groups[every[0]].append((place, every[1:], continuation[-(len(every) - 1) :]))
        for first, members in groups.items():
            members.sort(key=lambda one: one[1])  # those that share a prefix together
            for at in range(0, len(members), AT_ONCE):
                self._together(first, members[at : at + AT_ONCE], results)
        return results

    def _together(
        self, first: int, members: list[tuple[int, list[int], list[int]]], results: list[tuple[float, bool]]
    ) -> None:
        trie, contexts, words = Trie(), list[int](), list[int]()
        for _, tokens, continuation in members:
            nodes = [0, *trie.add(tokens[:-1])]
            contexts += nodes[-len(continuation) :]
            words += continuation
        tree = TreeContexts(self.scorer.opened.adapter, first)
        tree.shares = self.scorer.tree.shares
        c = tree(trie)
        self.scorer.tree.shares = tree.shares
        log_p, greedy = self._scores(torch.tensor(words), c[torch.tensor(contexts)])
        at = 0
        for place, _, continuation in members:
            piece = slice(at, at + len(continuation))
            results[place] = float(log_p[piece].sum()), bool(greedy[piece].all())
            at = piece.stop

    def _scores(self, w: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        output = self.scorer.model.output
        with torch.no_grad():
            m = output.m(w, c).double()
            if not self.scorer.normalized:
                return m, torch.zeros(len(w), dtype=torch.bool)
            log_z, best = log_z_and_largest(output, c)
        return m - log_z, m >= best - 1e-4

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """Σ log p of whole texts, in windows that do not overlap, each after the start token."""
        results = []
        for request in requests:
            ids, step = self.tok_encode(request.args[0]), self.max_length - 1
            pieces = [ids[at : at + step] for at in range(0, len(ids), step)]
            found = self._loglikelihood_tokens([(None, [self.prefix_token_id], piece) for piece in pieces])
            results.append(sum(score for score, _ in found))
        return results

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        raise UserError(
            "Generation needs every logit, so nothing is gained by this adapter: use lm-eval's own hf model for such tasks."
        )


def log_z_and_largest(head: Output, c: Tensor) -> tuple[Tensor, Tensor]:
    """log Z (N,) and the largest score (N,), block by block."""
    sums, tops = [], []
    for some in rows(len(c)):
        parts = [
            (m.logsumexp(1), m.amax(1))
            for m in (head._linked(c[some].float(), b) for b in blocks(len(c[some]), head.V))
        ]
        sums.append(torch.stack([z for z, _ in parts], dim=1).logsumexp(1))
        tops.append(torch.stack([top for _, top in parts], dim=1).amax(1))
    return torch.cat(sums).double(), torch.cat(tops).double()
