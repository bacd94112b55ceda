"""Text to the tokens of a language model and back: case, leading space, start and end, and which tokens make up a word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfnorm._util.errors import UserError

CASES = ("as-is", "lower", "sentence")
WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Words:
    """How sentences are given to a model.

    case    as-is; lower; sentence: a capital at the beginning, and I for i, for lists of a recognizer that writes lower case
    space   put a space before the first word: most models have other tokens for words after a space than for the first word of a text
    start   text of the token that stands before every sentence; by default the tokenizer's start or end token
    end     text of the token that ends every sentence; by default the tokenizer's end token
    """

    tokenizer: Any
    case: str = "as-is"
    space: bool = False
    start: str | None = None
    end: str | None = None

    def __post_init__(self) -> None:
        if self.case not in CASES:
            raise UserError(f'case = "{self.case}": choose {", ".join(CASES)}.')

    @property
    def start_id(self) -> int:
        if self.start is not None:
            return self._one(self.start)
        return self._known(self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, "start")

    @property
    def end_id(self) -> int:
        if self.end is not None:
            return self._one(self.end)
        return self._known(self.tokenizer.eos_token_id, self.tokenizer.bos_token_id, "end")

    def _known(self, first: int | None, second: int | None, what: str) -> int:
        found = second if first is None else first
        if found is None:
            raise UserError(f"The tokenizer has no {what} token: name one (--hf {what}=TEXT).")
        return int(found)

    def _one(self, text: str) -> int:
        ids = self.tokenizer(text.replace("\\n", "\n"), add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise UserError(f"{text!r} is {len(ids)} tokens for this model; one token was expected.")
        return int(ids[0])

    def prepared(self, sentence: str | Sequence[str]) -> str:
        """The text that is tokenized."""
        text = sentence if isinstance(sentence, str) else " ".join(sentence)
        if self.case != "as-is":
            text = text.lower()
        if self.case == "sentence":
            text = re.sub(r"\bi\b", "I", text)
            text = text[:1].upper() + text[1:]
        return f" {text}" if self.space and text else text

    def ids(self, sentence: str | Sequence[str]) -> list[int]:
        found: list[int] = self.tokenizer(self.prepared(sentence), add_special_tokens=False, verbose=False)["input_ids"]
        return found

    def ids_and_words(self, sentence: str | Sequence[str]) -> tuple[list[int], NDArray[np.int64]]:
        """The tokens, and for each the place of the word, as blanks separate them, that it belongs to."""
        text = self.prepared(sentence)
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ends = np.array([match.end() for match in WORD.finditer(text)] or [len(text)])
        starts = np.array([start for start, _ in found["offset_mapping"]], dtype=np.int64)
        return found["input_ids"], np.searchsorted(ends, starts, side="right").clip(max=len(ends) - 1)

    def shown(self, sentence: str | Sequence[str]) -> str:
        """How a sentence is read, for a user to check."""
        pieces = [self.tokenizer.decode([i]) for i in (self.start_id, *self.ids(sentence), self.end_id)]
        return "|".join(piece.replace("\n", "\\n") for piece in pieces)
