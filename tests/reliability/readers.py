"""Every reader of files that may come from others, with small valid files to begin from."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from selfnorm._util.files import read_json
from selfnorm._util.manifest import Manifest, read_manifest, write_manifest
from selfnorm._util.tensors import read_tensors
from selfnorm.config.toml import read_recipe
from selfnorm.data.sources.files import scan
from selfnorm.data.sources.mscc import _texts
from selfnorm.data.vocab import read_vocab
from selfnorm.evaluation.measurement import as_measurement
from selfnorm.report.index import index_text
from selfnorm.runs.folder import read_calibrations, stored_tokens
from selfnorm.runs.history import best_line, read_history, text_of, trained_epochs
from selfnorm.studies.plan import read_study
from selfnorm.tasks.arpa import check_arpa
from selfnorm.tasks.completion import read_questions
from selfnorm.tasks.nbest.lists import read_lists
from selfnorm.tasks.wer import read_references


@dataclass(frozen=True)
class Reader:
    """The name of the file it reads, valid contents, and the call that must end well or raise UserError."""

    file: str
    seeds: tuple[bytes, ...]
    read: Callable[[Path], Any]


SIGNATURE = (
    "data:tiny|split:test|criterion:nce|alpha:0|gamma:1|subset:contexts|k:100|noise:unigram|shared:window|penalty:none|"
    "d:4|encoder:lstm1|squash:no|epochs:1|calibration:none|oov:unk|eos:yes|state:carried|seed:1|version:0.4.0"
)
MEASUREMENT = {
    "signature": SIGNATURE, "mu_z": 0.1, "sigma_z": 0.2, "perplexity": 20.5, "u_perplexity": 19.0, "correlation": 0.3, "words": 99,
    "seconds": 0.5, "seed": 1, "command": "selfnorm measure", "date": "2026-11-17", "machine": "x", "intervals": {"mu_z": [0.0, 0.2]},
    "blocks": [[1.0, 2.0], [3.0, 4.0]], "histogram": {"counts": [1, 2], "low": -1.0, "high": 1.0},
    "entropy_histogram": {"counts": [[1, 2], [3, 4]], "entropy": [0.0, 1.0], "log_z": [-1.0, 1.0]}, "theory": {},
    "notes": {"examples": [{"context": "the", "next": "cat", "log_z": 0.1, "entropy": 1.0}]}, "recipe": {}, "split": "test",
    "calibration": "none", "trained": 1.0, "fitted": "",
}  # fmt: skip
HISTORY = {"epoch": 1.0, "perplexity": 20.0, "sigma_z": 0.1, "mu_z": 0.0, "seconds": 2.0, "megabytes": 300}
RESULT = {
    "kind_of_result": "times", "row": {}, "signature": SIGNATURE, "data": "tiny", "V": 20, "d": 4, "words": 99, "threads": 1,
    "normalized_seconds": 1.0, "unnormalized_seconds": 0.5, "date": "2026-11-17", "machine": "x", "command": "c",
}  # fmt: skip
FACTS = {"kind": "mlp", "mlp": {"valid_after": {"sigma_z": 0.1}, "hidden": [128, 128], "contexts": 100, "passes": 4.0}}
RECIPE = b'[data]\nname = "own"\nfile = "x.txt"\n[model]\nd = 8\ninit = 0.1\n[criterion]\nname = "nce"\nk = 5\n[training]\nepochs = 2\n'
STUDY = b'title = "t"\nthen = ["valid", "test.mlp"]\n[recipe.model]\nd = 8\n[[grid]]\n"criterion.name" = ["nce", "softmax"]\n"model.d" = 4\n'
ARPA = b"\\data\\\nngram 1=4\nngram 2=2\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\t-0.3\n-1\t</s>\n-1\tcat\t-0.2\n\n\\2-grams:\n-0.5\t<s> cat\n-0.5\tcat </s>\n\n\\end\\\n"


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _tensors(folder: Path) -> bytes:
    save_file({"a": torch.ones(2, 3), "b": torch.zeros(4)}, folder / "seed", metadata={"link": ""})
    return (folder / "seed").read_bytes()


def _manifest(folder: Path) -> bytes:
    write_manifest(folder, Manifest({"vocab.txt": "0" * 64}))
    found = _json(json.loads((folder / "manifest.json").read_bytes()))
    (folder / "manifest.json").unlink()
    return found


def _archive(mode: str) -> bytes:
    handle = io.BytesIO()
    with tarfile.open(fileobj=handle, mode=mode) as archive:
        member = tarfile.TarInfo("a.TXT")
        member.size = 5
        archive.addfile(member, io.BytesIO(b"hello"))
    return handle.getvalue()


def _history(path: Path) -> None:
    best_line(read_history(path))
    trained_epochs(path.parent)


def readers(folder: Path) -> dict[str, Reader]:
    """By name; `folder` is where each fuzzed file is put."""
    jsonl = _json({"id": "u1", "nbest": [{"text": "a cat", "score": -1.5}, {"text": "the cat", "score": -2}]}) + b"\n"
    recipe = read_recipe(None)
    return {
        "recipe": Reader("r.toml", (RECIPE,), read_recipe),
        "study": Reader("s.toml", (STUDY,), lambda path: read_study(str(path))),
        "vocabulary": Reader("vocab.txt", (b"the\t5\n<eos>\t3\n<unk>\t0\ncat\t2\n",), read_vocab),
        "history": Reader("history.jsonl", (_json(HISTORY) + b"\n" + _json({**HISTORY, "epoch": 2.0}) + b"\n",), _history),
        "calibration": Reader("calibration.json", (_json(FACTS),), read_calibrations),
        "measurement": Reader("m.json", (_json(MEASUREMENT),), lambda path: as_measurement(read_json(path), path)),
        "report": Reader("test.json", (_json(MEASUREMENT), _json(RESULT)), lambda path: index_text(path.parent)),
        "environment": Reader("env.json", (_json({"text": "abc"}),), lambda path: text_of(path.parent)),
        "tokenizer": Reader("tokenizer.json", (_json({"tokens": "words"}),), lambda path: stored_tokens(path.parent, recipe)),
        "manifest": Reader("manifest.json", (_manifest(folder),), lambda path: read_manifest(path.parent)),
        "tensors": Reader("t.safetensors", (_tensors(folder),), read_tensors),
        "text": Reader("t.txt", (b"the cat\nsaw a dog\n",), lambda path: list(scan(path).lines())),
        "packed text": Reader("t.xz", (lzma.compress(b"the cat\n"),), lambda path: list(scan(path).lines())),
        "novels": Reader("n.tar", (_archive("w"), _archive("w:gz"), _archive("w:xz")), lambda path: list(_texts(path))),
        "arpa": Reader("lm.arpa", (ARPA,), check_arpa),
        "jsonl lists": Reader("l.jsonl", (jsonl,), lambda path: read_lists(path, "jsonl", False)),
        "moses lists": Reader("l.moses", (b"0 ||| a cat ||| LM0= -3 ||| -5.5\n",), lambda path: read_lists(path, "moses", False)),
        "srilm lists": Reader("l.srilm", (b"-3 -2 2 the cat\n-4 -2 1 it\n",), lambda path: read_lists(path, "srilm", False)),
        "nemo lists": Reader("l.tsv", (b"a cat\t-3\nthe cat\t-2\n",), lambda path: read_lists(path, "nemo", False)),
        "references": Reader("refs", (b"u1 the cat\nu2 a dog\n",), read_references),
        "questions": Reader("q.csv", (b"id,question,a),b),c),d),e)\n1,the _____ sat,cat,dog,tree,bird,it\n",), lambda path: read_questions(path, None)),
    }  # fmt: skip
