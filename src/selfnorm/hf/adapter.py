"""Adapter: a causal language model of transformers as context vectors c and an output layer. The logits are never made.

The context vectors are what the model feeds its last linear layer, taken there: some models scale them after the last hidden
state. What the model does after the linear layer is probed (probe.py). The result is compared with the model's own logits
on a few tokens and refused if it differs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from selfnorm._util.errors import UserError
from selfnorm.hf.probe import Link, find_link, head_replaced
from selfnorm.nn.output import Output

TOKENS = 12  # of the probe
CLOSE = {torch.bfloat16: 0.03, torch.float16: 0.01}  # how far logits may differ, relative to their size; 1e-3 otherwise


class Adapter:
    """model: what transformers loads for causal language modelling. `head` is its output layer, sharing its rows.

    contexts(ids) gives the context vectors (B, T, d): softmax over head.all_m(c) is the model's distribution after each token.
    """

    def __init__(self, model: Any, check: bool = True) -> None:
        self.model = model
        self.linear = linear_of(model)
        self.link = Link()
        if check:
            with evaluating(model):
                self._probe()
        self.head = Output.from_rows(self.linear.weight, self.linear.bias, self.link.scale, self.link.cap)

    def __repr__(self) -> str:
        return f"Adapter({type(self.model).__name__}, V={self.head.V}, d={self.head.d}, {self.link})"

    @property
    def device(self) -> torch.device:
        device: torch.device = self.linear.weight.device
        return device

    def run(self, ids: Tensor, **more: Any) -> tuple[Tensor, Any]:
        """c (B, T, d) and the model's outputs, whose logits are only a placeholder."""
        seen: list[Tensor] = []

        def keep(c: Tensor) -> Tensor:
            seen.append(c)
            return c[..., :1]

        with head_replaced(self.linear, keep):
            outputs = self.model(input_ids=ids.to(self.device), **more)
        if len(seen) != 1 or seen[0].shape[:2] != ids.shape:
            raise UserError(
                f"{type(self.model).__name__} does not run its head once over all tokens. It cannot be used."
            )
        return seen[0], outputs

    def contexts(self, ids: Tensor, **more: Any) -> Tensor:
        """The context vectors (B, T, d) after each token of ids (B, T), without gradients."""
        with torch.no_grad():
            return self.run(ids, use_cache=False, **more)[0]

    def _probe(self) -> None:
        V = len(self.linear.weight)
        ids = torch.randint(min(V, self._words()), (1, TOKENS), generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            own = self._logits(ids)
            self.link = find_link(self._logits, self.linear, ids, V)
            c = self.contexts(ids)
            self._check_causal(ids, c)
            head = Output.from_rows(self.linear.weight, self.linear.bias, self.link.scale, self.link.cap)
            ours = head.all_m(c[0]).double()
        off = float((ours - own[0].double()).abs().max())
        size = max(1.0, float(own.abs().max()))
        if not off <= CLOSE.get(self.linear.weight.dtype, 1e-3) * size:
            raise UserError(
                f"The logits of {type(self.model).__name__} are not reproduced: they differ by up to {off:.3g} (largest "
                f"logit {size:.3g}, scale {self.link.scale:g}, cap {self.link.cap}). It cannot be used."
            )

    def _words(self) -> int:
        embedding = self.model.get_input_embeddings()
        return len(embedding.weight) if hasattr(embedding, "weight") else len(self.linear.weight)

    def _logits(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=ids.to(self.device), use_cache=False).logits
        return logits

    def _check_causal(self, ids: Tensor, c: Tensor) -> None:
        """A later token must not change an earlier context: encoders such as BERT load as causal models, but are not."""
        other = ids.clone()
        other[0, -1] = (ids[0, -1] + 1) % self._words()
        moved = float((self.contexts(other)[0, :-1] - c[0, :-1]).abs().max()) / max(1e-6, float(c.abs().max()))
        if moved > 0.01:
            raise UserError(
                f"{type(self.model).__name__} is not causal: a later token changes earlier contexts. Use a causal language model."
            )


def linear_of(model: Any) -> nn.Linear:
    """The model's last linear layer; one that is wrapped, quantized or missing is refused."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    linear = base.get_output_embeddings() if hasattr(base, "get_output_embeddings") else None
    weight = getattr(linear, "weight", None)
    if linear is None or not isinstance(weight, Tensor):
        raise UserError(f"{type(base).__name__} has no output layer with rows of words. Use a causal language model.")
    if weight.dim() != 2 or not weight.is_floating_point():
        raise UserError(
            f"The head of {type(base).__name__} is stored as {weight.dtype} {tuple(weight.shape)}, which cannot be read as rows of "
            "words. Load the model in float32, bfloat16 or float16."
        )
    if not isinstance(linear, nn.Linear):
        raise UserError(
            f"The head of {type(base).__name__} is a {type(linear).__name__}; a plain linear layer was expected."
        )
    return linear


class evaluating:
    """Dropout off inside this block; afterwards each of the model's modules is in the mode it was in."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.before = model, [(module, module.training) for module in model.modules()]

    def __enter__(self) -> None:
        self.model.eval()

    def __exit__(self, *error: object) -> None:
        for module, training in self.before:
            module.training = training
