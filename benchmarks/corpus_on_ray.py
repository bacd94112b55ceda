"""Score a long text on a local Ray with two workers, kill one of them, and compare with one process that runs beside it.

    python benchmarks/corpus_on_ray.py WORK --lines 2000000 --to benchmarks/results/corpus-on-ray.json

Sentences are generated from a small grammar. WORK is a folder for the run, the text and the parts; it is made if it is absent.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from selfnorm._util.files import write_json
from selfnorm._util.machine import command_line, environment

WORDS = 500


def write_sentences(path: Path, lines: int, seed: int) -> None:
    """Sentences of 4 to 20 words in which a word depends on the one before."""
    rng = np.random.default_rng(seed)
    successors = np.random.default_rng(1).integers(WORDS, size=(WORDS, 4))
    with path.open("w", encoding="utf-8") as handle:
        for _ in range(-(-lines // 10_000)):
            count = min(10_000, lines)
            lines -= count
            words, lengths = rng.integers(WORDS, size=count), rng.integers(4, 20, size=count)
            columns = [words]
            for _ in range(20):
                columns.append(successors[columns[-1], rng.integers(4, size=count)])
            table = np.stack(columns, axis=1)
            handle.writelines(" ".join(f"w{i}" for i in row[:n]) + "\n" for row, n in zip(table, lengths, strict=True))


def workers(driver: int) -> list[int]:
    """Processes of the driver's own Ray that compute a shard: another Ray on this machine is left alone."""
    parents, titled = {}, []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if (path / "cmdline").read_bytes().startswith(b"ray::_work"):
                titled.append(int(path.name))
        except OSError:
            continue

    def is_under(process: int) -> bool:
        return process == driver or (process in parents and is_under(parents[process]))

    return [process for process in titled if is_under(process)]


def megabytes(process: int) -> float:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def on_ray(line: list[str], parts: Path, shards: int, begin: Callable[[], None]) -> dict[str, object]:
    """Run it, kill a worker after a fifth of the shards, and look at the workers' memory all the time.

    `begin` is called when the workers are there: Ray gives up if it cannot start within 15 seconds.
    """
    killed, memory, start = False, list[tuple[float, float, list[float]]](), time.perf_counter()
    with subprocess.Popen(
        line, stderr=subprocess.PIPE, text=True, env={**os.environ, "RAY_ADDRESS": "local"}
    ) as driver:
        while driver.poll() is None:
            done, now = len(list(parts.glob("part-*.json"))), workers(driver.pid)
            if now:
                if not memory:
                    begin()
                memory.append((time.perf_counter() - start, done / shards, sorted(map(megabytes, now))))
            if not killed and done >= shards / 5 and now:
                os.kill(now[0], signal.SIGKILL)
                killed = True
            time.sleep(0.5)
        said = driver.stderr.read() if driver.stderr else ""
    if driver.returncode:
        sys.exit(said)
    halves = [
        max((most[-1] for _, share, most in memory if low <= share < high), default=0.0)
        for low, high in ((0.3, 0.6), (0.6, 1.1))
    ]
    every = -(-len(memory) // 40) or 1
    over_time = [[round(t), round(share, 3), *(round(m) for m in most)] for t, share, most in memory[::every]]
    return {"killed": killed, "sent_again": said.count("AGAIN"), "seconds": time.perf_counter() - start,
            "worker_megabytes_middle": halves[0], "worker_megabytes_end": halves[1],
            "seconds_share_megabytes_of_each_worker": over_time}  # fmt: skip


def sha256_of(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--to", type=Path)
    options = parser.parse_args()
    work, me = options.work, [sys.executable, "-m", "selfnorm"]
    work.mkdir(parents=True, exist_ok=True)
    for name, lines, seed in (("train.txt", 5_000, 1), ("corpus.txt", options.lines, 2)):
        if not (work / name).exists():
            write_sentences(work / name, lines, seed)
    sizes = ["model.d=32", "training.epochs=1", "data.tokens=whitespace", "training.device=cpu"]
    train = [*me, "train", "--to", str(work / "run"), "--text", str(work / "train.txt")]
    subprocess.run([*train, *(part for one in sizes for part in ("--set", one))], check=True)
    score, env = [*me, "score", str(work / "run"), str(work / "corpus.txt")], {**os.environ, "OMP_NUM_THREADS": "1"}
    shard = max(2560, options.lines // 100)
    start = time.perf_counter()
    on = ["--on", "ray", "--jobs", "2", "--to", str(work / "parts"), "--shard", str(shard)]
    serial = list[subprocess.Popen[bytes]]()

    def begin() -> None:
        with (work / "serial.txt").open("wb") as handle:
            serial.append(subprocess.Popen(score, stdout=handle, env=env))

    found = on_ray([*score, *on], work / "parts", -(-options.lines // shard), begin)
    if serial[0].wait():
        sys.exit("the single process failed")
    seconds = time.perf_counter() - start
    parts = sha256_of(sorted((work / "parts").glob("part-*.txt")))
    manifest = json.loads((work / "parts" / "manifest.json").read_text())
    found |= {"lines": options.lines, "lines_written": manifest["lines_written"], "parts": len(manifest["parts"]),
              "identical": parts == sha256_of([work / "serial.txt"]), "seconds_until_the_single_process_ended": seconds}  # fmt: skip
    print(json.dumps(found))
    if options.to is not None:
        write_json(options.to, {"command": command_line(), **environment(), **found})


if __name__ == "__main__":
    main()
