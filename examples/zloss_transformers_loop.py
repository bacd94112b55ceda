"""A z-loss in a plain training loop over a model of transformers. Runs in seconds on random tokens. Needs the extra "hf"."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from selfnorm.hf.zloss import attach_z_loss

torch.manual_seed(0)
config = LlamaConfig(vocab_size=60, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4)
model = LlamaForCausalLM(config).train()
z = attach_z_loss(model, alpha=1e-3)  # model(...).loss has the penalty in it; logits are never made
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(1, 61):
    ids = (torch.randint(60, (8, 1)) + torch.arange(16)) % 60
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step in (1, 60):
        numbers = z.stats()  # since the last call
        print(f"step {step}: loss {loss.item():.3f}, mu_z {numbers['mu_z']:+.2f}, sigma_z {numbers['sigma_z']:.2f}")
        print(z.sentence())
z.detach()
