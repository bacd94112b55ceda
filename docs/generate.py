"""Write the generated parts of the documentation: python docs/generate.py. A test checks that they are current.

reference/cli.md     every command and option, from the program itself
reference/recipe.md  every setting, from src/selfnorm/config/recipe.py
figures/*.svg        pictures, from results/ and benchmarks/results/ (with --figures)
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from selfnorm.cli import app
from selfnorm.config.recipe import Recipe
from selfnorm.config.toml import SECTIONS
from selfnorm.registry.criteria import CRITERIA
from selfnorm.registry.encoders import ENCODERS

DOCS = Path(__file__).parent
ROOT = DOCS.parent
SOURCE = ROOT / "src" / "selfnorm" / "config" / "recipe.py"
MADE = "<!-- Written by docs/generate.py. Changes by hand are lost. -->"


def cli() -> str:
    """Every command with its options."""
    text = app.generate_docs(heading_level=1, usage_name="selfnorm")
    text = re.sub(r"(?m)^(selfnorm[\w -]*?) -m \w+", r"\1", text)  # "python -m …" that the caller was started with
    text = re.sub(r"^# selfnorm\n", "# Command line\n", text)
    text = re.sub(r"## Table of Contents\n.+?(?=\*\*Commands\*\*)", "", text, flags=re.DOTALL)
    about = (
        "Every command has `--help`. Exit codes: 0 when all went well, 2 for wrong usage or input, 1 for a failure.\n"
        "`selfnorm --install-completion` makes your shell complete commands and options.\n"
    )
    head, _, rest = text.partition("\n")
    return f"{MADE}\n\n{head}\n\n{about}{rest}".rstrip() + "\n"


def described() -> dict[str, str]:
    """What the comments in recipe.py say of each setting: {"data.name": "sotu, ptb, …"}."""
    found, section = {}, ""
    names = {kind.__name__: name for name, kind in SECTIONS.items()}
    for line in SOURCE.read_text(encoding="utf-8").splitlines():
        if start := re.match(r"class (\w+):", line):
            section = names.get(start[1], "")
        elif section and (setting := re.match(r"    (\w+): \w+ = [^#]+?(?:  # (.+))?$", line)):
            found[f"{section}.{setting[1]}"] = setting[2] or ""
    return found


def recipe() -> str:
    """One table for each section of the recipe."""
    words, plain = described(), Recipe()
    lines = [
        MADE,
        "",
        "# Recipe settings",
        "",
        "A recipe is a TOML file with four sections. Every setting has a default, which is the paper's.",
    ]
    lines += ["", "```toml", "[model]", "d = 300", "", "[criterion]", 'name = "devlin"', "alpha = 0.1", "```", ""]
    lines += ["On the command line: `--set model.d=300`. In Python: `sn.train(folder, text=..., d=300)`.", ""]
    for section, kind in SECTIONS.items():
        about = (kind.__doc__ or "").splitlines()[0]
        lines += [f"## {section}", "", about, "", "| setting | default | what it is |", "| --- | --- | --- |"]
        for field in dataclasses.fields(kind):
            name = f"{section}.{field.name}"
            default, words_of = _toml(getattr(getattr(plain, section), field.name)), words[name].replace("<", "&lt;")
            lines.append(f"| `{name}` | `{default}` | {words_of} |")
        lines.append("")
    lines += ["## Criteria", "", "`pins log Z`: does the loss pull log Z to a fixed value?", ""]
    lines += [
        "| `criterion.name` | in the literature | pins log Z | alpha | gamma |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [f"| `{name}` | {c.title} | {c.pins} | {c.alpha:g} | {c.gamma:g} |" for name, c in CRITERIA.items()]
    lines += ["", "## Encoders", "", "`model.encoder` is one of: " + ", ".join(f"`{name}`" for name in ENCODERS) + "."]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return json.dumps(value)


def figures() -> dict[str, tuple[str, Any]]:
    """Pictures by file name, with a digest of their data, which the SVG file carries: it is current if the digest is."""
    from pictures import pictures

    made = pictures(ROOT)
    return {
        name: (hashlib.sha256(json.dumps(f.spec(), sort_keys=True).encode()).hexdigest()[:16], f)
        for name, f in made.items()
    }


def main(arguments: list[str]) -> None:
    (DOCS / "reference" / "cli.md").write_text(cli(), encoding="utf-8")
    (DOCS / "reference" / "recipe.md").write_text(recipe(), encoding="utf-8")
    if "--figures" in arguments:
        from selfnorm.report.charts.figure import svg

        for name, (digest, figure) in figures().items():
            drawn = svg(figure).replace("<svg ", f'<svg data-digest="{digest}" ', 1)
            (DOCS / "figures" / f"{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
