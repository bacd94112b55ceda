"""The source that a recipe names: a file or folder of the user's, or a registered data set."""

from __future__ import annotations

from selfnorm._util.errors import UserError
from selfnorm.config.recipe import Data
from selfnorm.data.sources import own
from selfnorm.data.sources.base import Source
from selfnorm.registry import load
from selfnorm.registry.datasets import DATASETS


def find_source(data: Data) -> Source:
    if data.file:
        return own.one_file(data)
    if data.name in DATASETS:
        source: Source = load(DATASETS[data.name].source)(data)
        if data.tokens not in ("", source.tokens):
            raise UserError(f"{data.name} has its own tokens ({source.tokens}). Leave data.tokens out.")
        return source
    if data.folder:
        return own.folder_of_splits(data)
    raise UserError(
        f'data.name = "{data.name}" is not a built-in text ({", ".join(DATASETS)}). For your own, give data.file '
        "(one text file) or data.folder (with train, valid and test files)."
    )
