"""Corpus: a prepared text on disk, opened as memory-mapped ids, made once and reused while nothing changed."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from selfnorm._util.console import progress
from selfnorm._util.disk import storage_errors
from selfnorm._util.errors import UserError
from selfnorm._util.files import cache_folder, holding, read_json, write_json
from selfnorm._util.manifest import digest
from selfnorm._util.schema import check
from selfnorm.config.recipe import Data
from selfnorm.config.schemas import CORPUS
from selfnorm.data.encode import encode, shuffle_and_hold_out
from selfnorm.data.sources.base import SPLITS, Source
from selfnorm.data.sources.find import find_source
from selfnorm.data.tokenizers import BUILT_IN
from selfnorm.data.vocab import Vocab, read_vocab

log = logging.getLogger("selfnorm")
FORMAT = 3  # raise when the meaning of prepared files changes


@dataclass(frozen=True)
class Corpus:
    """A vocabulary and the ids of train, valid and test (int32, memory-mapped)."""

    name: str
    vocab: Vocab
    splits: dict[str, np.ndarray]
    fingerprint: str = ""  # of the text it was made from
    tokens: str = "whitespace"  # its tokenizer

    def __getitem__(self, split: str) -> np.ndarray:
        if split not in self.splits:
            raise UserError(f'There is no split "{split}" in {self.name}; it has {", ".join(self.splits)}.')
        return self.splits[split]

    def counts(self, at_once: int = 1 << 22) -> np.ndarray:
        """How often each word stands in the training text as it is used, which `max_words` may have shortened."""
        total, ids = np.zeros(len(self.vocab), dtype=np.int64), self["train"]
        for start in range(0, len(ids), at_once):
            total += np.bincount(ids[start : start + at_once], minlength=len(total))
        return total

    def sentences(self, split: str, at_once: int = 1 << 20) -> Iterator[list[str]]:
        """The words of each sentence as the models see them, without <eos>; the text is never held as a whole."""
        ids, words, eos = self[split], self.vocab.words, self.vocab.eos
        sentence: list[str] = []
        for start in range(0, len(ids), at_once):
            for i in ids[start : start + at_once].tolist():
                if i == eos:
                    yield sentence
                    sentence = []
                else:
                    sentence.append(words[i])
        if sentence:
            yield sentence


def open_corpus(data: Data) -> Corpus:
    """The prepared text a recipe names, prepared now if it is not there yet."""
    source = find_source(data)
    folder = cache_folder() / f"{data.name}-{_key(data, source)}"
    with _alone(folder):
        if (problem := _problem(folder)) is not None:
            if (folder / "corpus.json").exists():
                log.warning("The prepared text %s is damaged (%s): it is prepared again.", folder, problem)
            _prepare(folder, data, source)
    splits = {split: np.load(folder / f"{split}.npy", mmap_mode="r") for split in SPLITS}
    if data.max_words:
        splits["train"] = splits["train"][: data.max_words]
    return Corpus(data.name, read_vocab(folder / "vocab.txt"), splits, source.fingerprint, source.tokens)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Runs that start together prepare a text once: the others wait and use the result."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with holding(folder.with_name(f".{folder.name}.lock"), -1, ""):
        for part in folder.parent.glob(f".{folder.name}.*"):  # of processes that were killed while they prepared it
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part, ignore_errors=True)
        yield


def _problem(folder: Path) -> str | None:
    """What is wrong with a prepared text; None if it is whole. Earlier versions stored no sha256."""
    try:
        about = read_json(folder / "corpus.json")
        check(about, CORPUS, "corpus.json", "")
        for name, sha256 in about.get("sha256", {}).items():
            if Path(name).name != name or digest(folder / name, sha256) != sha256:
                return f"{name} is not the one that was written"
        if len(read_vocab(folder / "vocab.txt")) != about["V"]:
            return "vocab.txt has another number of words"
        for split in SPLITS:
            ids = np.load(folder / f"{split}.npy", mmap_mode="r")
            if ids.dtype != np.int32 or ids.shape != (about["tokens"].get(split),):
                return f"{split}.npy has another size or type"
            if "sha256" not in about and len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < about["V"]:
                return f"{split}.npy holds words that are not in the vocabulary"
    except (UserError, OSError, ValueError, EOFError, AttributeError, TypeError) as error:
        return str(error).split("\n")[0][:200]
    return None


def describe(data: Data) -> dict[str, object]:
    """What corpus.json says: counts and where the ids are."""
    open_corpus(data)
    source = find_source(data)
    folder = cache_folder() / f"{data.name}-{_key(data, source)}"
    return {**read_json(folder / "corpus.json"), "folder": str(folder)}


def _key(data: Data, source: Source) -> str:
    parts = [FORMAT, source.fingerprint, data.min_count or source.min_count, source.tokens]
    if source.tokens == "words" and data.name not in BUILT_IN:  # which once took combining marks for punctuation
        parts.append("marks")
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _prepare(folder: Path, data: Data, source: Source) -> None:
    """Encode into a neighbour folder and rename it: a prepared text is whole or absent."""
    min_count = data.min_count or source.min_count
    with progress(f"encode {data.name}", None, "lines") as advance:
        vocab, splits = encode(source.splits, min_count, source.tokens, advance)
        if source.held_out:
            splits = shuffle_and_hold_out(splits["train"], vocab.eos, source.held_out)
            vocab = Vocab(vocab.words, np.bincount(splits["train"], minlength=len(vocab)).tolist())
    _check(data.name, source, vocab, splits)
    folder.parent.mkdir(parents=True, exist_ok=True)
    needed = sum(ids.nbytes for ids in splits.values())
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for split, ids in splits.items():
            with storage_errors(folder, needed):
                np.save(part / f"{split}.npy", ids)
        vocab.write(part / "vocab.txt")
        sha256 = {path.name: digest(path) for path in sorted(part.iterdir())}
        counts = {split: len(ids) for split, ids in splits.items()}
        unknown = {split: int((ids == vocab.unk).sum()) for split, ids in splits.items()}
        write_json(
            part / "corpus.json",
            {
                "name": data.name,
                "V": len(vocab),
                "tokenizer": source.tokens,
                "tokens": counts,
                "unk": unknown,
                "min_count": min_count,
                "sha256": sha256,
            },
        )
        if folder.exists():  # an unfinished folder of an older version
            shutil.rmtree(folder)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _check(name: str, source: Source, vocab: Vocab, splits: dict[str, np.ndarray]) -> None:
    counts = {split: len(ids) for split, ids in splits.items()} | {"V": len(vocab)}
    for key, expected in source.expected.items():
        if counts[key] != expected:
            raise UserError(f"{name}: {key} has {counts[key]:,} tokens, but {expected:,} were expected.")
    for split, ids in splits.items():
        if len(ids) < 2:
            raise UserError(f"{name}: the {split} text has {len(ids)} tokens; at least 2 are needed. Give more text.")
