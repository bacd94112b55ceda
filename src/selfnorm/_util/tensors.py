"""Read tensors from safetensors files, with errors a user can act on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from selfnorm._util.errors import UserError


def bytes_of(tensors: dict[str, Tensor]) -> int:
    """The size of a file with these tensors, without its short header."""
    return sum(t.numel() * t.element_size() for t in tensors.values())


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file to a temporary path that `atomic` gave.

    The library writes to a file of its own name next to the path and renames it. In a folder of ours, what a killed process
    leaves of that can be told from files of the user.
    """
    process = str(os.getpid())
    folder = path.with_name(f"{path.name.removesuffix(f'.{process}.part')}.d.{process}.part")
    folder.mkdir()
    try:
        save_file(tensors, folder / "tensors", metadata=metadata)
        (folder / "tensors").replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a file, without reading its tensors."""
    return _opened(path, with_tensors=False)[1]


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file by name, and its metadata."""
    return _opened(path)


def _opened(path: Path, with_tensors: bool = True) -> tuple[dict[str, Tensor], dict[str, str]]:
    if not path.is_file():
        raise UserError(f"{path} does not exist or is not a file.")
    try:
        with safe_open(path, framework="pt") as handle:
            names = handle.keys() if with_tensors else ()
            return {name: handle.get_tensor(name) for name in names}, handle.metadata() or {}
    except SafetensorError as error:
        raise UserError(f"{path} is not a whole safetensors file ({error}). Make or copy it again.") from None
