"""The built-in texts by name. A text of your own needs no entry: give `data.file` or `data.folder`."""

from __future__ import annotations

from dataclasses import dataclass

from selfnorm.registry import Registry


@dataclass(frozen=True)
class DatasetInfo:
    """`source` is called with the recipe's [data] section and gives a Source (data/sources/base.py).

    `words` and `V` are for time estimates of runs that have not started.
    """

    source: str
    words: int
    V: int


DATASETS: Registry[DatasetInfo] = Registry("data.name", {
    "sotu": DatasetInfo("selfnorm.data.sources.sotu:source", 2_090_948, 15_012),
    "ptb": DatasetInfo("selfnorm.data.sources.published:ptb", 929_589, 10_000),
    "wikitext-2": DatasetInfo("selfnorm.data.sources.published:wikitext_2", 2_088_628, 33_278),
    "mscc": DatasetInfo("selfnorm.data.sources.mscc:source", 51_046_688, 51_392),
    "synthetic": DatasetInfo("selfnorm.data.sources.synthetic:source", 200_000, 201),
})  # fmt: skip
