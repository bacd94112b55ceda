"""Train a small model of transformers with Trainer, with and without a z-loss, and plot log Z and the head's norm over the steps.

    python examples/zloss_trainer.py TEXT --alphas 0 1e-4 1e-2 --steps 150 --to OUT

Writes OUT/zloss.json and OUT/zloss.svg. Minutes on a CPU. Needs the extras "hf" and "report".
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from selfnorm.hf.trainer import ZLossCallback

V, T = 2048, 64


def tokens_of(text: Path) -> torch.Tensor:
    """The text as byte-level BPE tokens, in rows of T."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel()
    content = text.read_text(encoding="utf-8")
    made.train_from_iterator([content], trainers.BpeTrainer(vocab_size=V, show_progress=False))
    ids = torch.tensor(made.encode(content).ids)
    return ids[: len(ids) // T * T].view(-1, T)


def train(rows: torch.Tensor, alpha: float, steps: int, rate: float, to: Path) -> list[dict[str, Any]]:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=V, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4
    )
    arguments = TrainingArguments(
        str(to), max_steps=steps, logging_steps=5, per_device_train_batch_size=16, learning_rate=rate, report_to=[], save_strategy="no",
        use_cpu=True, disable_tqdm=True, seed=1, lr_scheduler_type="constant", eval_strategy="steps", eval_steps=steps,
    )  # fmt: skip
    data = [{"input_ids": row, "labels": row} for row in rows]
    held_out, rest = data[::20], [row for place, row in enumerate(data) if place % 20]
    trainer = Trainer(
        LlamaForCausalLM(config), arguments, train_dataset=rest, eval_dataset=held_out, callbacks=[ZLossCallback(alpha)]
    )
    trainer.train()
    return list(trainer.state.log_history)


NAMES = {
    "loss": "cross-entropy",
    "mu_z": "mean of log Z",
    "sigma_z": "spread of log Z",
    "head_norm": "norm of the head",
}


def plot(histories: dict[str, list[dict[str, Any]]], file: Path) -> None:
    """One panel for each quantity, one line for each alpha, drawn by Vega-Lite."""
    import vl_convert

    rows = [
        {"alpha": alpha, "step": line["step"], **line, "loss": line["loss"] - line["z_penalty"]}
        for alpha, history in histories.items()
        for line in history
        if "mu_z" in line
    ]
    panels = [
        {
            "title": title,
            "width": 190,
            "height": 170,
            "mark": "line",
            "encoding": {
                "x": {"field": "step", "type": "quantitative"},
                "y": {"field": name, "type": "quantitative", "title": None, "scale": {"zero": False}},
                "color": {"field": "alpha", "type": "nominal"},
                "strokeDash": {"field": "alpha", "type": "nominal"},
            },
        }
        for name, title in NAMES.items()
    ]
    spec = {"data": {"values": rows}, "hconcat": panels, "background": "white"}
    file.write_text(vl_convert.vegalite_to_svg(spec))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--alphas", nargs="+", default=["0", "1e-4", "1e-2"])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rate", type=float, default=5e-3)
    parser.add_argument("--to", type=Path, default=Path("zloss"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.to.mkdir(parents=True, exist_ok=True)
    rows, histories = tokens_of(given.text), dict[str, list[dict[str, Any]]]()
    for alpha in given.alphas:
        histories[alpha] = train(rows, float(alpha), given.steps, given.rate, given.to / "trainer")
        last = [line for line in histories[alpha] if "mu_z" in line][-1]
        held_out = next(line["eval_loss"] for line in histories[alpha] if "eval_loss" in line)
        shown = ", ".join(f"{key} {last[key]:.3f}" for key in ("mu_z", "sigma_z", "largest_log_z", "head_norm"))
        print(f"alpha {alpha}: held-out cross-entropy {held_out:.3f}, {shown}", flush=True)
    (given.to / "zloss.json").write_text(json.dumps(histories, indent=1) + "\n")
    plot(histories, given.to / "zloss.svg")


if __name__ == "__main__":
    main()
