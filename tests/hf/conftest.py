"""Tests with transformers run where it is installed. Those with a real language model run if SELFNORM_LLM names its folder."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
if importlib.util.find_spec("transformers") is None:
    collect_ignore_glob = ["test_*.py"]

SENTENCES = [
    "the cat sat on the mat",
    "a dog ran to the old tree",
    "it was here and then there",
    "the bird saw a small cat",
]


def tiny_tokenizer() -> Any:
    """Byte-level BPE with 101 tokens, learnt from four sentences."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        SENTENCES, trainers.BpeTrainer(vocab_size=101, special_tokens=["<pad>", "<s>", "</s>"], show_progress=False)
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def saved(folder: Path, family: str = "llama", **settings: Any) -> Path:
    """A tiny random model with its tokenizer in a folder."""
    from tests.hf.families import tiny_model

    tiny_model(family, **settings).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "llama")
