"""Products with int8 rows: balanced channels, a scale for each row, exact integer sums.

Contexts use 8 bits and rows 7: pairs of products then fit the 16-bit sums of processors without VNNI, which saturate silently
otherwise (measured on a real head: sigma_z 0.6 instead of 0.006). So every sum is exact, whatever computes it: onnxruntime where
it is installed, float32 products of the same integers where it is not, and on other devices than the CPU.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfnorm._util.devices import is_host, to_host
from selfnorm.nn.reductions import scaled

ROWS, CONTEXTS = 63, 127  # the largest integers on either side
BLOCK = 4096  # rows that are quantized at a time


def balance(rows: Tensor, largest: Tensor) -> Tensor:
    """The factor s (d,) of each column: rows·s and c/s use their bits alike, s_j = max|c_j|^½ / max|W_j|^½."""
    widest = torch.maximum(rows.amax(0), -rows.amin(0)).float()  # without a copy of the rows
    return (largest.clamp(min=1e-12) / widest.clamp(min=1e-12)).sqrt()


def quantize(x: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Integers (n, d) in ±most as floats, and the scale of each row (n,): x ≈ integers · scale."""
    scale = x.abs().amax(1).clamp(min=1e-12) / most
    return (x / scale.unsqueeze(1)).round_(), scale


class Int8Rows:
    """Rows (V, d) in 7 bits and what multiplies them."""

    def __init__(self, rows: Tensor, row_scale: Tensor) -> None:
        self.rows, self.row_scale = rows, row_scale
        self.session = _session(rows) if is_host(rows.device) else None
        self.floats = rows.new_zeros(0, dtype=torch.float32) if self.session else rows.float().t().contiguous()

    def __getstate__(self) -> tuple[Tensor, Tensor]:
        return self.rows, self.row_scale

    def __setstate__(self, state: tuple[Tensor, Tensor]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @staticmethod
    def quantized(rows: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
        """rows·factor in 7 bits (V, d) and the scale of each row (V,), some rows at a time."""
        integers = torch.empty(rows.shape, dtype=torch.int8, device=rows.device)
        scale = torch.empty(len(rows), dtype=torch.float32, device=rows.device)
        for at in range(0, len(rows), BLOCK):
            some = slice(at, at + BLOCK)
            block, scale[some] = quantize(rows[some].float() * factor, ROWS)
            integers[some] = block.to(torch.int8)
        return integers, scale

    def scores(self, c: Tensor, offset: Tensor) -> Tensor:
        """c·rowsᵀ + offset (n, V) with both sides quantized; c has a scale for each context."""
        integers, scale = quantize(c.float(), CONTEXTS)
        return scaled(self.product(integers), scale, self.row_scale, offset)

    def product(self, integers: Tensor) -> Tensor:
        """The exact sums (n, V), in int32 or as whole float32 numbers."""
        if self.session is None:
            return integers @ self.floats
        shifted = to_host(integers.add(128).to(torch.uint8))  # unsigned, with zero point 128
        (sums,) = self.session.run(None, {"c": shifted})
        return torch.from_numpy(sums)


def _session(rows: Tensor) -> Any:
    """A MatMulInteger over these rows, or None without onnxruntime.

    The rows are handed over outside the model's own bytes: inside, four copies of them would be held while it is made.
    """
    onnx, runtime = _libraries()
    if onnx is None:
        return None
    helper, kinds = onnx.helper, onnx.TensorProto
    weight = onnx.TensorProto(name="rows", data_type=kinds.INT8, dims=rows.t().shape, data_location=kinds.EXTERNAL)
    weight.external_data.add(key="location", value="rows")
    zero = helper.make_tensor("zero", kinds.UINT8, [], [128])
    node = helper.make_node("MatMulInteger", ["c", "rows", "zero"], ["sums"])
    given = helper.make_tensor_value_info("c", kinds.UINT8, ["n", rows.shape[1]])
    result = helper.make_tensor_value_info("sums", kinds.INT32, ["n", rows.shape[0]])
    graph = helper.make_graph([node], "rows", [given], [result], [weight, zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    given_rows = runtime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(rows.t().numpy()))
    options.add_external_initializers(["rows"], [given_rows])
    return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@lru_cache(maxsize=1)
def _libraries() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError:
        return None, None
    return onnx, onnxruntime
