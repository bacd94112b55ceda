"""How many words occur in one training stream only? Batch NCE never uses those as noise in the contexts where they occur.

python benchmarks/research/streams.py [--from FOLDER] [--batch 20]
"""

from __future__ import annotations

import argparse

import numpy as np

from selfnorm.config.recipe import Data
from selfnorm.data.corpus import open_corpus

TEXTS = {"ptb": {}, "sotu": {"max_words": 200_000, "min_count": 10}}


def confined(ids: np.ndarray, V: int, B: int) -> tuple[float, float]:
    """The share of the text's different words, and of its running ones, that no other stream has."""
    streams = np.array_split(ids[: len(ids) // B * B], B)
    counts = np.stack([np.bincount(stream, minlength=V) for stream in streams])
    alone = (counts > 0).sum(0) == 1
    return alone.sum() / (counts.sum(0) > 0).sum(), counts[:, alone].sum() / counts.sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--from", dest="folder", default="", help="where PTB is, if not in SELFNORM_DATA")
    parser.add_argument("--batch", type=int, default=20)
    asked = parser.parse_args()
    for name, settings in TEXTS.items():
        corpus = open_corpus(Data(name=name, folder=asked.folder if name == "ptb" else "", **settings))
        words, tokens = confined(np.asarray(corpus["train"]), len(corpus.vocab), asked.batch)
        print(
            f"{name}: {words:.1%} of the words, {tokens:.2%} of the tokens occur in only one of {asked.batch} streams"
        )


if __name__ == "__main__":
    main()
