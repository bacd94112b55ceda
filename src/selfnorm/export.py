"""Export to ONNX: a graph with explicit state and free batch and time axes, built by hand.

It takes words and candidate words and never multiplies by the whole output table. torch's exporters freeze the time
axis of an LSTM, so the graph is put together with onnx's helper.

    inputs   words (B, T) int64, candidates (B, T, K) int64, h0.. c0.. (1, B, d) per layer
    outputs  m (B, T, K): scores of the candidates after each word; log_z (B, T) if exact; h.. c.. next state
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from selfnorm.errors import UserError, missing_extra
from selfnorm.files import atomic, write_json, write_text
from selfnorm.model import LanguageModel
from selfnorm.normalizers import Mlp
from selfnorm.output import Output
from selfnorm.text import Vocab


def export(model: LanguageModel, vocab: Vocab, path: Path, exact: bool = False, int8: bool = False) -> None:
    """Write the graph, and beside it the vocabulary and a JSON that says how to feed it."""
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "onnx", "Exporting") from None
    if (
        not isinstance(model.output, Output)
        or model.output.link
        or not all(isinstance(layer, nn.LSTM) for layer in model.encoder.layers)
    ):
        raise UserError(
            "Only LSTM models with a full output layer, without squash or log-sigmoid, are exported. Score this one with selfnorm score."
        )
    made = _graph(onnx, model, exact)
    onnx.checker.check_model(made)
    with atomic(path) as temporary:
        if int8:
            _quantize(onnx, made, temporary)
        else:
            onnx.save(made, str(temporary))
    write_text(path.with_suffix(".vocab.txt"), "".join(f"{word}\n" for word in vocab.words))
    facts = {
        "layers": len(model.encoder.layers),
        "d": model.encoder.d,
        "eos": vocab.eos,
        "unk": vocab.unk,
        "exact": exact,
        "int8": int8,
    }
    write_json(path.with_suffix(".json"), facts)


def _quantize(onnx: Any, made: Any, path: Path) -> None:
    """int8 weights with reduce_range: without it AVX2 processors saturate and scores are off by a tenth.

    A calibration's network (nodes g_…) stays float: it is small, and rounding would undo what it was fitted for. So does
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
            nodes_to_exclude=[n.name for n in made.graph.node if n.name.startswith("g_") or n.name == "all_products"],
        )
    finally:
        logging.disable(logging.NOTSET)


def _graph(onnx: Any, model: LanguageModel, exact: bool) -> Any:
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes, weights = [], []

    def hold(name: str, value: np.ndarray) -> str:
        weights.append(onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    d = model.encoder.d
    add("Transpose", ["words"], "words_t", perm=[1, 0])
    x = add("Gather", [hold("table", _array(model.encoder.table)), "words_t"], "x0")  # (T, B, d)
    states = []
    for i, layer in enumerate(model.encoder.layers):
        w, r, b = _lstm_weights(layer)
        names = [hold(f"W{i}", w), hold(f"R{i}", r), hold(f"b{i}", b)]
        nodes.append(
            helper.make_node(
                "LSTM", [x, *names, "", f"h{i}_in", f"c{i}_in"], [f"y{i}", f"h{i}", f"c{i}"], hidden_size=d
            )
        )
        x = add("Squeeze", [f"y{i}", hold(f"axis{i}", np.array([1]))], f"x{i + 1}")
        states += [f"h{i}", f"c{i}"]
    c = add("Transpose", [x], "c", perm=[1, 0, 2])  # (B, T, d)
    rows = add("Gather", [hold("rows", _array(model.output.weight)), "candidates"], "candidate_rows")  # (B, T, K, d)
    column = add("Unsqueeze", [c, hold("last", np.array([3]))], "c_column")
    dot = add("Squeeze", [add("MatMul", [rows, column], "products"), "last"], "dots")
    bias = add("Gather", [hold("bias", _array(model.output.bias).reshape(-1)), "candidates"], "candidate_bias")
    m = add("Add", [dot, bias], "m_raw")
    g = _normalizer(model.output.normalizer, hold, add)
    outputs = ["m"]
    add("Sub", [m, add("Unsqueeze", [g, hold("axis_k", np.array([2]))], "g_column")], "m") if g else add(
        "Identity", [m], "m"
    )
    if exact:
        every = add(
            "Add",
            [add("MatMul", ["c", hold("rows_t", _array(model.output.weight).T)], "all_products"), "bias"],
            "all_m",
        )
        raw = add("ReduceLogSumExp", [every, hold("axis_v", np.array([2]))], "log_z_raw", keepdims=0)
        add("Sub", [raw, g], "log_z") if g else add("Identity", [raw], "log_z")
        outputs.append("log_z")
    return _model(helper, kinds, nodes, weights, outputs, states, d)


def _features(normalizer: Mlp, hold: Any, add: Any) -> str:
    """c, and beside it the log of the frequent words' sum where the calibration uses it."""
    if normalizer.frequent is None:
        return "c"
    product = add("MatMul", ["c", hold("g_rows", _array(normalizer.frequent.weight).T)], "g_products")
    m = add("Add", [product, hold("g_row_bias", _array(normalizer.frequent.bias))], "g_frequent")
    part = add("ReduceLogSumExp", [m, hold("g_last", np.array([2]))], "g_part", keepdims=1)
    return str(add("Concat", ["c", part], "g_features", axis=2))


def _normalizer(normalizer: nn.Module | None, hold: Any, add: Any) -> str:
    """g(c) of an mlp calibration; shift and affine are in the rows already."""
    if normalizer is None:
        return ""
    if not isinstance(normalizer, Mlp):
        raise UserError("This normalizer cannot be exported; calibrate with shift, affine or mlp.")
    x = _features(normalizer, hold, add)
    first = add("MatMul", [x, hold("g_a", _array(normalizer.affine.a).reshape(-1, 1))], "g_affine")
    linears = [layer for layer in normalizer.network if isinstance(layer, nn.Linear)]
    for i, layer in enumerate(linears):
        x = add(
            "Add",
            [
                add("MatMul", [x, hold(f"g_w{i}", _array(layer.weight).T)], f"g_p{i}"),
                hold(f"g_b{i}", _array(layer.bias)),
            ],
            f"g_z{i}",
        )
        if i + 1 < len(linears):
            x = add("Mul", [x, add("Sigmoid", [x], f"g_s{i}")], f"g_h{i}")
    total = add(
        "Add",
        [add("Add", [first, x], "g_sum"), hold("g_bias", _array(normalizer.affine.b).reshape(1))],
        "g_total",
    )
    scaled = add("Mul", [total, hold("g_scale", np.array([normalizer.scale], dtype=np.float32))], "g_scaled")
    return str(add("Squeeze", [scaled, hold("g_axis", np.array([2]))], "g"))


def _model(
    helper: Any,
    kinds: Any,
    nodes: list[Any],
    weights: list[Any],
    outputs: list[str],
    states: list[str],
    d: int,
) -> Any:
    shapes = {"m": ["B", "T", "K"], "log_z": ["B", "T"]}
    inputs = [
        helper.make_tensor_value_info("words", kinds.INT64, ["B", "T"]),
        helper.make_tensor_value_info("candidates", kinds.INT64, ["B", "T", "K"]),
    ]
    inputs += [helper.make_tensor_value_info(f"{name}_in", kinds.FLOAT, [1, "B", d]) for name in states]
    results = [helper.make_tensor_value_info(name, kinds.FLOAT, shapes[name]) for name in outputs]
    results += [helper.make_tensor_value_info(name, kinds.FLOAT, [1, "B", d]) for name in states]
    graph = helper.make_graph(nodes, "selfnorm", inputs, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _lstm_weights(layer: nn.Module) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """torch keeps the gates as i, f, g, o; ONNX wants i, o, f, c and both biases in one row."""

    def turn(a: np.ndarray) -> np.ndarray:
        i, f, g, o = np.split(a, 4)
        return np.concatenate([i, o, f, g])

    w, r = turn(_array(layer.weight_ih_l0)), turn(_array(layer.weight_hh_l0))
    b = np.concatenate([turn(_array(layer.bias_ih_l0)), turn(_array(layer.bias_hh_l0))])
    return w[None], r[None], b[None]


def _array(tensor: Any) -> np.ndarray:
    found: np.ndarray = tensor.detach().numpy()
    return found
