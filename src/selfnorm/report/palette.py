"""Colours and marks: a criterion has one colour in every picture of a page; its variants differ by their mark."""

from __future__ import annotations

from collections.abc import Sequence

from selfnorm.names import NAMES

# Okabe and Ito's palette, safe for colour-blind readers; shapes repeat the distinction.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"]
MARKS = "osD^vPX*"
PLACES = {name: place for place, name in enumerate(NAMES)}


def styles(criteria: Sequence[str]) -> list[dict[str, str]]:
    """A colour and a mark for each criterion of a picture; no pair comes again before eight of one colour."""
    taken: dict[str, int] = {}
    found = []
    for index, criterion in enumerate(criteria):
        place = PLACES.get(criterion, index)
        colour = COLOURS[place % 8]
        mark = MARKS[(place + taken.get(colour, 0)) % 8]
        taken[colour] = taken.get(colour, 0) + 1
        found.append({"color": colour, "marker": mark})
    return found


def criterion_of(run: str) -> str:
    """The criterion in a run's name: nce_r of ptb-nce_r-a10-d100-s1; nothing where the name is someone's own."""
    return next((part for part in run.split("-") if part in NAMES), "")
