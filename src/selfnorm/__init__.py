"""selfnorm: language models that need no softmax when they are used.

    import selfnorm as sn

    run = sn.train("runs/nce", text="my.txt", criterion="nce", d=100)
    run.calibrate("mlp")
    run.measure("test").sigma_z
    sn.load("runs/nce").score("Raw text, as you have it.")

Everything that is public is here; it is imported when it is first used, so that `import selfnorm` is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from selfnorm._util.isa import limit

__version__ = "0.3.0"

limit()

if TYPE_CHECKING:
    from selfnorm._util.errors import Diverged, NotSelfNormalized, UserError
    from selfnorm.calibration.normalize import fit_normalizer, load_normalizer, save_normalizer
    from selfnorm.criteria.linear_z_loss import linear_z_loss
    from selfnorm.criteria.z_loss import LogZMonitor, ZLoss, z_loss
    from selfnorm.evaluation.measurement import Measurement
    from selfnorm.nn.output import Output
    from selfnorm.runs.folder import Run, open_run
    from selfnorm.runs.opening import load
    from selfnorm.scoring.scorer import Scorer
    from selfnorm.tasks.rescorer import Rescorer, rescore
    from selfnorm.training.train import train

_PUBLIC = {
    "train": "training.train",
    "load": "runs.opening",
    "open_run": "runs.folder",
    "Rescorer": "tasks.rescorer",
    "rescore": "tasks.rescorer",
    "Run": "runs.folder",
    "Scorer": "scoring.scorer",
    "Measurement": "evaluation.measurement",
    "Output": "nn.output",
    "fit_normalizer": "calibration.normalize",
    "save_normalizer": "calibration.normalize",
    "load_normalizer": "calibration.normalize",
    "z_loss": "criteria.z_loss",
    "linear_z_loss": "criteria.linear_z_loss",
    "ZLoss": "criteria.z_loss",
    "LogZMonitor": "criteria.z_loss",
    "UserError": "_util.errors",
    "NotSelfNormalized": "_util.errors",
    "Diverged": "_util.errors",
}

__all__ = [
    "Diverged",
    "LogZMonitor",
    "Measurement",
    "NotSelfNormalized",
    "Output",
    "Rescorer",
    "Run",
    "Scorer",
    "UserError",
    "ZLoss",
    "__version__",
    "fit_normalizer",
    "linear_z_loss",
    "load",
    "load_normalizer",
    "open_run",
    "rescore",
    "save_normalizer",
    "train",
    "z_loss",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'selfnorm' has no attribute {name!r}")
    return getattr(import_module(f"selfnorm.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
