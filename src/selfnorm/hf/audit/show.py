"""An audit as tables: for the terminal and for the page."""

from __future__ import annotations

from typing import Any

from selfnorm.report.table import Table


def tables(found: dict[str, Any]) -> list[Table]:
    """Head, texts, estimates, and log Z by entropy, position and kind of token."""
    made = [_head(found), _texts(found), _estimates(found), _floor(found)]
    for text in found["texts"]:
        for key, title in (
            ("by_entropy", "entropy"),
            ("by_position", "position in the window"),
            ("by_token", "kind of the next token"),
        ):
            made.append(_bands(text, key, title))
    return made


def _head(found: dict[str, Any]) -> Table:
    head, norms = found["head"], found["head"]["row_norms"]
    rows = [
        ["model", f"{found['model']} ({found['type']}, {found['dtype']})"],
        ["words V, units d", f"{head['V']:,}, {head['d']:,}"],
        ["log V", f"{head['log_V']:.2f}"],
        ["tied to the embedding / bias", f"{_yes(head['tied'])} / {_yes(head['bias'])}"],
        ["scale / cap", f"{head['scale']:g} / {'none' if head['cap'] is None else format(head['cap'], 'g')}"],
        ["norm of the rows: mean, smallest, median, largest", ", ".join(f"{value:.3g}" for value in norms.values())],
        ["multiply-adds a token: head, body", f"{found['ceiling']['head'] / 1e6:,.1f} M, {found['ceiling']['body'] / 1e6:,.1f} M"],
        ["most that skipping log Z can gain", f"{found['ceiling']['gain']:.2f} x"],
    ]  # fmt: skip
    return Table("Head", ["", "value"], rows)


def _texts(found: dict[str, Any]) -> Table:
    head = [
        "text",
        "tokens",
        "windows",
        "perplexity",
        "entropy",
        "mu_z",
        "sigma_z",
        "correlation",
        "1 %",
        "50 %",
        "99 %",
        "largest",
    ]
    rows = []
    for text in found["texts"]:
        q = text["quantiles"]
        low, high = text["intervals"]["sigma_z"]
        rows.append(
            [text["text"], f"{text['tokens']:,}", f"{text['windows']:,} of {text['window']}", f"{text['perplexity']:.2f}",
             f"{text['entropy']:.2f}", f"{text['mu_z']:+.2f}", f"{text['sigma_z']:.2f} ({low:.2f} to {high:.2f})",
             f"{text['correlation']:+.2f}",
             *(f"{q[k]:.1f}" for k in ("0.01", "0.5", "0.99")), f"{text['largest']:.1f}"]
        )  # fmt: skip
    return Table("log Z", head, rows)


def _estimates(found: dict[str, Any]) -> Table:
    head = [
        "estimate",
        "text",
        "cost / head",
        "at most",
        "mu_z left",
        "sigma_z left",
        "99 % within",
        "perplexity",
        "u_perplexity",
        "log p > 0",
    ]
    rows = [
        [r["estimate"], r["text"], f"{r['cost']:.1%}", f"{r['gain']:.2f} x", f"{r['mu_z']:+.4f}", f"{r['sigma_z']:.4f}",
         f"{r['quantile_99']:.3f}", f"{r['perplexity']:.2f}", f"{r['u_perplexity']:.4g}", f"{r['log_p_above_0']:.1%}"]
        for r in found["estimates"]
    ]  # fmt: skip
    return Table("Estimates of log Z, on contexts that they were not fitted on", head, rows)


def _floor(found: dict[str, Any]) -> Table:
    rows = [
        [name, f"{floor['bf16_logits']:.4f}", f"{floor['bf16_log_sum']:.4f}"] for name, floor in found["floor"].items()
    ]
    return Table(
        "What bfloat16 costs anyway: error of log p",
        ["text", "logits bfloat16, log-sum float32", "both bfloat16"],
        rows,
    )


def _bands(text: dict[str, Any], key: str, title: str) -> Table:
    rows = [
        [r["band"], f"{r['contexts']:,}", f"{r['mu_z']:+.2f}", f"{r['sigma_z']:.2f}", f"{r['nll']:.2f}", f"{r['entropy']:.2f}"]
        for r in text[key]
    ]  # fmt: skip
    return Table(f"{text['text']}: log Z by {title}", [title, "contexts", "mu_z", "sigma_z", "-log p", "entropy"], rows)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
