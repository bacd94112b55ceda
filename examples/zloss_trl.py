"""A z-loss in TRL's SFTTrainer, on a tiny model and made-up text. Needs the extra "hf", trl and datasets.

SFTTrainer computes its loss itself, so the z-loss is given as its compute_loss_func: the logits are made, memory is not saved.
"""

import tempfile

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from selfnorm.hf.trainer import ZLossCallback
from selfnorm.hf.zloss import ZLossFunction

lines = [f"the {a} saw the {b} and the {b} saw the {a}" for a in ("cat", "dog", "bird") for b in ("tree", "fox", "cow")]
words = Tokenizer(models.WordLevel(unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words.train_from_iterator(
    lines, trainers.WordLevelTrainer(special_tokens=["<unk>", "<pad>", "</s>"], show_progress=False)
)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", pad_token="<pad>", eos_token="</s>")
config = LlamaConfig(
    vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4
)
function = ZLossFunction(alpha=1e-3)
with tempfile.TemporaryDirectory() as folder:
    arguments = SFTConfig(
        folder, max_steps=6, logging_steps=3, per_device_train_batch_size=4, learning_rate=1e-2, report_to=[], save_strategy="no",
        use_cpu=True, bf16=False, max_length=32, disable_tqdm=True,
    )  # fmt: skip
    trainer = SFTTrainer(
        LlamaForCausalLM(config), arguments, train_dataset=Dataset.from_dict({"text": lines * 4}), processing_class=tokenizer,
        callbacks=[ZLossCallback(function=function)], compute_loss_func=function,
    )  # fmt: skip
    trainer.train()
for line in trainer.state.log_history:
    if "mu_z" in line:
        print(f"step {line['step']}: loss {line['loss']:.3f}, mu_z {line['mu_z']:+.2f}, sigma_z {line['sigma_z']:.2f}")
