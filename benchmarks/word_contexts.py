"""Context vectors of a word model on its own text and on others, for benchmarks/llm_head.py and benchmarks/law.py.

    python benchmarks/word_contexts.py RUN --text sotu_test=a.txt novel_test=b.txt --tokens 30000 --to CONTEXTS

Written to CONTEXTS: head.npy (V, d), bias.npy (V,), counts.npy (V,), and for each text NAME.c.npy (n, d), NAME.w.npy (n,), the
words that follow, and NAME.lz.npy (n,), exact log Z. train, valid and test are the run's own text; other texts are written the
way Penn Treebank is: sentences apart, lower case, no punctuation, N for numbers, don't as do n't.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import torch

from selfnorm.data.tokenizers import sentences_of, words_of
from selfnorm.evaluation.measure import contexts
from selfnorm.nn.model import LanguageModel
from selfnorm.runs.folder import Run
from selfnorm.runs.loading import load_model
from selfnorm.runs.opening import open_with_text

CLITIC = re.compile(r"(?<=\w)(n't|'s|'re|'ve|'ll|'d|'m)$")
NUMBER = re.compile(r"\d[\d.,]*")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--from", dest="from_", default="", help="where the run's text is now")
    parser.add_argument("--splits", nargs="*", default=["train", "valid", "test"])
    parser.add_argument("--text", nargs="*", default=[], help="NAME=FILE")
    parser.add_argument("--tokens", type=int, default=1 << 62, help="at most so many of each text")
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    run, corpus = open_with_text(given.run, given.from_)
    model = load_model(run, calibration="none").requires_grad_(False)
    given.to.mkdir(parents=True, exist_ok=True)
    np.save(given.to / "head.npy", model.output.weight.numpy())
    np.save(given.to / "bias.npy", model.output.bias.view(-1).numpy())
    np.save(given.to / "counts.npy", np.asarray(run.vocab.counts))
    for name in given.splits:
        write(model, corpus[name][: given.tokens], given.to, name)
    for pair in given.text:
        name, _, path = pair.partition("=")
        write(model, ids_of(run, Path(path))[: given.tokens], given.to, name)


def like_treebank(line: str) -> list[str]:
    """
    >>> like_treebank("Don't stop at 3.5, Mr. X!")
    ['do', "n't", 'stop', 'at', 'N', 'mr.', 'x']
    """
    words = [part for word in words_of(line) for part in CLITIC.sub(r" \1", word).split()]
    joined = [w + "." if w in ("mr", "mrs", "dr") else w for w in words]
    return ["N" if NUMBER.fullmatch(w) else w for w in joined if any(ch.isalnum() for ch in w)]


def ids_of(run: Run, path: Path) -> np.ndarray:
    """The words of a text in the run's vocabulary. Paragraphs are apart by an empty line; @-@, @,@ and @.@ of WikiText are joined."""
    text = re.sub(r" @(.)@ ", r"\1", path.read_text(encoding="utf-8", errors="replace"))
    ids: list[int] = []
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in sentences_of(" ".join(paragraph.split())):
            ids += [*run.vocab.ids(like_treebank(sentence)), run.vocab.eos]
    return np.asarray(ids)


def write(model: LanguageModel, ids: np.ndarray, folder: Path, name: str) -> None:
    pieces: list[tuple[np.ndarray, ...]] = []
    for _, c, w in contexts(model, ids, streams=64, T=32):
        pieces.append((c.numpy(), w.numpy(), model.output.log_z(c).numpy()))
    for part, values in zip(("c", "w", "lz"), zip(*pieces, strict=True), strict=True):
        np.save(folder / f"{name}.{part}.npy", np.concatenate(values))
    log_z = np.concatenate([p[2] for p in pieces])
    print(f"{name}: {len(log_z):,} contexts, mu_z {log_z.mean():+.4f}, sigma_z {log_z.std():.4f}", flush=True)


if __name__ == "__main__":
    main()
