"""Words per second and bytes on the wire of 1 and 2 training processes of one thread each, the same streams per process.

    python benchmarks/scaling.py --to benchmarks/results/scaling.json

Every case runs alone first, then by two processes under torchrun; `control` is two processes that exchange nothing: what the
machine itself loses when both cores work. CPU seconds are of one process, its exchange included: they mean something on a busy
machine too. Bytes are what one process gives to the others in a step.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfnorm._util.devices import make_rng
from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment
from selfnorm._util.memory import keep_freed_memory
from selfnorm._util.processes import Processes, processes
from selfnorm.config.recipe import CriterionSettings, Model, Training
from selfnorm.criteria.build import make_criterion
from selfnorm.data.windows import Windows
from selfnorm.nn.model import build
from selfnorm.registry.criteria import CRITERIA
from selfnorm.studies.bench.steps import zipf_counts
from selfnorm.training import loop
from selfnorm.training.exchange import Exchange
from selfnorm.training.loop import Place, train
from selfnorm.training.optimizer import Optimizer

T = 20


PARTS = {  # of a step
    "forward and backward": (loop, "backward"), "numbers": (Exchange, "_told"), "dense gradients": (Exchange, "_dense"),
    "rows": (Exchange, "_rows"), "norms": (Optimizer, "norms"), "update": (Optimizer, "apply"),
}  # fmt: skip


@contextmanager
def cpu_of_parts() -> Iterator[dict[str, list[float]]]:
    """CPU milliseconds of each part at every step, the threads of gloo included, while this block runs."""
    laps: dict[str, list[float]] = {name: [] for name in PARTS}

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                laps[name].append(1000 * (time.process_time() - start))

        return call

    originals = {name: getattr(owner, attribute) for name, (owner, attribute) in PARTS.items()}
    for name, (owner, attribute) in PARTS.items():
        setattr(owner, attribute, counted(name, originals[name]))
    try:
        yield laps
    finally:
        for name, (owner, attribute) in PARTS.items():
            setattr(owner, attribute, originals[name])


def one_case(
    name: str, V: int, d: int, streams: int, steps: int, warm: int, us: Processes, exchange: bool
) -> dict[str, Any]:
    """Median seconds of a step and bytes a step."""
    counts, rng = zipf_counts(V), make_rng(1)
    size = us.size if exchange else 1
    B = streams * size
    ids = np.exp(np.random.default_rng(0).random((steps + warm) * B * T + B) * np.log(V)).astype(np.int64) % V
    criterion = make_criterion(CriterionSettings(name=name), counts, ids)
    model = build(Model(d=d), V, rng, CRITERIA[name].output, CRITERIA[name].normalizer)
    windows = Windows(ids, B, T, us.device, us.rank if exchange else 0, size)
    told = Exchange(us) if exchange else None
    laps, start, used = [], time.perf_counter(), time.process_time()
    training = Training(epochs=1, batch=B, steps=T, learning_rate=0.01)
    with cpu_of_parts() as parts:
        for place in train(model, criterion, windows, training, rng, Place(), None, told):
            now = time.perf_counter()
            if place.window > warm:
                laps.append(now - start)
            if place.window == warm:
                used = time.process_time()
            start = now
    used = (time.process_time() - used) / steps
    sent = {} if told is None else {key: value // (steps + warm) for key, value in told.sent.items()}
    seconds = statistics.median(laps)
    return {
        "criterion": name, "V": V, "d": d, "streams": streams, "processes": us.size, "exchange": exchange, "steps": steps,
        "seconds_per_step": seconds, "cpu_seconds_per_step": used, "words_per_second": us.size * streams * T / seconds,
        "bytes_per_step": sent,
        "cpu_milliseconds": {name: statistics.median(ms[warm:]) for name, ms in parts.items() if ms[warm:]},
    }  # fmt: skip


def worker(cases: list[list[Any]], exchange: bool) -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    with processes("cpu") as us:
        rows = [one_case(*case, us, exchange and us.size > 1) for case in cases]
        if us.first:
            print(json.dumps(rows))


def launched(cases: list[list[Any]], count: int, exchange: bool) -> list[dict[str, Any]]:
    line = (
        [sys.executable]
        if count == 1
        else [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    )
    given = [__file__, "--worker", json.dumps(cases), *(["--apart"] if not exchange else [])]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*line, *given], stdout=subprocess.PIPE, text=True, check=True, env=env)
    found: list[dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--worker")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument(
        "--timed",
        default='[["nce", 10000, 650, 20, 20, 4]]',
        help="cases timed alone, apart and together: criterion, V, d, streams, steps, steps before",
    )
    parser.add_argument("--counted", default="[]", help="cases whose bytes are counted, the same way")
    options = parser.parse_args()
    if options.worker:
        worker(json.loads(options.worker), not options.apart)
        return
    timed, counted = json.loads(options.timed), json.loads(options.counted)
    rows = []
    for case in timed:  # each after the other, so that what else runs falls on all alike
        rows += [*launched([case], 1, True), *launched([case], 2, False), *launched([case], 2, True)]
    rows += launched(counted, 2, True) if counted else []
    for row in rows:
        print(json.dumps(row))
    if options.to is not None:
        write_json(options.to, {"command": command_line(), **environment(), "rows": rows})


if __name__ == "__main__":
    main()
