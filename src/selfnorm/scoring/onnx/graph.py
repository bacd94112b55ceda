"""The graph of a language model: words to c, candidates to m, and all words to log Z where that is wanted."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from torch import nn

from selfnorm.nn.model import LanguageModel
from selfnorm.nn.recurrent import Recurrent
from selfnorm.scoring.onnx.normalizer import normalizer
from selfnorm.scoring.onnx.parts import Parts, array, link


def language_model(onnx: Any, model: LanguageModel, exact: bool, int8: bool = False) -> Any:
    """With `int8` the word tables are stored in eight bits, unless log Z is wanted too, which must be of the same rows as m."""
    parts, small = Parts(onnx), int8 and not exact
    states = _encoder(parts, model, small)
    g = normalizer(parts, model.output.normalizer, int8=small)
    _candidates(parts, model, g, small)
    if exact:
        _log_z(parts, model, g)
    return _whole(parts, ["m", "log_z"] if exact else ["m"], states, model.encoder.d)


def _encoder(parts: Parts, model: LanguageModel, int8: bool) -> list[str]:
    """words (B, T) to c (B, T, d); returns the names of the state after the last word."""
    parts.add("Transpose", ["words"], "words_t", perm=[1, 0])
    x = parts.rows("table", array(model.encoder.table), "words_t", "x0", int8)  # (T, B, d)
    states = list[str]()
    for i, layer in enumerate(cast(Recurrent, model.encoder).layers):
        lstm = isinstance(layer, nn.LSTM)
        own = [f"h{i}", f"c{i}"] if lstm else [f"h{i}"]
        weights = [parts.hold(f"{name}{i}", value) for name, value in zip("WRb", _gates(layer), strict=True)]
        how = {"hidden_size": model.encoder.d} | ({} if lstm else {"linear_before_reset": 1})
        inputs = [x, *weights, "", *(f"{name}_in" for name in own)]
        parts.add("LSTM" if lstm else "GRU", inputs, f"y{i}", *own, **how)
        x = parts.add("Squeeze", [f"y{i}", parts.hold(f"axis{i}", np.array([1]))], f"x{i + 1}")
        states += own
    parts.add("Transpose", [x], "c", perm=[1, 0, 2])
    return states


def _gates(layer: nn.Module) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W, R, b as ONNX wants them: gates i, o, f, c where torch has i, f, g, o; z, r, h where torch has r, z, n; both biases in one row."""
    order = (0, 3, 1, 2) if isinstance(layer, nn.LSTM) else (1, 0, 2)

    def turn(tensor: Any) -> np.ndarray:
        gates = np.split(array(tensor), len(order))
        return np.concatenate([gates[place] for place in order])

    w, r = turn(layer.weight_ih_l0), turn(layer.weight_hh_l0)
    b = np.concatenate([turn(layer.bias_ih_l0), turn(layer.bias_hh_l0)])
    return w[None], r[None], b[None]


def _candidates(parts: Parts, model: LanguageModel, g: str, int8: bool) -> None:
    """m (B, T, K) of the candidates: only their rows are looked up."""
    rows = parts.rows("rows", array(model.output.weight), "candidates", "candidate_rows", int8)
    column = parts.add("Unsqueeze", ["c", parts.hold("last", np.array([3]))], "c_column")
    dot = parts.add("Squeeze", [parts.add("MatMul", [rows, column], "products"), "last"], "dots")
    bias = parts.add(
        "Gather", [parts.hold("bias", array(model.output.bias).reshape(-1)), "candidates"], "candidate_bias"
    )
    m = link(parts, parts.add("Add", [dot, bias], "m_raw"), model.output.link)
    if g:
        parts.add("Sub", [m, parts.add("Unsqueeze", [g, parts.hold("axis_k", np.array([2]))], "g_column")], "m")
    else:
        parts.add("Identity", [m], "m")


def _log_z(parts: Parts, model: LanguageModel, g: str) -> None:
    """Exact log Z (B, T), which multiplies by every row."""
    product = parts.add("MatMul", ["c", parts.hold("rows_t", array(model.output.weight).T)], "all_products")
    every = link(parts, parts.add("Add", [product, "bias"], "all_m"), model.output.link)
    raw = parts.add("ReduceLogSumExp", [every, parts.hold("axis_v", np.array([2]))], "log_z_raw", keepdims=0)
    parts.add("Sub", [raw, g], "log_z") if g else parts.add("Identity", [raw], "log_z")


def _whole(parts: Parts, outputs: list[str], states: list[str], d: int) -> Any:
    helper, kinds = parts.onnx.helper, parts.onnx.TensorProto
    shapes = {"m": ["B", "T", "K"], "log_z": ["B", "T"]}
    inputs = [
        helper.make_tensor_value_info("words", kinds.INT64, ["B", "T"]),
        helper.make_tensor_value_info("candidates", kinds.INT64, ["B", "T", "K"]),
    ]
    inputs += [helper.make_tensor_value_info(f"{name}_in", kinds.FLOAT, [1, "B", d]) for name in states]
    results = [helper.make_tensor_value_info(name, kinds.FLOAT, shapes[name]) for name in outputs]
    results += [helper.make_tensor_value_info(name, kinds.FLOAT, [1, "B", d]) for name in states]
    graph = helper.make_graph(parts.nodes, "selfnorm", inputs, results, parts.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
