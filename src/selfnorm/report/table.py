"""A table of the report: text in cells, so that a page, Markdown and a test see the same."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """A caption, a head, rows of text, and footnotes."""

    title: str
    head: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        lines = [
            f"### {plain_cell(self.title)}",
            "",
            "| " + " | ".join(map(plain_cell, self.head)) + " |",
            "|" + " --- |" * len(self.head),
        ]
        lines += ["| " + " | ".join(map(plain_cell, row)) + " |" for row in self.rows]
        return "\n".join([*lines, "", *(f"{_wrapped(note)}  " for note in self.notes), ""])


def without_empty_columns(head: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """The same table without columns that hold nothing."""
    used = [place for place in range(len(head)) if any(row[place] for row in rows)]
    return [head[i] for i in used], [[row[i] for i in used] for row in rows]


def _wrapped(note: str) -> str:
    """Within 100 characters, with the two spaces that end a line in a paragraph."""
    return textwrap.fill(note, 98, break_long_words=False, break_on_hyphens=False)


def plain_cell(cell: str) -> str:
    """A cell as text: names come from files of others, and Markdown lets HTML through."""
    return " ".join(cell.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").split("\n"))
