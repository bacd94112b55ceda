"""Colours and marks: a criterion has one colour in every picture of a page; its variants differ by their mark."""

from __future__ import annotations

from collections.abc import Sequence

from selfnorm.registry.criteria import CRITERIA

# Okabe and Ito's palette, safe for colour-blind readers; shapes repeat the distinction.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"]
GREY = "#777777"  # what is no criterion
MARKS = "osD^vPX*"


def styles(criteria: Sequence[str]) -> list[dict[str, str]]:
    """A colour and a mark for each criterion of a picture; no pair comes again before eight of one colour."""
    taken: dict[str, int] = {}
    places = {name: place for place, name in enumerate(CRITERIA)}
    looks = []
    for criterion in criteria:
        place = places.get(criterion, 0)
        colour = COLOURS[place % 8] if criterion in places else GREY
        mark = MARKS[(place + taken.get(colour, 0)) % 8]
        taken[colour] = taken.get(colour, 0) + 1
        looks.append({"color": colour, "marker": mark})
    return looks


def dashes(looks: Sequence[dict[str, str]]) -> list[str]:
    """A kind of line for each look, so that lines of one colour differ too."""
    colours = [look["color"] for look in looks]
    return [("-", "--", ":", "-.")[colours[:place].count(colour) % 4] for place, colour in enumerate(colours)]
