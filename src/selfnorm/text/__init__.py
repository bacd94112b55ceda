"""Text files to ids and counts."""

from selfnorm.text.corpus import Corpus, describe, open_corpus
from selfnorm.text.vocab import EOS, UNK, Unknown, Vocab, read_vocab

__all__ = ["EOS", "UNK", "Corpus", "Unknown", "Vocab", "describe", "open_corpus", "read_vocab"]
