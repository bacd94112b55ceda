"""A figure: a Vega-Lite chart with its title, caption and alternative text. JSON for the page, SVG and PNG for papers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from selfnorm._util.errors import missing_extra
from selfnorm._util.files import atomic, write_text
from selfnorm.report.charts.theme import config

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
Chart = dict[str, Any]  # a part of a Vega-Lite specification
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Figure:
    """Panels that the page arranges by its width. `alt` says what is to be seen, for readers who do not see it."""

    title: str
    caption: str
    alt: str
    panels: list[Chart]
    columns: int = 2
    shared: tuple[str, ...] = ()  # scales that all panels have in common

    @property
    def name(self) -> str:
        """A file name, and a part of an id: sigma-z-against-perplexity-ptb-test."""
        plain = self.title.lower().replace("σ", "sigma").replace("μ", "mu").replace("_", "-")
        return re.sub(r"[^a-z0-9.]+", "-", plain).strip("-")

    def spec(self) -> Chart:
        """The chart as Vega-Lite's JSON; the page and the files add their own configuration."""
        shared = {"resolve": {"scale": dict.fromkeys(self.shared, "shared")}} if self.shared else {}
        head = {"$schema": SCHEMA, "description": self.alt, "columns": self.columns}
        return {**head, "spacing": 25, "concat": self.panels, **shared}


@cache
def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed in one piece, for a script element."""
    text: str = converter().javascript_bundle()
    return text.replace("</script", "<\\/script")


def converter() -> Any:
    """The library that draws charts without a browser, and holds the JavaScript for the page."""
    try:
        import vl_convert
    except ImportError:
        raise missing_extra("vl-convert-python", "report", "Drawing figures") from None
    return vl_convert


def panel(rows: Rows, width: int, height: int, layers: Sequence[Chart], title: str | list[str] = "") -> Chart:
    """Layers over the same rows. Floats have five significant digits, which is more than a screen shows."""
    short = [{k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    named = {"title": title} if title else {}
    return {"width": width, "height": height, **named, "data": {"values": short}, "layer": list(layers)}


def layer(mark: str, encoding: Chart, params: Sequence[Chart] = (), **look: Any) -> Chart:
    """One mark with its channels."""
    more = {"params": list(params)} if params else {}
    return {"mark": {"type": mark, **look}, "encoding": encoding, **more}


def quantity(field: str, title: str | None = None, log: bool = False, **scale: Any) -> Chart:
    """A channel for numbers."""
    shape = {"type": "log"} if log else {}
    zero = {} if log or "type" in scale else {"zero": False}
    axis = {"axis": {"format": "~g"}} if log else {}
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {**shape, **zero, "nice": False, **scale},
        **axis,
    }


def names(field: str, title: str | None = None, domain: Sequence[str] = (), looks: Sequence[Any] = ()) -> Chart:
    """A channel for words, each with its own look."""
    scale = {"scale": {"domain": list(domain), "range": list(looks)}} if domain else {}
    return {"field": field, "type": "nominal", "title": title, **scale}


def rule_at(value: float, channel: str) -> Chart:
    """A dotted line at one value of an axis."""
    encoding = {channel: {"datum": value, "type": "quantitative"}}
    return {"data": {"values": [{}]}, "mark": {"type": "rule", "strokeDash": [2, 2]}, "encoding": encoding}


def tips(*fields: str, **titles: str) -> list[Chart]:
    """What a hover shows: "name:Q" is a number, a bare name a word."""
    found = []
    for field in fields:
        name, _, kind = field.partition(":")
        found.append({"field": name, "type": "quantitative" if kind else "nominal", "title": titles.get(name, name)})
    return found


def legend_filter(field: str) -> Chart:
    """A click on an entry of the legend shows it alone."""
    return {"name": f"only_{field}", "select": {"type": "point", "fields": [field]}, "bind": "legend"}


def when(params: Sequence[str], yes: float, no: float) -> Chart:
    """One value for what all these filters let through, another for the rest."""
    test = {"and": [{"param": name} for name in params]}
    return {"condition": {"test": test, "value": yes}, "value": no}


def zoom(name: str, *channels: str) -> Chart:
    """Drag to move, Shift and wheel to zoom: the wheel alone still scrolls the page."""
    only = {"encodings": list(channels)} if channels else {}
    return {
        "name": f"zoom_{name}",
        "select": {"type": "interval", "zoom": "wheel![event.shiftKey]", **only},
        "bind": "scales",
    }


def svg(figure: Figure) -> str:
    """The figure as SVG whose words are text, not paths."""
    drawn: str = converter().vegalite_to_svg({**figure.spec(), "config": config()})
    return drawn


def write_figures(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """NAME.svg and NAME.png of every figure."""
    paths = []
    for figure in figures:
        paths += [folder / f"{figure.name}.svg", folder / f"{figure.name}.png"]
        write_text(paths[-2], svg(figure))
        with atomic(paths[-1]) as path:
            path.write_bytes(converter().vegalite_to_png({**figure.spec(), "config": config()}, scale=2))
    return paths
