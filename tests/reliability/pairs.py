"""Two commands on one folder at the same time: both end well or one is told to wait, and nothing of either is lost."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

from selfnorm._util.manifest import problem_of, read_manifest
from selfnorm.cli import main
from selfnorm.runs.calibrations import stored_facts
from selfnorm.runs.folder import open_run
from selfnorm.runs.opening import load

from .crashes import Tally, _good
from .world import World

TOLD = ("being trained by another process", "were replaced meanwhile", "was changed while")


def pairs(base: Path, most: int, tally: Tally) -> None:
    world = World(base)
    world.reset(None)
    _good(world.command(world.train(1, "valid.shift")))
    template, run = world.keep("one"), str(world.run)
    calibrate: dict[str, list[str]] = {kind: ["calibrate", run, "--with", kind] for kind in ("shift", "affine", "int8")}
    plans: list[tuple[list[str], list[str]]] = [
        (calibrate["affine"], calibrate["int8"]),
        (calibrate["shift"], calibrate["affine"]),
        (calibrate["affine"], ["measure", run, "--split", "test"]),
        (["measure", run, "--split", "test"], ["measure", run, "--split", "valid"]),
        (world.train(2, "valid"), calibrate["affine"]),
        (world.train(2, "valid"), ["measure", run, "--split", "test"]),
        (world.train(2, "valid"), world.train(2, "valid")),
    ]
    for one, two in cycle(plans):
        if tally.tried >= most:
            return
        world.reset(template)
        tally.add(pair_once(world, one, two))


def pair_once(world: World, one: list[str], two: list[str]) -> str | None:
    begun = [world.begin(lambda arguments=arguments: main(arguments)) for arguments in (one, two)]
    ended = [world.end(*child) for child in begun]
    what = f"{' '.join(one[:4])} and {' '.join(two[:4])}"
    for end in ended:
        if end.code != 0 and not (end.code == 2 and any(text in end.said for text in TOLD)):
            return f"{what}: exit {end.code}: {end.said[-300:]}"
    checked: Any = world.child(
        lambda: _whole(world, [a for a, end in zip((one, two), ended, strict=True) if end.code == 0])
    )
    return None if checked.code == 0 else f"{what}: {checked.said[-300:]}"


def _whole(world: World, succeeded: list[list[str]]) -> int:
    """Every listed file is the one that was written, and what both commands stored is there."""
    load(world.run, normalized=True)
    manifest = read_manifest(world.run)
    assert manifest is not None and not manifest.open
    problems = [f"{name} {problem}" for name in manifest.files if (problem := problem_of(world.run, name, manifest))]
    trained = any(arguments[0] == "train" for arguments in succeeded)
    kinds = {arguments[3] for arguments in succeeded if arguments[0] == "calibrate"}
    facts = stored_facts(open_run(world.run))
    problems += [f"{kind}: its facts are lost" for kind in kinds if kind not in facts and not trained]
    problems += [p.name for p in world.run.iterdir() if p.name.endswith((".new", ".part"))]
    print(problems)
    return int(bool(problems))
