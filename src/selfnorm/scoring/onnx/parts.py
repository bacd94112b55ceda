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

    def number(self, name: str, value: float) -> str:
        return self.hold(name, np.array([value], dtype=np.float32))

    def add(self, op: str, inputs: list[str], *outputs: str, **attributes: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(op, inputs, list(outputs), name=outputs[0], **attributes))
        return outputs[0]


def array(tensor: Any) -> np.ndarray:
    found: np.ndarray = tensor.detach().cpu().numpy()
    return found
