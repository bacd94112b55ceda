"""Pictures as inline SVG, readable by colour-blind eyes and without a network."""

from __future__ import annotations

import io
from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np

from selfnorm._util.errors import missing_extra
from selfnorm.report.collect import Record, name_beside
from selfnorm.report.palette import COLOURS, dashes, styles

FINE = tuple(tenths / 10 for tenths in range(10, 100))
CURVES = 12  # runs whose training one picture can show
FILLED = {"none": "none", "shift": "left", "affine": "bottom", "mlp": "full"}


def _figure(width: float = 7, height: float = 4.2, **how: Any) -> tuple[Any, Any]:
    try:
        import matplotlib
    except ImportError:
        raise missing_extra("matplotlib", "report", "Drawing plots") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update(
        {
            "svg.hashsalt": "selfnorm",
            "svg.fonttype": "path",
            "font.size": 10,
            "axes.grid": True,
            "grid.alpha": 0.3,
        }
    )
    return pyplot.subplots(figsize=(width, height), layout="constrained", **how)


def _svg(figure: Any) -> str:
    from matplotlib import pyplot

    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return text.getvalue()[text.getvalue().index("<svg") :]


def curves(histories: dict[str, list[dict[str, Any]]], criteria: dict[str, str]) -> str:
    """Validation perplexity and sigma_z after each epoch, of the CURVES runs that ended best."""
    figure, axes = _figure(9.5, 4.2, ncols=2)
    best = sorted(histories, key=lambda name: min(line["perplexity"] for line in histories[name]))[:CURVES]
    names = {name: short(name) for name in best}
    looks = styles([criteria[name] for name in sorted(best)])
    for look, name in zip(looks, sorted(best), strict=True):
        lines = histories[name]
        label = names[name] if list(names.values()).count(names[name]) == 1 else name.replace("$", r"\$")
        epochs = [line["epoch"] for line in lines]
        for axis, key in zip(axes, ("perplexity", "sigma_z"), strict=True):
            axis.plot(epochs, [line[key] for line in lines], label=label, **look, ms=3)
    for axis, title in zip(axes, ("validation perplexity", "validation σ_z (spread of log Z)"), strict=True):
        axis.set(xlabel="epoch", ylabel=title.split(" (")[0], title=title, yscale="log")
        axis.xaxis.get_major_locator().set_params(integer=True)
        _plain_log(axis.yaxis)
    axes[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return _svg(figure)


def _plain_log(side: Any, subs: tuple[float, ...] = (1, 2, 5)) -> None:
    """Plain numbers along one side of a plot with a logarithmic scale."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    side.set_major_locator(LogLocator(base=10, subs=subs))
    side.set_major_formatter(StrMethodFormatter("{x:g}"))
    side.set_minor_formatter(NullFormatter())


def frontier(records: Sequence[Record], title: str) -> str:
    """sigma_z against perplexity: down and left is better."""
    names = {r.full_name: name_beside(r, records) for r in records}
    models = dict(sorted({(r.full_name, r.k): r.parts["criterion"] for r in records}.items()))
    figure, axis = _figure(8.2, max(4.8, 0.2 * len(models) + 0.6))  # as high as its legend
    for model, look in zip(models, styles(list(models.values())), strict=True):
        mine = [r for r in records if (r.full_name, r.k) == model]
        mine = sorted((r for r in mine if r.calibration in FILLED), key=lambda r: list(FILLED).index(r.calibration))
        for r in mine:
            axis.plot(
                r.measured.perplexity, max(r.measured.sigma_z, 1e-4), ls="", ms=9, **look,
                fillstyle=FILLED[r.calibration], label=names[r.full_name] + r.unusual_k if r is mine[0] else None,
            )  # fmt: skip
    axis.set(
        xlabel="perplexity (exact)", ylabel="σ_z", xscale="log", yscale="log", title=f"{title}: down and left is better"
    )
    low, high = axis.get_xlim()
    _plain_log(axis.xaxis, FINE if high < 2 * low else (1, 1.2, 1.4, 1.6, 2, 2.5, 3, 4, 5, 6, 7, 8))
    _plain_log(axis.yaxis)
    kinds = [k for k in FILLED if any(r.calibration == k for r in records)]
    filling = {"none": "empty = raw", "shift": "left = shift", "affine": "bottom = affine", "mlp": "full = mlp"}
    key = fill("marker: " + ", ".join(filling[kind] for kind in kinds), 48)
    axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), title=key, title_fontsize=8)
    return _svg(figure)


def log_z_histograms(records: Sequence[Record], title: str) -> str:
    """How log Z is spread, one line per model: everything, and a close look around 0."""
    figure, axes = _figure(10.5, 4.0, ncols=2)
    looks = styles([r.parts["criterion"] for r in records])
    for look, line, r in zip(looks, dashes(looks), records, strict=True):
        h = r.measured.histogram
        counts = np.asarray(h["counts"], dtype=float)
        edges = np.linspace(h["low"], h["high"], len(counts) + 1)
        for axis in axes:
            name = name_beside(r, [o for o in records if o.calibration == r.calibration]) + r.unusual_k
            label = f"{name}, {r.calibration}" if r.calibration != "none" else name
            axis.stairs(counts / counts.max(), edges, label=label, color=look["color"], ls=line, lw=1.6)
    for axis, name in zip(axes, (title, "around 0"), strict=True):
        axis.axvline(0, color="black", lw=0.8, ls=":")
        axis.set(xlabel="log Z", ylabel="contexts, peak = 1", title=name)
    axes[1].set_xlim(-1, 1)
    axes[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return _svg(figure)


def entropy_histogram(records: Sequence[Record], title: str) -> str:
    """log Z against the entropy of the predicted distribution (the paper's figure), brighter is denser."""
    figure, axes = _figure(3.7 * len(records) + 0.6, 3.6, ncols=len(records), squeeze=False)
    for axis, r in zip(axes[0], records, strict=True):
        h = r.measured.entropy_histogram
        counts = np.asarray(h["counts"], dtype=float).T
        shown = axis.imshow(
            np.log10(1 + counts),
            origin="lower",
            aspect="auto",
            extent=(*h["entropy"], *h["log_z"]),
            cmap="viridis",
            interpolation="nearest",
        )
        if h["log_z"][0] < 0 < h["log_z"][1]:
            axis.axhline(0, color="white", lw=0.8, ls=":")
        axis.grid(visible=False)
        axis.set(
            xlabel="entropy H (nats)",
            ylabel="log Z",
            title=f"{r.name}{r.unusual_k}, d={r.parts['d']}\ncorrelation {r.measured.correlation:+.2f}",
        )
    figure.colorbar(shown, ax=axes[0][-1], label="log10(1 + contexts)")
    figure.suptitle(title, fontsize=11)
    return _svg(figure)


def theorem(record: Record) -> str:
    """|log Z| against Theorem 1's epsilon, where the truth is known: no point may lie above the line."""
    figure, axis = _figure(6, 4.2)
    points = np.asarray(record.measured.theory["points"])
    top = float(points.max()) * 1.05
    axis.plot([0, top], [0, top], color="black", lw=1, label="|log Z| = ε")
    axis.scatter(points[:, 0], points[:, 1], s=12, alpha=0.6, color=COLOURS[0], label="contexts")
    axis.set(xlabel="ε of Theorem 1", ylabel="|log Z|", title=f"{record.name}: Theorem 1 on the synthetic language")
    axis.legend()
    return _svg(figure)


def short(name: str) -> str:
    """A run's folder name without its hash."""
    head, _, tail = name.rpartition("-")
    shown = head if len(tail) == 6 and head else name
    return shown.replace("$", r"\$")  # a dollar in a name is no formula


def lines_against_v(rows: Sequence[dict[str, Any]], key: str) -> str:
    """Benchmarks: time against the vocabulary, one panel per d, both axes logarithmic."""
    ds = sorted({row["d"] for row in rows})
    names = list(dict.fromkeys(row["criterion"] for row in rows))
    figure, axes = _figure(4.6 * len(ds) + 2, 4.2, ncols=len(ds), squeeze=False)
    for axis, d in zip(axes[0], ds, strict=True):
        for name, look, line in zip(names, styles(names), dashes(styles(names)), strict=True):
            mine = [row for row in rows if row["criterion"] == name and row["d"] == d]
            times = [1000 * r[key] for r in mine]
            axis.plot([r["V"] for r in mine], times, label=name, ms=5, ls=line, **look)
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="V (words)",
            ylabel="ms per 1,000 words" if "1000" in key else "ms per step",
            title=f"d = {d}",
        )
    axes[0][-1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return _svg(figure)
