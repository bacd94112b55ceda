"""Peak memory of exact scores of one long text: ours against log_softmax of transformers' logits, T = 4,096.

    python benchmarks/hf_memory.py [--json FILE]
    python benchmarks/hf_memory.py --estimates      # of fitting and using screen, int8 and mlp on the larger head

Models have random weights and one small layer, so that the head decides. Memory is the most that was held beyond what was held before.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from claim import AT_MOST, Claims

from selfnorm._util.memory import megabytes_of
from selfnorm.hf.adapter import Adapter

SIZES = [(49_152, 576), (262_144, 640)]
T = 4096


def model_of(V: int, d: int) -> torch.nn.Module:
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    small = {"intermediate_size": d, "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 2}
    config = AutoConfig.for_model(
        "llama", vocab_size=V, hidden_size=d, max_position_embeddings=T, tie_word_embeddings=True, **small
    )
    model: torch.nn.Module = AutoModelForCausalLM.from_config(config).eval()
    return model


def estimates(V: int, d: int) -> None:
    """Peak memory of fitting and using each estimate of log Z, beyond the head's own rows."""
    import selfnorm as sn

    torch.manual_seed(0)
    head, c = sn.Output.from_linear(torch.nn.Linear(d, V, bias=False)), torch.randn(1024, d)
    for kind, settings in (("screen", {}), ("int8", {}), ("mlp", {"passes": 1})):
        found = dict[str, Any]()

        def fit(kind: str = kind, settings: dict[str, Any] = settings, found: dict[str, Any] = found) -> None:
            found["normalizer"] = sn.fit_normalizer(head, iter(c.split(512)), kind, progress=False, **settings)

        fitting = megabytes_of(fit)
        using = megabytes_of(lambda found=found: found["normalizer"](c[:64]))  # type: ignore[misc]
        print(f"{kind}: fit {fitting:.0f} MB, use {using:.0f} MB", flush=True)


@torch.no_grad()
def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", type=int, default=len(SIZES), help="so many of the sizes")
    arguments.add_argument("--estimates", action="store_true", help="memory of the estimates of log Z instead")
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    if given.estimates:
        estimates(*SIZES[-1])
        return 0
    claims = Claims()
    for V, d in SIZES[: given.sizes]:
        model = model_of(V, d)
        adapter, ids = Adapter(model), torch.randint(V, (1, T), generator=torch.Generator().manual_seed(1))
        found = dict[str, torch.Tensor]()

        def theirs(
            ids: torch.Tensor = ids, model: torch.nn.Module = model, found: dict[str, torch.Tensor] = found
        ) -> None:
            log_p = model(input_ids=ids).logits[0, :-1].float().log_softmax(-1)
            found["theirs"] = log_p.gather(1, ids[0, 1:, None]).squeeze(1)

        def ours(ids: torch.Tensor = ids, adapter: Adapter = adapter, found: dict[str, torch.Tensor] = found) -> None:
            m, log_z = adapter.head.target_and_log_z(ids[0, 1:], adapter.contexts(ids)[0, :-1])
            found["ours"] = m - log_z

        memory = {"ours": megabytes_of(ours) or 0.0, "log_softmax": megabytes_of(theirs) or 0.0}
        off = float((found["ours"] - found["theirs"]).abs().max())
        ratio = memory["ours"] / memory["log_softmax"]
        claims.check(
            f"peak memory over log_softmax, T = {T:,}, V = {V:,}, d = {d}",
            ratio,
            AT_MOST,
            0.25,
            megabytes=memory,
            largest_difference=off,
        )
        print(memory, off, flush=True)
    return claims.finish(given.json, "python benchmarks/hf_memory.py")


if __name__ == "__main__":
    raise SystemExit(main())
