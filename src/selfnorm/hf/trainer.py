"""The z-loss in transformers' Trainer: a callback, and a mixin for those who subclass.

    Trainer(model, arguments, train_dataset=data, callbacks=[ZLossCallback(alpha=1e-4)]).train()

    class MyTrainer(ZLossMixin, Trainer): ...
    MyTrainer(model, arguments, train_dataset=data, z_alpha=1e-4).train()

Both put mu_z, sigma_z, largest_log_z, z_penalty and head_norm into log_history beside the loss, which has the penalty in it.
Evaluation is without the penalty.
"""

from __future__ import annotations

import warnings
from typing import Any

from selfnorm._util.errors import missing_extra
from selfnorm.hf.adapter import linear_of
from selfnorm.hf.zloss import Watched, ZLossFunction, attach_z_loss

try:
    from transformers import TrainerCallback
except ImportError:
    raise missing_extra("transformers", "hf", "The callback") from None


class ZLossCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Attach a z-loss when training begins, log its numbers, and detach it at the end. alpha = 0 only watches log Z."""

    def __init__(self, alpha: float = 1e-4, keep_logits: bool = False, function: ZLossFunction | None = None) -> None:
        """function: the compute_loss_func of a trainer that does not use the model's own loss; nothing is attached then."""
        self.alpha, self.keep_logits, self.function = alpha, keep_logits, function
        self.attached: Watched | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        if self.function is None:
            self.attached = attach_z_loss(_bare(model), self.alpha, self.keep_logits)
        else:
            self.function.weight = linear_of(_bare(model)).weight
            self.attached = self.function

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **more: Any) -> None:
        """log_history has a copy of the logs already: it is added to as well."""
        if self.attached is None or logs is None or "loss" not in logs:
            return
        numbers = self.attached.stats()
        if "mu_z" not in numbers:
            warnings.warn(
                "This trainer does not use the model's own loss, so there is no z-loss in it. Give it "
                "compute_loss_func=ZLossFunction(alpha), and the callback the same as function.",
                stacklevel=2,
            )
        logs.update(numbers)
        if state.log_history:
            state.log_history[-1].update(numbers)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self.attached is not None:
            self.attached.detach()
            self.attached = None


class ZLossMixin:
    """Put it before Trainer in the bases; the constructor takes z_alpha and z_keep_logits in addition."""

    def __init__(self, *args: Any, z_alpha: float = 1e-4, z_keep_logits: bool = False, **more: Any) -> None:
        super().__init__(*args, **more)
        self.add_callback(ZLossCallback(z_alpha, z_keep_logits))  # type: ignore[attr-defined]


def _bare(model: Any) -> Any:
    """The model without what trainers wrap around it."""
    while hasattr(model, "module"):
        model = model.module
    return model
