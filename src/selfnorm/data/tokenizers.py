"""Tokenizers: running text to words. The tokenizer of a run is stored with it, so that raw text can be scored.

words        lower case, punctuation marks apart: "Don't stop, Mr. X!" -> don't stop , mr . x !
whitespace   what stands between blanks, as it is: for text that has been tokenized already
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice, pairwise

from selfnorm._util.errors import UserError, nearest

Tokenize = Callable[[str], list[str]]

WORD = re.compile(r"\d+(?:[.,]\d+)*|\w+(?:['’]\w+)*|[^\w\s]")
FIRST_MARK, LAST_MARK = 0x300, 0xE01EF  # between them are Unicode's combining marks
WIDE = "\U00010000"  # from here on, the re module compares a character with each range in turn
JOINERS = (0x200C, 0x200D)  # within words of Persian and of scripts of India
BUILT_IN = ("sotu", "mscc")  # tokenized as words; they hold no combining marks
SENTENCE = re.compile(r"([.!?][\"'”’)\]]*)\s+(?=[\"'“‘(\[]*[A-Z0-9])")
ATTACHED = re.compile(r"\w[.,;:!?]$")
RAW = 0.04  # of the tokens end in a punctuation mark: more than in tokenized text (1 %), less than in prose (10 %)


def words_of(line: str) -> list[str]:
    """Lower-cased words and punctuation marks.

    >>> words_of("Don’t stop, Mr. X!")
    ["don't", 'stop', ',', 'mr', '.', 'x', '!']
    >>> words_of("हिन्दी भाषा।")
    ['हिन्दी', 'भाषा', '।']
    """
    line = line.lower().replace("’", "'")
    highest = max(line, default="") if not line.isascii() else ""
    if highest < chr(FIRST_MARK):
        return WORD.findall(line)
    word, mark = _with_marks(highest >= WIDE)
    return word.findall(unicodedata.normalize("NFC", line)) if mark.search(line) else WORD.findall(line)


@cache
def _with_marks(wide: bool) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """WORD where words may also hold marks, such as vowel signs; and one such mark. `wide` takes in those from WIDE on."""
    last = LAST_MARK if wide else ord(WIDE) - 1
    codes = [code for code in range(FIRST_MARK, last + 1) if unicodedata.category(chr(code)).startswith("M")]
    marks = _ranges(sorted({*codes, *JOINERS}))
    word = rf"\w[\w{marks}]*"
    return re.compile(rf"\d+(?:[.,]\d+)*|{word}(?:['’]{word})*|[^\w\s]"), re.compile(f"[{marks}]")


def _ranges(codes: list[int]) -> str:
    """Characters as ranges within brackets: a pattern of single ones takes several times as long."""
    firsts = [code for before, code in pairwise([-1, *codes]) if code != before + 1]
    lasts = [code for code, after in pairwise([*codes, -1]) if after != code + 1]
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in zip(firsts, lasts, strict=True))


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
    return "words" if data_name in BUILT_IN else "whitespace"


def sentences_of(paragraph: str) -> list[str]:
    """A paragraph split after . ! ? and closing marks, where a new sentence seems to begin."""
    return [piece for piece in SENTENCE.sub(r"\1\n", paragraph.strip()).split("\n") if piece]
