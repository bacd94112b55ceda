"""The exported files: the graph, eight bits if wanted, the vocabulary, and a JSON that says how to feed it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from selfnorm._util.errors import UserError, missing_extra
from selfnorm._util.files import atomic, read_json, write_json, write_text
from selfnorm.data.vocab import Vocab
from selfnorm.nn.model import LanguageModel
from selfnorm.nn.output import Output
from selfnorm.nn.recurrent import Recurrent
from selfnorm.scoring.onnx.graph import language_model

RESULTS = ("train", "valid", "test", "complete", "times", "cost", "calibration", "env")


def export(
    model: LanguageModel, vocab: Vocab, path: Path, exact: bool = False, int8: bool = False, signature: str = ""
) -> None:
    """Write the graph, and next to it the vocabulary and a JSON with the `signature` and how to feed it."""
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "onnx", "Exporting") from None
    if not isinstance(model.output, Output):
        raise UserError(
            "A model that is normalized by construction has no scores of single words to export. Score it with selfnorm score."
        )
    if not isinstance(model.encoder, Recurrent):
        raise UserError("Only LSTM and GRU encoders can be exported. Score this model with selfnorm score.")
    if int8 and not isinstance(model.encoder.layers[0], nn.LSTM):
        raise UserError("onnxruntime has eight-bit weights for LSTM only. Export this model without --int8.")
    _refuse_overwriting(path)
    made = language_model(onnx, model, exact, int8)
    onnx.checker.check_model(made)
    with atomic(path) as temporary:
        if int8:
            _quantize(made, temporary)
        else:
            onnx.save(made, str(temporary))
    write_text(path.with_suffix(".vocab.txt"), "".join(f"{word}\n" for word in vocab.words))
    write_json(path.with_suffix(".json"), {"signature": signature, **_facts(model.encoder, vocab, exact, int8)})


def rounding_error(model: LanguageModel, vocab: Vocab, path: Path, contexts: int = 512) -> tuple[float, float]:
    """Mean and largest difference in nats between the graph's m and the model's, over words drawn by their counts."""
    try:
        from onnxruntime import InferenceSession
    except ImportError:
        raise missing_extra("onnxruntime", "onnx", "Running the exported graph") from None
    session, rng = InferenceSession(str(path)), np.random.default_rng(0)
    share = np.maximum(vocab.counts, 1) / np.maximum(vocab.counts, 1).sum()
    words = rng.choice(len(vocab), size=(16, contexts // 16), p=share)
    candidates = rng.choice(len(vocab), size=(*words.shape, 4), p=share)
    feed = {"words": words, "candidates": candidates}
    feed |= {i.name: np.zeros((1, 16, model.encoder.d), np.float32) for i in session.get_inputs()[2:]}
    m = session.run(["m"], feed)[0]
    with torch.no_grad():
        c, _ = model.contexts(torch.from_numpy(words), None)
        off = np.abs(m - model.output.m_each(torch.from_numpy(candidates), c).numpy())
    return float(off.mean()), float(off.max())


def _refuse_overwriting(path: Path) -> None:
    """The vocabulary and the JSON take the graph's name, which must not be that of something else."""
    if path.suffix != ".onnx":
        raise UserError(f"{path}: the graph's file must end in .onnx; a .json of the same name says how to feed it.")
    if path.stem.partition(".")[0] in RESULTS:
        raise UserError(f"{path}: a run's own results are called {path.stem}.json. Choose another --out.")
    facts = path.with_suffix(".json")
    if facts.exists() and not (isinstance(known := read_json(facts), dict) and "int8" in known):
        raise UserError(f"{facts} would be overwritten, and it is not of a graph. Choose another --out.")


def _facts(encoder: Recurrent, vocab: Vocab, exact: bool, int8: bool) -> dict[str, Any]:
    return {
        "encoder": "lstm" if isinstance(encoder.layers[0], nn.LSTM) else "gru",
        "layers": len(encoder.layers),
        "d": encoder.d,
        "eos": vocab.eos,
        "unk": vocab.unk,
        "exact": exact,
        "int8": int8,
    }


def _quantize(made: Any, path: Path) -> None:
    """int8 weights with reduce_range: without it AVX2 processors saturate and scores are off by a tenth.

    A calibration's network (nodes g…) stays float: it is small, and rounding would undo what it was fitted for. So does
    the product with all rows: log Z must be of the same rows as the candidates' scores, which are looked up in float.
    """
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError:
        raise missing_extra("onnxruntime", "onnx", "int8 export") from None
    logging.disable(logging.WARNING)  # it advises a pre-processing that a hand-built graph does not need
    try:
        quantize_dynamic(
            made,
            str(path),
            weight_type=QuantType.QInt8,
            reduce_range=True,
            op_types_to_quantize=["LSTM", "MatMul"],
            nodes_to_exclude=[n.name for n in made.graph.node if n.name.startswith("g") or n.name == "all_products"],
        )
    finally:
        logging.disable(logging.NOTSET)
