"""The z-loss attached to models of transformers, in plain loops and in Trainer."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import torch

from selfnorm._util.errors import UserError
from selfnorm.criteria.z_loss import z_loss
from selfnorm.hf.zloss import attach_z_loss
from tests.hf.families import V, tiny_model

FAMILIES = ("llama", "gpt2", "gemma2", "granite", "cohere", "mamba", "qwen3", "opt")


def batch(seed: int = 0) -> dict[str, torch.Tensor]:
    ids = torch.randint(3, V, (2, 9), generator=torch.Generator().manual_seed(seed))
    labels = ids.clone()
    labels[0, :4] = -100
    return {"input_ids": ids, "labels": labels}


def expected(model: Any, inputs: dict[str, torch.Tensor], alpha: float, tokens: float | None = None) -> torch.Tensor:
    """From the model's own logits, with labels shifted by one."""
    logits = model(input_ids=inputs["input_ids"]).logits
    return z_loss(logits[:, :-1], inputs["labels"][:, 1:], alpha, tokens=tokens).total


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("keep_logits", [False, True])
@pytest.mark.filterwarnings("default")
def test_the_loss_of_a_family_gets_the_penalty_while_training(family: str, keep_logits: bool) -> None:
    model, inputs = tiny_model(family), batch()  # evaluation mode has no dropout
    slow = expected(model, inputs, 0.1)
    slow.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    plain = float(model(**inputs).loss.detach())
    attached = attach_z_loss(model, 0.1, keep_logits)
    for module in model.modules():
        module.training = module is model  # training mode without dropout
    outputs = model(**inputs)
    outputs.loss.backward()
    assert outputs.loss.item() == pytest.approx(slow.item(), rel=1e-4)
    assert outputs.logits.shape[-1] == (V if keep_logits else 1)
    for name, p in model.named_parameters():
        if name in gradients:
            assert torch.allclose(p.grad, gradients[name], atol=1e-4 * float(gradients[name].abs().max() + 1)), name
    model.eval()
    assert float(model(**inputs).loss.detach()) == pytest.approx(plain, rel=1e-5)  # no penalty in evaluation
    attached.detach()
    model.train()
    assert "forward" not in vars(attached.linear) and model(**inputs).logits.shape[-1] == V


def test_the_number_of_items_is_what_sums_are_divided_by() -> None:
    model, inputs = tiny_model("llama"), batch()
    slow = expected(model, inputs, 0.1, tokens=50)
    attach_z_loss(model.train(), 0.1)
    assert model(**inputs, num_items_in_batch=torch.tensor(50)).loss.item() == pytest.approx(slow.item(), rel=1e-5)


def test_stats_are_those_of_the_tokens_that_count() -> None:
    model, inputs = tiny_model("llama"), batch()
    with torch.no_grad():
        z = model(input_ids=inputs["input_ids"]).logits[:, :-1].double().logsumexp(-1)[inputs["labels"][:, 1:] != -100]
    attached = attach_z_loss(model.train(), 0.1)
    model(**inputs)
    found = attached.stats()
    assert found["mu_z"] == pytest.approx(float(z.mean()), rel=1e-5)
    assert found["sigma_z"] == pytest.approx(float(z.std(correction=0)), rel=1e-4)
    assert found["largest_log_z"] == pytest.approx(float(z.abs().max()), rel=1e-5)
    assert found["head_norm"] == pytest.approx(float(attached.linear.weight.detach().norm()), rel=1e-5)
    assert "log Z" in attached.sentence() and set(attached.stats()) == {"head_norm"}  # nothing since


def test_a_second_one_and_a_wrong_alpha_are_refused() -> None:
    model = tiny_model("llama")
    with pytest.raises(UserError, match="alpha"):
        attach_z_loss(model, -1.0)
    attach_z_loss(model)
    with pytest.raises(UserError, match="already"):
        attach_z_loss(model)


def trained(folder: Path, accumulate: int, callback: bool = True, **more: Any) -> Any:
    from transformers import Trainer, TrainingArguments

    from selfnorm.hf.trainer import ZLossCallback, ZLossMixin

    class Mine(ZLossMixin, Trainer):  # type: ignore[misc]
        pass

    data = [{key: value[0] for key, value in batch(seed).items()} for seed in range(8)]
    for i, row in enumerate(data):
        row["labels"][: i % 5] = -100  # so that means over micro-batches differ from the mean over the batch
    arguments = TrainingArguments(
        str(folder), per_device_train_batch_size=4 // accumulate, gradient_accumulation_steps=accumulate, max_steps=3, logging_steps=1,
        report_to=[], use_cpu=True, save_strategy="no", learning_rate=1e-2, eval_strategy="steps", eval_steps=3, seed=3, **more,
    )  # fmt: skip
    how: dict[str, Any] = {"args": arguments, "train_dataset": data, "eval_dataset": data}
    model = tiny_model("llama")
    made = Trainer(model, callbacks=[ZLossCallback(0.05)], **how) if callback else Mine(model, z_alpha=0.05, **how)
    made.train()
    return made


@pytest.mark.filterwarnings("default")
def test_trainer_logs_the_numbers_and_accumulation_changes_nothing(tmp_path: Path) -> None:
    whole = trained(tmp_path / "1", 1)
    history = [line for line in whole.state.log_history if "loss" in line]
    assert len(history) == 3 and all(
        {"mu_z", "sigma_z", "largest_log_z", "z_penalty", "head_norm"} <= set(line) for line in history
    )
    assert history[0]["loss"] > history[0]["z_penalty"] > 0.1
    assert history[-1]["mu_z"] < history[0]["mu_z"]  # the penalty pulls
    (evaluated,) = (line["eval_loss"] for line in whole.state.log_history if "eval_loss" in line)
    with torch.no_grad():  # detached at the end, and without the penalty in between
        rows = [whole.model(**{k: v.unsqueeze(0) for k, v in row.items()}).loss.item() for row in whole.eval_dataset]
    assert evaluated < history[-1]["loss"] and min(rows) < evaluated < max(rows)
    for other in (trained(tmp_path / "2", 4), trained(tmp_path / "3", 1, callback=False)):
        for name, value in other.model.state_dict().items():
            assert torch.allclose(value, whole.model.state_dict()[name], atol=2e-5), name


def test_a_function_for_trainers_that_compute_their_own_loss() -> None:
    from selfnorm.hf.zloss import ZLossFunction

    model, inputs, function = tiny_model("llama"), batch(), ZLossFunction(0.1)
    outputs = model(input_ids=inputs["input_ids"])
    assert function(outputs, inputs["labels"]).item() == pytest.approx(expected(model, inputs, 0.1).item(), rel=1e-5)
    with torch.no_grad():  # evaluation
        plain = expected(model, inputs, 0.0).item()
        assert function(outputs, inputs["labels"]).item() == pytest.approx(plain, rel=1e-5)
    assert "mu_z" in function.stats() and function.stats() == {}


def test_a_trainer_that_ignores_the_models_loss_is_told_so() -> None:
    from types import SimpleNamespace

    from selfnorm.hf.trainer import ZLossCallback

    callback = ZLossCallback(0.1)
    callback.on_train_begin(None, None, None, model=tiny_model("llama"))
    with pytest.warns(UserWarning, match="no z-loss"):
        callback.on_log(None, SimpleNamespace(log_history=[]), None, logs={"loss": 1.0})


def reduce_in(rank: int, file: str, queue: Any) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    model = tiny_model("llama")
    attached = attach_z_loss(model.train(), 0.1)
    model(**batch(rank))
    queue.put(attached.stats())
    torch.distributed.destroy_process_group()


def test_stats_are_over_all_processes(tmp_path: Path) -> None:
    context: Any = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=reduce_in, args=(rank, str(tmp_path / "meet"), queue)) for rank in range(2)]
    for worker in workers:
        worker.start()
    found = [queue.get(timeout=240) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert found[0] == found[1]
    model, every = tiny_model("llama"), []
    for rank in range(2):
        inputs = batch(rank)
        with torch.no_grad():
            z = model(input_ids=inputs["input_ids"]).logits[:, :-1].double().logsumexp(-1)
        every.append(z[inputs["labels"][:, 1:] != -100])
    assert found[0]["mu_z"] == pytest.approx(float(torch.cat(every).mean()), rel=1e-5)
