"""The adapter reproduces the logits of many families, or refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from selfnorm._util.errors import UserError
from selfnorm.hf.adapter import Adapter
from selfnorm.hf.probe import Link
from tests.hf.families import FAMILIES, V, tiny_model


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("default")  # of transformers and of the kernels it looks for
def test_a_family_is_reproduced_from_contexts_and_rows(family: str) -> None:
    model = tiny_model(family)
    adapter = Adapter(model)
    ids = torch.randint(V, (2, 9), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        expected = model(input_ids=ids).logits.double()
    c = adapter.contexts(ids).reshape(18, -1)
    assert float(expected.std()) > 0.2  # not all alike
    assert torch.allclose(adapter.head.all_m(c).double(), expected.view(18, -1), atol=1e-4)
    assert torch.allclose(adapter.head.log_z(c).double(), expected.view(18, -1).logsumexp(1), atol=1e-4)


@pytest.mark.parametrize(
    ("family", "settings", "expected"),
    [
        ("gemma2", {"final_logit_softcapping": 20.0}, Link(1.0, 20.0)),
        ("gemma2", {"final_logit_softcapping": None}, Link(1.0, None)),
        ("granite", {"logits_scaling": 13.0}, Link(pytest.approx(1 / 13), None)),
        ("cohere", {"logit_scale": 0.3}, Link(pytest.approx(0.3), None)),
        ("llama", {}, Link(1.0, None)),
    ],
)
def test_scale_and_cap_are_found_by_experiment(family: str, settings: dict[str, Any], expected: Link) -> None:
    assert Adapter(tiny_model(family, **settings)).link == expected


def test_a_small_cap_is_seen_even_where_logits_are_too_small_to_show_it() -> None:
    model = tiny_model("gemma2", final_logit_softcapping=30.0)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(1e-4)
    assert Adapter(model).link.cap == 30


def test_half_precision_is_read_too() -> None:
    assert Adapter(tiny_model("gemma2").bfloat16()).link == Link(1.0, 30.0)


def test_each_module_is_left_in_its_own_mode() -> None:
    """Parts of a model may be frozen in evaluation mode while it is trained."""
    model = tiny_model("llama").train()
    frozen = next(iter(model.model.layers)).eval()
    Adapter(model)
    assert not any(module.training for module in frozen.modules())
    assert model.training and model.get_output_embeddings().training


def test_the_model_is_left_as_it_was() -> None:
    model = tiny_model("llama").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    adapter = Adapter(model)
    adapter.contexts(torch.zeros(1, 3, dtype=torch.long))
    assert model.training and "forward" not in vars(adapter.linear)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert adapter.head.weight.data_ptr() == adapter.linear.weight.data_ptr()  # shared, never copied


def test_logits_that_are_bent_otherwise_are_refused_with_the_difference() -> None:
    model = tiny_model("llama")
    forward = model.forward

    def bent(**inputs: Any) -> Any:
        outputs = forward(**inputs)
        outputs.logits = outputs.logits + 0.5
        return outputs

    model.forward = bent
    with pytest.raises(UserError, match=r"more than scale and cap|not reproduced.*0\.5"):
        Adapter(model)


def test_a_bias_on_some_words_is_refused_with_the_difference() -> None:
    model = tiny_model("llama")
    forward = model.forward

    def masked(**inputs: Any) -> Any:
        outputs = forward(**inputs)
        outputs.logits = torch.where(torch.arange(outputs.logits.shape[-1]) == 7, -1e4, outputs.logits)
        return outputs

    model.forward = masked
    with pytest.raises(UserError, match=r"more than scale and cap|not reproduced"):
        Adapter(model)


def test_an_encoder_that_loads_as_a_causal_model_is_refused() -> None:
    from transformers import BertConfig, BertLMHeadModel

    torch.manual_seed(0)
    small = BertConfig(vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
    model = BertLMHeadModel(small)
    with torch.no_grad():  # freshly initialized attention is nearly flat
        for parameter in model.parameters():
            parameter.mul_(4)
    with pytest.raises(UserError, match="not causal"):
        Adapter(model)


def test_what_has_no_plain_head_is_refused() -> None:
    with pytest.raises(UserError, match="no output layer"):
        Adapter(torch.nn.Linear(3, 3))
