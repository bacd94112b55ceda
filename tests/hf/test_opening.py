"""Opening models: folders with safetensors, and a sentence for everything that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from selfnorm._util.errors import UserError
from selfnorm.hf.opening import find, open_model
from tests.hf.conftest import saved


def copied(llama: Path, to: Path, without: str = "", **changes: object) -> Path:
    """A copy of the tiny model, some files left out, settings of config.json changed (None takes one away)."""
    to.mkdir()
    for file in llama.iterdir():
        if not (without and file.name.startswith(without)):
            (to / file.name).write_bytes(file.read_bytes())
    config = json.loads((llama / "config.json").read_text()) | changes
    (to / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    return to


def test_a_folder_opens_with_its_tokenizer(llama: Path) -> None:
    opened = open_model(f"hf:{llama}")
    assert opened.adapter.head.V == 101 and opened.tokenizer("the cat")["input_ids"]
    assert not opened.adapter.model.training and opened.source.label == "llama"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model_type": "t5", "is_encoder_decoder": True}, "encoder-decoder"),
        ({"model_type": "vit"}, "no causal language model"),
        ({"model_type": "my_own", "auto_map": {"AutoConfig": "code.Config"}}, "--remote-code"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}, "quantized .*gptq"),
    ],
)
@pytest.mark.filterwarnings("default")
def test_models_of_other_kinds_are_refused(
    llama: Path, tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        open_model(str(copied(llama, tmp_path / "model", **changes)))


def test_a_missing_tokenizer_is_a_sentence(llama: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tokenizer"):
        open_model(str(copied(llama, tmp_path / "model", without="tokenizer")))


def test_weights_that_could_run_code_are_not_read(llama: Path, tmp_path: Path) -> None:
    folder = copied(llama, tmp_path / "model", without="model.safetensors")
    with pytest.raises(UserError, match=r"no \.safetensors"):
        find(str(folder))
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UserError, match="can run code"):
        open_model(str(folder))


def test_paths_that_are_wrong_are_sentences(tmp_path: Path, llama: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "two").mkdir()
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / "two" / name).write_bytes(b"")
    for wrong, sentence in (
        (tmp_path / "nowhere", "not a folder"), (tmp_path / "no.gguf", "does not exist"), (tmp_path / "empty", "neither a config.json"),
        (tmp_path / "two", "Name one"), (llama / "config.json", "not a folder"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=sentence):
            find(str(wrong))
    assert find("org/model").name == "org/model"
    with pytest.raises(UserError, match="dtype"):
        open_model(str(llama), dtype="int3")


def test_an_encoder_saved_as_such_is_refused(tmp_path: Path) -> None:
    from transformers import BertConfig, BertLMHeadModel

    small = BertConfig(vocab_size=101, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
    model = BertLMHeadModel(small)
    for parameter in model.parameters():
        parameter.data.mul_(4)
    folder = saved(tmp_path / "model")
    model.save_pretrained(folder)
    with pytest.raises(UserError, match="not causal"):
        open_model(str(folder))
