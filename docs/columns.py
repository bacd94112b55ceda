"""For mkdocstrings: lines of a docstring such as "folder   the run folder to make" become a list."""

from __future__ import annotations

import re
from typing import Any

import griffe

COLUMN = re.compile(r"^(?P<name>[\w.*]+(?:, [\w.*]+)*) {2,}(?P<text>\S.*)$")


def as_lists(text: str) -> str:
    """Two or more columns of a docstring as Markdown. A line that is indented further continues the one above."""
    lines, inside = [], False
    for line in text.splitlines():
        found = COLUMN.match(line)
        if found:
            lines += [] if inside else [""]
            lines.append(f"- `{found['name']}`: {found['text']}")
            inside = True
        elif inside and line.startswith("  "):
            lines[-1] += f" {line.strip()}"
        else:
            inside = False
            lines.append(line)
    return "\n".join(lines)


class Columns(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_lists(obj.docstring.value)
