"""Corpus BLEU of what was chosen, by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence

from selfnorm._util.errors import missing_extra


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU of tokenized texts."""
    try:
        import sacrebleu
    except ImportError:
        raise missing_extra("sacrebleu", "rescore", "BLEU") from None
    return float(sacrebleu.corpus_bleu(list(texts), [list(references)], tokenize="none").score)
