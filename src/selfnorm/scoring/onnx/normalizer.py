"""g(c) in the graph: the estimate of log Z by a normalizer trained with the model, a calibration, or both. Its names begin with g."""

from __future__ import annotations

import numpy as np
from torch import nn

from selfnorm._util.errors import UserError
from selfnorm.calibration.top_exact import TopExact
from selfnorm.nn.normalizers import Affine, Mlp, Sum
from selfnorm.scoring.onnx.parts import Parts, array
from selfnorm.scoring.onnx.top_exact import top_exact


def normalizer(parts: Parts, g: nn.Module | None, name: str = "g", int8: bool = False) -> str:
    """The name of g(c) (B, T), or nothing where there is none: shift and affine are in the rows already, mostly."""
    if g is None:
        return ""
    if isinstance(g, Sum):
        both = [normalizer(parts, one, f"{name}{place}", int8) for place, one in enumerate((g.one, g.two), 1)]
        return parts.add("Add", both, name)
    if isinstance(g, TopExact):
        return top_exact(parts, g, name, int8)
    if not isinstance(g, (Affine, Mlp)):
        raise UserError(f"A calibration of your own ({type(g).__name__}) cannot be exported; use a built-in one.")
    column = _affine(parts, g, "c", f"{name}_affine") if isinstance(g, Affine) else _mlp(parts, g, name)
    return parts.add("Squeeze", [column, parts.hold("g_axis", np.array([2]))], name)


def _affine(parts: Parts, g: Affine, x: str, name: str) -> str:
    product = parts.add("MatMul", [x, parts.hold(f"{name}_a", array(g.a).reshape(-1, 1))], f"{name}_product")
    return parts.add("Add", [product, parts.hold(f"{name}_b", array(g.b).reshape(1))], name)


def _mlp(parts: Parts, g: Mlp, name: str) -> str:
    x = features = _features(parts, g, name)
    linears = [layer for layer in g.network if isinstance(layer, nn.Linear)]
    for i, layer in enumerate(linears):
        product = parts.add("MatMul", [x, parts.hold(f"{name}_w{i}", array(layer.weight).T)], f"{name}_p{i}")
        x = parts.add("Add", [product, parts.hold(f"{name}_b{i}", array(layer.bias))], f"{name}_z{i}")
        if i + 1 < len(linears):
            x = parts.add("Mul", [x, parts.add("Sigmoid", [x], f"{name}_s{i}")], f"{name}_h{i}")
    total = parts.add("Add", [_affine(parts, g.affine, features, f"{name}_affine"), x], f"{name}_total")
    return parts.add("Mul", [total, parts.number(f"{name}_scale", float(g.scale))], f"{name}_scaled")


def _features(parts: Parts, g: Mlp, name: str) -> str:
    """c, and next to it the log of the frequent words' sum where the calibration uses it."""
    if g.frequent is None:
        return "c"
    product = parts.add("MatMul", ["c", parts.hold(f"{name}_rows", array(g.frequent.weight).T)], f"{name}_products")
    m = parts.add("Add", [product, parts.hold(f"{name}_row_bias", array(g.frequent.bias))], f"{name}_frequent")
    part = parts.add("ReduceLogSumExp", [m, parts.hold("g_last", np.array([2]))], f"{name}_part", keepdims=1)
    return parts.add("Concat", ["c", part], f"{name}_features", axis=2)
