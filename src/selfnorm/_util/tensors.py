"""Read tensors from safetensors files, with errors a user can act on."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from selfnorm._util.errors import UserError


def bytes_of(tensors: dict[str, Tensor]) -> int:
    """The size of a file with these tensors, without its short header."""
    return sum(t.numel() * t.element_size() for t in tensors.values())


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file by name, and its metadata."""
    if not path.is_file():
        raise UserError(f"{path} does not exist or is not a file.")
    try:
        with safe_open(path, framework="pt") as handle:
            return {name: handle.get_tensor(name) for name in handle.keys()}, handle.metadata() or {}  # noqa: SIM118
    except SafetensorError as error:
        raise UserError(f"{path} is not a whole safetensors file ({error}). Make or copy it again.") from None
