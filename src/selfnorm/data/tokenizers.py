"""Tokenizers: running text to words. The tokenizer of a run is stored with it, so that raw text can be scored.

words        lower case, punctuation marks apart: "Don't stop, Mr. X!" -> don't stop , mr . x !
whitespace   what stands between blanks, as it is: for text that has been tokenized already
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice

from selfnorm._util.errors import UserError, nearest

Tokenize = Callable[[str], list[str]]

WORD = re.compile(r"\d+(?:[.,]\d+)*|\w+(?:['’]\w+)*|[^\w\s]")
SENTENCE = re.compile(r"([.!?][\"'”’)\]]*)\s+(?=[\"'“‘(\[]*[A-Z0-9])")
ATTACHED = re.compile(r"\w[.,;:!?]$")
RAW = 0.04  # of the tokens end in a punctuation mark: more than in tokenized text (1 %), less than in prose (10 %)


def words_of(line: str) -> list[str]:
    """Lower-cased words and punctuation marks.

    >>> words_of("Don’t stop, Mr. X!")
    ["don't", 'stop', ',', 'mr', '.', 'x', '!']
    """
    return WORD.findall(line.lower().replace("’", "'"))


TOKENIZERS: dict[str, Tokenize] = {"words": words_of, "whitespace": str.split}


def tokenizer(name: str) -> Tokenize:
    if name not in TOKENIZERS:
        raise UserError(
            f'tokens = "{name[:60]}" is unknown.{nearest(name, TOKENIZERS)} Known: {", ".join(TOKENIZERS)}.'
        )
    return TOKENIZERS[name]


def suited_to(lines: Iterable[str], most: int = 2000) -> str:
    """The tokenizer that suits a text: whitespace where it looks tokenized already, words where it is prose.

    >>> suited_to(["the cat sat on the mat ."])
    'whitespace'
    >>> suited_to(["The cat sat on the mat. The dog, too."])
    'words'
    """
    tokens = attached = 0
    for line in islice(lines, most):
        words = line.split()
        tokens += len(words)
        attached += sum(ATTACHED.search(word) is not None for word in words)
    return "words" if attached > RAW * tokens else "whitespace"


def of_an_older_run(data_name: str) -> str:
    """Runs made before 0.3.0 did not store their tokenizer: these texts were tokenized as words, all others at blanks."""
    return "words" if data_name in ("sotu", "mscc") else "whitespace"


def sentences_of(paragraph: str) -> list[str]:
    """A paragraph split after . ! ? and closing marks, where a new sentence seems to begin."""
    return [piece for piece in SENTENCE.sub(r"\1\n", paragraph.strip()).split("\n") if piece]
