"""Flip one bit anywhere in what a run consists of: every use either says which file is damaged or gives the same numbers."""

from __future__ import annotations

import io
import lzma
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selfnorm._util.errors import UserError
from selfnorm.config.recipe import Data
from selfnorm.config.toml import read_recipe
from selfnorm.data.corpus import open_corpus
from selfnorm.data.sources.mscc import _texts
from selfnorm.report.collect import collect
from selfnorm.runs.loading import load_model
from selfnorm.runs.opening import load
from selfnorm.training.train import train_run

from .crashes import Tally
from .world import World, state

SENTENCES = ["the cat saw a dog", "it was here and there", "a big old tree"]
Use = Callable[[], Any]


def flips(base: Path, most: int, tally: Tally, seed: int) -> None:
    """`most` flips: files in turn, each at the next of its bits in random order."""
    world, rng = World(base), random.Random(seed)
    world.reset(None)
    ended = world.command(world.train(1, "valid", "valid.shift", "valid.affine", "test"))
    assert ended.code == 0, ended.said
    assert world.command(["calibrate", str(world.run), "--with", "shift", "--stored"]).code == 0
    places = [*_of_run(world), *_of_texts(world)]
    expected = {name: use() for name, use in {use_name: use for _, use_name, use in places}.items()}
    while tally.tried < most:
        for path, name, use in places:
            if tally.tried >= most:
                return
            flip_once(path, rng, use, expected[name], tally)


def flip_once(path: Path, rng: random.Random, use: Use, expected: Any, tally: Tally) -> None:
    raw = path.read_bytes()
    place, bit = rng.randrange(len(raw)), rng.randrange(8)
    if path.suffix == ".tar":
        place = _in_a_header(raw, rng)
    flipped = bytearray(raw)
    flipped[place] ^= 1 << bit
    path.write_bytes(flipped)
    try:
        found = use()
        problem = None if found == expected else f"{path.name} byte {place} bit {bit}: other numbers, silently"
    except UserError:
        problem = None
    except Exception as error:
        problem = f"{path.name} byte {place} bit {bit}: {type(error).__name__}: {error}"
    finally:
        path.write_bytes(raw)
    tally.add(problem)


def _of_run(world: World) -> list[tuple[Path, str, Use]]:
    """Each file of the run folder, with a use that reads it."""
    run = world.run

    def score() -> Any:
        lm = load(run, normalized=True)
        return [lm.score(line) for line in SENTENCES], load(run, True, "affine").score(SENTENCES[0])

    def last() -> Any:
        opened = load(run, normalized=True)
        from selfnorm.runs.folder import open_run

        model = load_model(open_run(run), which="last", calibration="none")
        return repr(opened), [t.tolist() for t in model.state_dict().values()]

    def report() -> Any:
        found = collect(world.trial)
        return [repr(r.measured) + str(r.measured.blocks) for r in found.records], found.histories

    def resume() -> Any:
        """A copy is trained one epoch further; a damaged checkpoint must not go into it."""
        copy = world.base / "resumed"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run, copy)
        train_run(read_recipe(world.base / "r2.toml"), copy)
        return {name: content for name, content in state(copy).items() if name.endswith("safetensors")}

    uses: dict[str, tuple[str, Use]] = {
        "model.safetensors": ("last", last), "checkpoint.safetensors": ("resume", resume), "history.jsonl": ("report", report),
        "env.json": ("resume", resume), **{f"{step}.json": ("report", report) for step in ("valid", "valid.shift", "valid.affine", "test")},
    }  # fmt: skip
    files = [path for path in sorted(run.iterdir()) if path.is_file() and not path.name.startswith(".")]
    return [(path, *uses.get(path.name, ("score", score))) for path in files]


def _of_texts(world: World) -> list[tuple[Path, str, Use]]:
    """Prepared texts, a compressed text, and archives of novels."""
    data = Data(name="tiny", file=str(world.text))

    def prepared() -> Any:
        corpus = open_corpus(data)
        return corpus.vocab.words, corpus.vocab.counts.tolist(), [ids.tolist() for ids in corpus.splits.values()]

    folder = next(path for path in (world.trial / "cache").iterdir() if path.name.startswith("tiny-"))
    packed = world.base / "packed.xz"
    packed.write_bytes(lzma.compress(world.text.read_bytes()))

    def unpacked() -> Any:
        from selfnorm.data.sources.files import scan

        return list(scan(packed).lines())

    places: list[tuple[Path, str, Use]] = [(packed, "unpacked", unpacked)]
    places += [(path, "prepared", prepared) for path in sorted(folder.iterdir())]
    for ending in ("tar", "tar.gz", "tar.xz"):
        archive = _archive(world, ending)
        places.append((archive, ending, lambda archive=archive: list(_texts(archive))))
    return places


def _archive(world: World, ending: str) -> Path:
    path = world.base / f"novels.{ending}"
    with tarfile.open(path, f"w:{ending.partition('.')[2]}") as archive:
        for number, novel in enumerate(world.text.read_text().split("\n")[:12]):
            member = tarfile.TarInfo(f"{number}.TXT")
            member.size = len(novel)
            archive.addfile(member, io.BytesIO(novel.encode()))
    return path


def _in_a_header(raw: bytes, rng: random.Random) -> int:
    """A byte of a member's header: a plain .tar has no checksum of its contents."""
    headers = [at for at in range(0, len(raw), 512) if raw[at + 257 : at + 262] == b"ustar"]
    return rng.choice(headers) + rng.randrange(500)
