"""A z-loss in an ordinary torch training loop, with a monitor of log Z. Runs in seconds on random tokens."""

import torch

import selfnorm as sn

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(50, 32), torch.nn.Linear(32, 50))
optimizer, monitor = torch.optim.AdamW(model.parameters(), lr=3e-3), sn.LogZMonitor(V=50)
for _ in range(100):
    tokens = torch.randint(50, (8, 33))
    labels = (tokens[:, 1:] * 0 + (tokens[:, :-1] + 1) % 50).masked_fill(torch.rand(8, 32) < 0.1, -100)
    loss = sn.z_loss(model(tokens[:, :-1]), labels, alpha=1e-4)
    optimizer.zero_grad()
    loss.total.backward()
    optimizer.step()
    monitor.add(loss.log_z)
print(f"cross-entropy {float(loss.fit):.3f}, penalty {float(loss.penalty):.5f}")
print(monitor.sentence())
