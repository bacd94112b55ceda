"""Parts: the nodes and weights of a graph while it is put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Parts:
    """Every node has the name of its first result."""

    onnx: Any
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)

    def hold(self, name: str, value: np.ndarray) -> str:
        """A weight, once: asked for again under its name, it is the same."""
        if all(weight.name != name for weight in self.weights):
            self.weights.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def rows(self, table: str, value: np.ndarray, ids: str, result: str, int8: bool) -> str:
        """Rows of a table (V, d) by their ids: float, or eight bits with one scale a row, which are multiplied again after the lookup."""
        if not int8:
            return self.add("Gather", [self.hold(table, value), ids], result)
        scale = np.maximum(np.abs(value).max(1, keepdims=True), 1e-12) / 127
        rounded = np.rint(value / scale).astype(np.int8)
        found = self.add("Gather", [self.hold(table, rounded), ids], f"{result}_int8")
        scales = self.add("Gather", [self.hold(f"{table}_scale", scale.astype(np.float32)), ids], f"{result}_scale")
        floats = self.add("Cast", [found], f"{result}_float", to=self.onnx.TensorProto.FLOAT)
        return self.add("Mul", [floats, scales], result)

    def number(self, name: str, value: float) -> str:
        return self.hold(name, np.array([value], dtype=np.float32))

    def add(self, op: str, inputs: list[str], *outputs: str, **attributes: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(op, inputs, list(outputs), name=outputs[0], **attributes))
        return outputs[0]


def array(tensor: Any) -> np.ndarray:
    found: np.ndarray = tensor.detach().cpu().numpy()
    return found


def link(parts: Parts, x: str, link: str) -> str:
    """What bends the scores: 10 tanh(x/5) or log σ(x) = -log(1 + e^-x)."""
    if link == "squash":
        inner = parts.add("Tanh", [parts.add("Mul", [x, parts.number("fifth", 0.2)], f"{x}_fifth")], f"{x}_tanh")
        return parts.add("Mul", [inner, parts.number("ten", 10.0)], f"{x}_squashed")
    if link == "log_sigmoid":
        soft = parts.add("Softplus", [parts.add("Neg", [x], f"{x}_below")], f"{x}_soft")
        return parts.add("Neg", [soft], f"{x}_log_sigmoid")
    return x
