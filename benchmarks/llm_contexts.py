"""The inputs of a language model's head on some texts, for benchmarks/llm_head.py. Needs transformers (and gguf for GGUF files).

    python benchmarks/llm_contexts.py FOLDER --gguf FILE --text sotu_fit=a.txt code_fit=b.py --tokens 12000 --to CONTEXTS

Windows of 512 tokens that do not overlap, each run alone; 511 contexts a window. The logits are never made.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder that transformers loads")
    parser.add_argument("--gguf", help="the GGUF file in it")
    parser.add_argument("--text", nargs="+", required=True, help="NAME=FILE")
    parser.add_argument("--tokens", type=int, default=12_000)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    how = {"gguf_file": given.gguf} if given.gguf else {}
    tokenizer = AutoTokenizer.from_pretrained(given.model, **how)
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32, **how).eval()
    given.to.mkdir(parents=True, exist_ok=True)
    np.save(given.to / "head.npy", model.get_output_embeddings().weight.detach().numpy())
    for pair in given.text:
        name, _, path = pair.partition("=")
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids[0][: given.tokens]
        c, w = contexts(model, ids, given.window)
        np.save(given.to / f"{name}.c.npy", c)
        np.save(given.to / f"{name}.w.npy", w)
        print(f"{name}: {len(c):,} contexts")


@torch.no_grad()
def contexts(model: torch.nn.Module, ids: torch.Tensor, window: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) inputs of the head and the (n,) tokens that follow, taken by a hook so that what stands between is included."""
    seen: list[torch.Tensor] = []

    class Stop(Exception):
        pass

    def keep(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        seen.append(inputs[0][0, :-1])
        raise Stop

    hook = model.get_output_embeddings().register_forward_pre_hook(keep)
    targets = []
    for at in range(0, len(ids) - window + 1, window):
        try:
            model(ids[at : at + window].unsqueeze(0))
        except Stop:
            targets.append(ids[at + 1 : at + window])
    hook.remove()
    return torch.cat(seen).float().numpy(), torch.cat(targets).numpy()


if __name__ == "__main__":
    main()
