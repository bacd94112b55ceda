"""The z-loss inside a model of transformers: `model(input_ids, labels=labels).loss` has the penalty in it while training.

    z = attach_z_loss(model, alpha=1e-4)
    model(input_ids=ids, labels=ids).loss.backward()      # cross-entropy and penalty; the logits are never made
    z.stats()                                             # loss without the penalty, mu_z, sigma_z, largest, norm of the head
    z.detach()

While the model is in training mode and labels are given, its head hands the hidden states to `linear_z_loss`. The labels are
shifted as transformers does it, `num_items_in_batch` is honoured, and everything that a Trainer does with a loss stays right.
In evaluation the model is as it was: logits, and a loss without the penalty.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selfnorm._util.errors import UserError
from selfnorm.criteria.linear_z_loss import linear_z_loss
from selfnorm.criteria.z_loss import LogZMonitor, z_loss
from selfnorm.hf.adapter import Adapter

KEPT = 4096  # losses whose log Z wait for `stats`


class Watched:
    """Numbers of log Z since they were last asked for, of the last KEPT losses. `weight` is the head's, for its norm."""

    def __init__(self, alpha: float, weight: Tensor | None = None) -> None:
        if not alpha >= 0:
            raise UserError(f"alpha = {alpha}: a number of at least 0 was expected, such as 1e-4.")
        self.alpha, self.weight = alpha, weight
        self.monitor = LogZMonitor(None if weight is None else len(weight))
        self.waiting: deque[Tensor] = deque(maxlen=KEPT)

    def detach(self) -> None:
        """Here nothing is attached to a model."""

    def stats(self) -> dict[str, float]:
        """mu_z, sigma_z, largest |log Z|, the mean penalty, and the norm of the head, since the last call; over all
        processes where training is distributed, so all must call it."""
        every = torch.cat(list(self.waiting) or [torch.zeros(0, dtype=torch.float64)])
        largest = every.abs().max().view(1) if len(every) else every.new_zeros(1)
        sums = torch.stack([torch.ones_like(every).sum(), every.sum(), (every * every).sum()])
        self.waiting.clear()
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(sums)
            torch.distributed.all_reduce(largest, torch.distributed.ReduceOp.MAX)
        count, total, squares = sums.tolist()
        norm = {} if self.weight is None else {"head_norm": float(self.weight.detach().float().norm())}
        if not count:
            return norm
        self.monitor.reset()
        self.monitor._take(int(count), total, squares, float(largest))
        return {
            "mu_z": self.monitor.mu_z,
            "sigma_z": self.monitor.sigma_z,
            "largest_log_z": float(largest),
            "z_penalty": self.alpha * squares / count,
            **norm,
        }

    def sentence(self) -> str:
        """Is log Z under control? Of the tokens of the last `stats`."""
        return self.monitor.sentence() if math.isfinite(self.monitor.sum) else "log Z is not a finite number any more."


class AttachedZLoss(Watched):
    """A model with a z-loss. Made by attach_z_loss."""

    def __init__(self, model: Any, alpha: float, keep_logits: bool) -> None:
        super().__init__(alpha)
        self.model = model.get_base_model() if hasattr(model, "get_base_model") else model
        if getattr(self.model, "_selfnorm_z_loss", None) is not None:
            raise UserError("The model has a z-loss already: detach it first.")
        adapter = Adapter(self.model)
        super().__init__(alpha, adapter.linear.weight)
        self.linear, self.link, self.keep_logits, self.used = adapter.linear, adapter.link, keep_logits, False
        self.hidden: Tensor | None = None
        self.plain = self.model.loss_function
        self.model.loss_function = self._loss
        vars(self.linear)["forward"] = self._head
        self.expecting = self.model.register_forward_pre_hook(self._begin, with_kwargs=True)
        self.model._selfnorm_z_loss = self
        self.active = False
        try:
            self._check()
        except BaseException:
            self.detach()
            raise

    def detach(self) -> None:
        """The model as it was."""
        self.model.loss_function = self.plain
        self.linear.__dict__.pop("forward", None)
        self.expecting.remove()
        self.model._selfnorm_z_loss = None

    def _check(self) -> None:
        """Does the model's forward pass come by the loss at all?"""
        training = self.model.training
        ids = torch.zeros(1, 4, dtype=torch.long, device=self.linear.weight.device)
        self.model.train()
        try:
            with torch.no_grad():
                self.model(input_ids=ids, labels=ids)
        finally:
            self.model.train(training)
        if not self.used:
            raise UserError(
                f"{type(self.model).__name__} computes its loss in a way of its own: a z-loss cannot be attached."
            )
        self.waiting.clear()

    def _begin(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self.active = module.training and kwargs.get("labels") is not None

    def _head(self, c: Tensor) -> Tensor:
        if not self.active or self.keep_logits:
            return F.linear(c, self.linear.weight, self.linear.bias)
        self.hidden = c
        return c[..., :1]

    def _loss(self, logits: Tensor, labels: Tensor, vocab_size: int | None = None, num_items_in_batch: Any = None,
              ignore_index: int = -100, shift_labels: Tensor | None = None, **more: Any) -> Tensor:  # fmt: skip
        if not self.active:
            given = {
                "num_items_in_batch": num_items_in_batch,
                "ignore_index": ignore_index,
                "shift_labels": shift_labels,
            }
            plain: Tensor = self.plain(logits=logits, labels=labels, vocab_size=vocab_size, **given, **more)
            return plain
        self.used = True
        target = F.pad(labels, (0, 1), value=ignore_index)[..., 1:] if shift_labels is None else shift_labels
        tokens = num_items_in_batch if num_items_in_batch is not None else (target != ignore_index).sum().clamp(min=1)
        if self.hidden is None:
            loss = z_loss(logits, target, self.alpha, ignore_index, tokens)
        else:
            c, self.hidden = self.hidden, None
            head = (
                self.linear.weight,
                target.to(c.device),
                self.alpha,
                self.linear.bias,
                self.link.scale,
                self.link.cap,
            )
            loss = linear_z_loss(c, *head, tokens=tokens, ignore_index=ignore_index)
        self.waiting.append(loss.log_z.double())
        return loss.total


class ZLossFunction(Watched):
    """A compute_loss_func for trainers that do not use the model's own loss, such as TRL's SFTTrainer: the logits are made.

    The labels are shifted here. Without gradients, as in evaluation, there is no penalty.
    """

    def __call__(self, outputs: Any, labels: Tensor, num_items_in_batch: Any = None, **more: Any) -> Tensor:
        target = F.pad(labels, (0, 1), value=-100)[..., 1:]
        tokens = num_items_in_batch if num_items_in_batch is not None else (target != -100).sum().clamp(min=1)
        learning = torch.is_grad_enabled()
        loss = z_loss(outputs.logits, target, self.alpha if learning else 0.0, tokens=tokens)
        if learning:
            self.waiting.append(loss.log_z.double())
        return loss.total


def attach_z_loss(model: Any, alpha: float = 1e-4, keep_logits: bool = False) -> AttachedZLoss:
    """Add alpha · (log Z)² to a causal model's own loss while it trains; see this module's text.

    keep_logits   make the logits as usual, for trainers that look at them: the penalty without the saving of memory
    """
    return AttachedZLoss(model, alpha, keep_logits)
