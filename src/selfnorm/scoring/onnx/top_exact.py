"""screen and int8 in the graph: a preview of all words, the largest by TopK and Gather exactly, log-sum-exp over both."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from selfnorm.calibration.int8 import Int8
from selfnorm.calibration.screen import Screen
from selfnorm.calibration.top_exact import TopExact
from selfnorm.nn.int8 import CONTEXTS
from selfnorm.scoring.onnx.parts import Parts, array, link


def top_exact(parts: Parts, g: TopExact, name: str, int8_tables: bool) -> str:
    """The name of g(c) (B, T)."""
    head = g.head
    preview = _screen(parts, g, name) if isinstance(g, Screen) else _int8(parts, g, name)
    m = link(parts, preview, head.link)
    count = parts.hold(f"{name}_top", np.array([int(g.top)]))
    parts.add("TopK", [m, count], f"{name}_largest", f"{name}_words", axis=2, sorted=0)
    exact = _exact(parts, head.weight, head.bias, f"{name}_words", name, int8_tables)
    every = parts.add("ScatterElements", [m, f"{name}_words", link(parts, exact, head.link)], f"{name}_every", axis=2)
    return parts.add("ReduceLogSumExp", [every, parts.hold("g_axis_v", np.array([2]))], name, keepdims=0)


def _exact(parts: Parts, weight: Tensor, bias: Tensor, words: str, name: str, int8_tables: bool) -> str:
    """w·c + b of each context's own words (B, T, N), of the same rows as the candidates' scores."""
    rows = parts.rows("rows", array(weight), words, f"{name}_rows", int8_tables)
    column = parts.add("Unsqueeze", ["c", parts.hold("last", np.array([3]))], f"{name}_c_column")
    dot = parts.add("Squeeze", [parts.add("MatMul", [rows, column], f"{name}_products"), "last"], f"{name}_dots")
    own = parts.add("Gather", [parts.hold("bias", array(bias).reshape(-1)), words], f"{name}_bias")
    return parts.add("Add", [dot, own], f"{name}_exact")


def _screen(parts: Parts, g: Screen, name: str) -> str:
    rank = g.preview.shape[1] - 1
    centred = parts.add("Sub", ["c", parts.hold(f"{name}_mean", array(g.mean))], f"{name}_centred")
    every = parts.add("MatMul", [centred, parts.hold(f"{name}_project", array(g.project))], f"{name}_directions")
    sizes = parts.hold(f"{name}_sizes", np.array([rank, g.project.shape[1] - rank]))
    parts.add("Split", [every, sizes], f"{name}_kept", f"{name}_dropped", axis=2)
    axis = parts.hold("g_axis_last", np.array([2]))
    s = parts.add("ReduceSumSquare", [f"{name}_dropped", axis], f"{name}_s", keepdims=1)
    y = parts.add("Concat", [f"{name}_kept", s], f"{name}_y", axis=2)
    y = parts.add("Div", [y, parts.hold(f"{name}_factor", array(g.factor))], f"{name}_balanced")
    if g.kind == "int8":
        product = _integers(parts, y, g.preview, g.row_scale, name)
    else:
        rows = parts.hold(f"{name}_preview", array(g.preview.float()).T)
        product = parts.add("MatMul", [y, rows], f"{name}_product")
    return parts.add("Add", [product, parts.hold(f"{name}_offset", array(g.offset))], f"{name}_scores")


def _int8(parts: Parts, g: TopExact, name: str) -> str:
    assert isinstance(g, Int8)
    balanced = parts.add("Div", ["c", parts.hold(f"{name}_factor", array(g.factor))], f"{name}_balanced")
    product = _integers(parts, balanced, g.rows, g.row_scale, name)
    return parts.add("Add", [product, parts.hold("bias", array(g.head.bias).reshape(-1))], f"{name}_scores")


def _integers(parts: Parts, x: str, rows: Tensor, row_scale: Tensor, name: str) -> str:
    """x·rowsᵀ with both sides in integers, as nn/int8.py does it."""
    kinds = parts.onnx.TensorProto
    axis = parts.hold("g_axis_last", np.array([2]))
    largest = parts.add("ReduceMax", [parts.add("Abs", [x], f"{name}_abs"), axis], f"{name}_max", keepdims=1)
    some = parts.add("Max", [largest, parts.number(f"{name}_tiny", 1e-12)], f"{name}_some")
    scale = parts.add("Div", [some, parts.number(f"{name}_bits", float(CONTEXTS))], f"{name}_scale")
    rounded = parts.add("Round", [parts.add("Div", [x, scale], f"{name}_divided")], f"{name}_rounded")
    shifted = parts.add("Add", [rounded, parts.number(f"{name}_middle", 128.0)], f"{name}_shifted")
    unsigned = parts.add("Cast", [shifted], f"{name}_unsigned", to=kinds.UINT8)
    zero = parts.hold(f"{name}_zero", np.array(128, dtype=np.uint8))
    table = parts.hold(f"{name}_int8", array(rows).T)
    sums = parts.add("MatMulInteger", [unsigned, table, zero], f"{name}_sums")
    floats = parts.add("Mul", [parts.add("Cast", [sums], f"{name}_floats", to=kinds.FLOAT), scale], f"{name}_scaled")
    return parts.add("Mul", [floats, parts.hold(f"{name}_row_scale", array(row_scale))], f"{name}_product")
