"""Side by side with the only other NCE package, pytorch-nce, in an environment of its own, turn by turn.

    python benchmarks/peers.py [--vocab 10000] [--d 100] [--env build/peers] [--json FILE]

Prints one JSON object: median milliseconds per training step on the same window (20 x 20, k = 100), and their ratio.
The file also has versions, machine, date and command. The environment is created on first use.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import venv
from pathlib import Path

from selfnorm._util.files import write_json
from selfnorm._util.machine import environment

# Runs in the peer's environment: one line in, one step, its seconds out.
PEER = """
import sys, time, torch
from nce import IndexLinear
V, d = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(2); torch.manual_seed(0)
counts = 1e7 / torch.arange(1, V + 1).double()
table, lstm = torch.nn.Embedding(V, d), torch.nn.LSTM(d, d, 2, dropout=0.5, batch_first=True)
out = IndexLinear(d, V, noise=counts, noise_ratio=100, norm_term=0, reduction='none').float()
drop, parameters = torch.nn.Dropout(0.5), [*table.parameters(), *lstm.parameters(), *out.parameters()]
sgd = torch.optim.SGD(parameters, lr=1e-3)
print('ready', flush=True)
for _ in sys.stdin:
    ids = (torch.rand(2, 20, 20) * torch.log(torch.tensor(float(V)))).exp().long().clamp(max=V - 1)
    start = time.perf_counter()
    x, _ = lstm(drop(table(ids[0])))
    sgd.zero_grad()
    (out(ids[1], drop(x)).sum() / 20).backward()
    torch.nn.utils.clip_grad_norm_(parameters, 5.0)
    sgd.step()
    print(time.perf_counter() - start, flush=True)
"""

OURS = """
import sys, time, torch
from selfnorm._util.memory import keep_freed_memory
from selfnorm.config.recipe import CriterionSettings, Model
from selfnorm.nn.model import build
from selfnorm.studies.bench.steps import one_step, zipf_counts
V, d = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(2); keep_freed_memory()
rng = torch.Generator().manual_seed(0)
work = one_step(build(Model(d=d), V, rng), CriterionSettings(name="nce"), zipf_counts(V), rng)
print('ready', flush=True)
for _ in sys.stdin:
    start = time.perf_counter(); work(); print(time.perf_counter() - start, flush=True)
"""


def peer_python(folder: Path) -> str:
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "torch==2.13.0", "numpy", "pytorch-nce"], check=True)
    return str(python)


def start(python: str, code: str, V: int, d: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [python, "-W", "ignore", "-c", code, str(V), str(d)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline().strip() == "ready"
    return process


def one(process: subprocess.Popen[str]) -> float:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--vocab", type=int, default=10_000)
    arguments.add_argument("--d", type=int, default=100)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--env", type=Path, default=Path("build/peers"))
    arguments.add_argument("--json", type=Path, default=None)
    chosen = arguments.parse_args()
    both = {
        "selfnorm nce": start(sys.executable, OURS, chosen.vocab, chosen.d),
        "pytorch-nce": start(peer_python(chosen.env), PEER, chosen.vocab, chosen.d),
    }
    spent: dict[str, list[float]] = {name: [] for name in both}
    for turn in range(chosen.rounds + 2):
        for name, process in both.items():
            seconds = one(process)
            if turn >= 2:
                spent[name].append(seconds)
    medians = {name: 1000 * statistics.median(times) for name, times in spent.items()}
    ratio = medians["pytorch-nce"] / medians["selfnorm nce"]
    result = {"V": chosen.vocab, "d": chosen.d, "milliseconds": medians, "pytorch-nce / selfnorm": ratio}
    print(json.dumps(result, indent=1))
    if chosen.json:
        command = f"python benchmarks/peers.py --vocab {chosen.vocab} --d {chosen.d} --rounds {chosen.rounds}"
        write_json(chosen.json, {**environment(), "command": command, **result})
    for process in both.values():
        process.terminate()


if __name__ == "__main__":
    main()
