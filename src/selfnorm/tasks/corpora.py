"""Score, rescore and measure shards of a corpus: what a worker does with one, the same as the commands do with a whole file."""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from selfnorm._util.errors import UserError
from selfnorm.data.vocab import Unknown
from selfnorm.evaluation.measure import per_word
from selfnorm.evaluation.statistics import block_sums
from selfnorm.runs.folder import Run, open_run
from selfnorm.scoring.scorer import Array, Scorer
from selfnorm.tasks.nbest.base import NBest, Reading
from selfnorm.tasks.nbest.jsonl import read_line
from selfnorm.tasks.nbest.lists import Writer
from selfnorm.tasks.rescorer import Rescorer
from selfnorm.tasks.rescoring import chunks
from selfnorm.tasks.shards import Job, Shard, lines_of_shard, read_job, write_shard


def text_of(line: bytes, number: int, where: str) -> str:
    """A line without its end; a file may start with a byte order mark."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\n")
    except UnicodeDecodeError:
        raise UserError(f"{where} line {number} is not UTF-8. Convert it first with iconv.") from None


def score_line(scores: Array, per_word: bool = False, log10: bool = False, as_json: bool = False) -> str:
    """What `selfnorm score` prints of a sentence's word scores."""
    base = math.log(10) if log10 else 1.0
    values = [float(s) / base for s in scores]
    if as_json:
        return json.dumps({"score": sum(values), "words": values})
    return " ".join(f"{v:.4f}" for v in values) if per_word else f"{sum(values):.4f}"


def counted(sentences: Iterable[list[str]], unknown: Unknown) -> Iterator[list[str]]:
    for words in sentences:
        unknown.add(words)
        yield words


def weights_of(run: Run, kind: str) -> str:
    """The sha256 of the weights and the calibration in use: output of others must not be mixed with theirs."""
    digest = hashlib.sha256()
    for name in ("best.safetensors", f"calibration.{kind}.safetensors"):
        if run.file(name).exists():
            digest.update(run.file(name).read_bytes())
    return digest.hexdigest()


def at_lists(per_shard: int) -> Callable[[Iterator[bytes]], Iterator[int]]:
    """Shards of at least so many lists, ending where lists that share a trie end; every line is checked, and no id comes twice."""

    def ends(lines: Iterator[bytes]) -> Iterator[int]:
        number, seen = 0, set[str]()

        def lists() -> Iterator[NBest]:
            nonlocal number
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _checked(line, number, seen)

        done = 0
        for _ in chunks(lists()):
            if number - done >= per_shard:
                yield number - done
                done = number
        if number > done:
            yield number - done

    return ends


def _checked(line: bytes, number: int, seen: set[str], source: str = "the lists") -> NBest:
    """The list of a line. A bad line stops: shards have no way to count what they skip."""
    nbest = read_line(text_of(line, number, source), Path(source), number, Reading(), seen)
    assert nbest is not None  # bad lines raise
    return nbest


def work(folder: str, number: int) -> tuple[int, int]:
    """Compute one shard of the job in a folder; returns how many words there were, and how many of them unknown."""
    job, shard = _job(folder)
    return WORK[job.what](Path(folder), job, shard[number])


@lru_cache(maxsize=1)
def _job(folder: str) -> tuple[Job, tuple[Shard, ...]]:
    job = read_job(Path(folder))
    return job, job.shards


@lru_cache(maxsize=1)
def _scorer(run: str, normalized: bool, calibration: str, unk_penalty: float, device: str, sha256: str) -> Scorer:
    """The scorer, loaded once in each worker."""
    opened = open_run(run, device)
    if weights_of(opened, calibration) != sha256:
        raise UserError(f"The weights of {run} were replaced since this job was planned. Name another folder.")
    return opened.scorer(normalized, calibration, unk_penalty)


def _scorer_of(settings: dict[str, Any]) -> Scorer:
    names = ("run", "normalized", "calibration", "unk_penalty", "device", "weights")
    return _scorer(*(settings[name] for name in names))


def _score(folder: Path, job: Job, shard: Shard) -> tuple[int, int]:
    s, scorer = job.settings, _scorer_of(job.settings)
    unknown = Unknown(scorer.vocab)
    scores = scorer.stream(_sentences(scorer, job, shard, unknown), s["eos"])
    write_shard(folder, shard, (score_line(one, s["per_word"], s["log10"], s["json"]) for one in scores))
    return unknown.words, unknown.unknown


def _sentences(scorer: Scorer, job: Job, shard: Shard, unknown: Unknown) -> Iterator[list[str]]:
    split = str.split if job.settings["tokenized"] else scorer.tokenize
    lines = (text_of(line, shard.first + i, job.source) for i, line in enumerate(lines_of_shard(job, shard)))
    return counted((split(line) for line in lines), unknown)


def measure_part(scorer: Scorer, job: Job, shard: Shard) -> dict[str, Any]:
    """Sums over blocks of the words of a shard. It starts after <eos>, and every word and <eos> of its lines is counted."""
    unknown, eos = Unknown(scorer.vocab), scorer.vocab.eos
    ids = array("i", [eos])
    for words in _sentences(scorer, job, shard, unknown):
        ids.extend((*scorer.vocab.ids(words), eos))
    found = per_word(scorer.model, np.frombuffer(ids, dtype=np.int32))
    sums = block_sums(found.log_z, found.nll, found.h)
    return {"words": unknown.words, "unknown": unknown.unknown, "sums": sums.tolist()}


def _measure(folder: Path, job: Job, shard: Shard) -> tuple[int, int]:
    part = measure_part(_scorer_of(job.settings), job, shard)
    write_shard(folder, shard, [json.dumps(part)])
    return part["words"], part["unknown"]


def _rescore(folder: Path, job: Job, shard: Shard) -> tuple[int, int]:
    """A shard ends where lists that share a trie end, so its lists are rescored exactly as in one process."""
    s, scorer = job.settings, _scorer_of(job.settings)
    rescorer = Rescorer(
        scorer.with_log_z(s["exact"] == "all"), s["lm_weight"], s["word_penalty"], s["old_lm_weight"], s["exact"], s["confidence"]
    )  # fmt: skip
    writer, unknown, seen = Writer(s["print"], "jsonl", rescorer.weights), Unknown(scorer.vocab), set[str]()
    split = str.split if s["tokenized"] else scorer.tokenize

    def lists() -> Iterator[NBest]:
        for i, line in enumerate(lines_of_shard(job, shard)):
            if line.strip():
                nbest = _checked(line, shard.first + i, seen, job.source)
                for hypothesis in nbest.hypotheses:
                    unknown.add(split(" ".join(hypothesis.words)))
                yield nbest

    found = rescorer.stream(lists(), s["tokenized"])
    write_shard(folder, shard, (line for nbest, table in found for line in writer.lines(nbest, table)))
    return unknown.words, unknown.unknown


WORK = {"score": _score, "rescore": _rescore, "measure": _measure}
