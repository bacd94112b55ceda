"""An audit as one self-contained page: sentences, tables, and plots of log Z and of what estimates leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from selfnorm._util.errors import missing_extra
from selfnorm._util.files import write_text
from selfnorm.hf.audit.show import tables
from selfnorm.report.palette import COLOURS, MARKS
from selfnorm.report.plots import _figure as new_figure
from selfnorm.report.plots import _svg as as_svg

TEMPLATE = Path(__file__).parent / "page.html"


def write_page(found: dict[str, Any], out: Path) -> None:
    try:
        from jinja2 import Environment
    except ImportError:
        raise missing_extra("jinja2", "report", "Writing the page") from None
    template = Environment(autoescape=True).from_string(TEMPLATE.read_text(encoding="utf-8"))
    first, *rest = tables(found)[:4]
    write_text(
        out,
        template.render(found=found, first=[first, *rest], more=tables(found)[4:], figures=figures(found)),
    )


def figures(found: dict[str, Any]) -> list[dict[str, str]]:
    made = [
        {"title": "log Z", "svg": _histograms(found), "caption": _caption(found)},
        {
            "title": "Entropy against log Z",
            "svg": _entropies(found),
            "caption": "Each dot is a context. Where the model is sure (left), log Z is the score of its first word.",
        },
    ]
    if any(r["estimate"] != "none" for r in found["estimates"]):
        caption = (
            "Spread of log Z less its estimate, by entropy of the context. Dotted: what bfloat16 logits cost anyway."
        )
        made.append({"title": "What the estimates leave", "svg": _left(found), "caption": caption})
    return made


def _caption(found: dict[str, Any]) -> str:
    parts = [f"{t['text']}: mean {t['mu_z']:+.2f}, spread {t['sigma_z']:.2f}" for t in found["texts"]]
    return f"Over the contexts of each text. {'; '.join(parts)}. An untrained model has log V = {found['head']['log_V']:.2f}."


def _histograms(found: dict[str, Any]) -> str:
    figure, axis = new_figure(8, 3.6)
    for colour, text in zip(COLOURS, found["texts"], strict=False):
        bins = text["histogram"]
        edges = np.linspace(bins["low"], bins["high"], len(bins["counts"]) + 1)
        share = np.array(bins["counts"]) / (sum(bins["counts"]) * (edges[1] - edges[0]))
        axis.stairs(share, edges, fill=True, alpha=0.25, color=colour)
        axis.stairs(share, edges, color=colour, label=text["text"])
    axis.axvline(found["head"]["log_V"], color="#777777", linestyle="--", label="log V")
    axis.axvline(0, color="#000000", linewidth=1)
    axis.set(xlabel="log Z", ylabel="density")
    axis.legend()
    return as_svg(figure)


def _entropies(found: dict[str, Any]) -> str:
    count = len(found["texts"])
    figure, axes = new_figure(4.4 * count + 0.4, 3.8, ncols=count, sharex=True, sharey=True, squeeze=False)
    for axis, colour, text in zip(axes[0], COLOURS, found["texts"], strict=False):
        axis.plot(
            text["points"]["entropy"],
            text["points"]["log_z"],
            ".",
            color=colour,
            markersize=2.5,
            alpha=0.4,
            rasterized=True,
        )
        axis.set(xlabel="entropy", title=f"{text['text']} (correlation {text['correlation']:+.2f})")
    axes[0][0].set_ylabel("log Z")
    return as_svg(figure)


def _left(found: dict[str, Any]) -> str:
    texts = [t["text"] for t in found["texts"]]
    figure, axes = new_figure(4.4 * len(texts) + 1.4, 4, ncols=len(texts), sharey=True, squeeze=False)
    for axis, name in zip(axes[0], texts, strict=True):
        for place, row in enumerate(r for r in found["estimates"] if r["text"] == name):
            x = [min(band["from"] + 0.25, 6) for band in row["by_entropy"]]
            y = [max(1e-5, float(np.hypot(band["sigma_z"], band["mu_z"]))) for band in row["by_entropy"]]
            axis.plot(x, y, marker=MARKS[place % 8], color=COLOURS[place % 7], label=row["estimate"])
        axis.axhline(found["floor"][name]["bf16_logits"], color="#777777", linestyle=":", label="bf16 logits")
        axis.set(xlabel="entropy of the context (from)", yscale="log", title=name)
    axes[0][0].set_ylabel("root mean square of what is left")
    axes[0][-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return as_svg(figure)
