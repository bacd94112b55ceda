"""The run folder: what is saved and how it is found again. Everything in it is readable or safetensors.

recipe.toml  vocab.txt  env.json  history.jsonl      readable in an editor
model.safetensors  best.safetensors                  the last and the best weights, ready to score: m estimates log p
checkpoint.safetensors                               weights, state, chance and place, to resume exactly
calibration.json  calibration.shift.safetensors …    what `calibrate` found, and which kind is in use
valid.json  test.json  test.shift.json …             measurements, one file per split and calibration
complete.json  complete.mlp.json …                   sentence completion, one file per calibration
"""

from selfnorm.runs.calibration import (
    apply,
    calibrated,
    fitted,
    has_calibration,
    save_calibration,
    signed,
    use_calibration,
)
from selfnorm.runs.folder import (
    Run,
    create,
    forget_measured,
    open_run,
    refuse_foreign,
    refuse_replaced,
    stamp,
    trained_epochs,
)
from selfnorm.runs.loading import load_model
from selfnorm.runs.weights import begin, fill, fresh_model, read_tensors, save_weights, tensors_of

__all__ = [
    "Run",
    "apply",
    "begin",
    "calibrated",
    "create",
    "fill",
    "fitted",
    "forget_measured",
    "fresh_model",
    "has_calibration",
    "load_model",
    "open_run",
    "read_tensors",
    "refuse_foreign",
    "refuse_replaced",
    "save_calibration",
    "save_weights",
    "signed",
    "stamp",
    "tensors_of",
    "trained_epochs",
    "use_calibration",
]
