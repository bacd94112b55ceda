"""selfnorm export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from selfnorm._util.console import say
from selfnorm.cli.options import Device, Kind


def export(
    run: Path, /, *, to: Annotated[Literal["onnx"], Parameter(name="--to")] = "onnx",
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    exact: Annotated[bool, Parameter(negative="")] = False, int8: Annotated[bool, Parameter(negative="")] = False,
    calibration: Kind = None, device: Device = "",
) -> None:  # fmt: skip
    """Export a model as an ONNX graph that scores candidate words only, for use without torch.

    Parameters
    ----------
    run
        Run folder made by selfnorm train.
    to
        The format.
    out
        File to write (default model.onnx in the run folder), with its vocabulary and a JSON next to it.
    exact
        Also give exact log Z (multiplies by the whole output table).
    int8
        Quantize the weights to eight bits, word tables included unless --exact is given. The rounding error is measured and printed.
    """
    from selfnorm.runs.calibrations import signed
    from selfnorm.runs.folder import open_run
    from selfnorm.scoring.onnx.export import export as work
    from selfnorm.scoring.onnx.export import rounding_error

    opened = open_run(run, device)
    scorer, kind = opened.scorer(exact, calibration), opened.kind(calibration)
    path = out or run / ("model.int8.onnx" if int8 else "model.onnx")
    work(scorer.model, scorer.vocab, path, exact, int8, signed(opened, "", kind))
    say(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    if int8:
        mean, largest = rounding_error(scorer.model, scorer.vocab, path)
        say(
            f"scores differ from the float model's by {mean:.3f} nats on average, at most {largest:.3f} (words drawn by their counts)"
        )
