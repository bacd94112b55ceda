"""Tiny random models of many families: the settings that make each small."""

from __future__ import annotations

from typing import Any

V = 101
COMMON = {
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2 = {
    "vocab_size": V,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
HEADS = {**COMMON, "head_dim": 8}
MOE = {**HEADS, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}

FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": GPT2,
    "gptj": {**GPT2, "rotary_dim": 4},
    "gpt_neo": {**COMMON, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]},
    "gpt_neox": COMMON,
    "gpt_bigcode": GPT2,
    "bloom": {**COMMON, "n_layer": 2, "n_head": 4},
    "opt": {**COMMON, "ffn_dim": 48, "word_embed_proj_dim": 32},
    "falcon": COMMON,
    "mpt": {"vocab_size": V, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64},
    "codegen": {**GPT2, "rotary_dim": 4},
    "llama": COMMON,
    "mistral": HEADS,
    "mixtral": MOE,
    "qwen2": COMMON,
    "qwen3": HEADS,
    "qwen3_moe": MOE,
    "gemma": HEADS,
    "gemma2": {**HEADS, "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 8},
    "gemma3_text": {**HEADS, "query_pre_attn_scalar": 8},
    "phi": COMMON,
    "phi3": {**COMMON, "num_key_value_heads": 4},
    "olmo": COMMON,
    "olmo2": COMMON,
    "olmoe": MOE,
    "cohere": {**COMMON, "logit_scale": 0.0625},
    "cohere2": {**COMMON, "logit_scale": 0.25},
    "granite": {**COMMON, "logits_scaling": 8.0},
    "stablelm": COMMON,
    "starcoder2": COMMON,
    "nemotron": HEADS,
    "glm": {**HEADS, "partial_rotary_factor": 0.5},
    "smollm3": COMMON,
    "minicpm3": {
        **COMMON,
        "num_key_value_heads": 4,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 8,
        "v_head_dim": 8,
        "dim_model_base": 16,
        "scale_emb": 12.0,
        "scale_depth": 1.4,
    },
    "mamba": {"vocab_size": V, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    "mamba2": {
        "vocab_size": V,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "state_size": 4,
        "num_heads": 8,
        "head_dim": 8,
        "n_groups": 2,
    },
    "recurrent_gemma": {
        **COMMON,
        "lru_width": 32,
        "block_types": ["recurrent", "attention"],
        "attention_window_size": 16,
    },
    "hyperclovax": {**COMMON, "logits_scaling": 2.0},
}


def tiny_model(family: str, **settings: Any) -> Any:
    """A model with random weights, large enough that its logits differ."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **{**FAMILIES[family], **settings})).eval()
    with torch.no_grad():
        linear = model.get_output_embeddings()
        linear.weight.normal_(0, 1.0)
    return model
