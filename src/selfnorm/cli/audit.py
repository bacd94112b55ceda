"""selfnorm audit"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from selfnorm._util.console import say, table
from selfnorm.cli.options import Json


def audit(
    model: str, text: Path, /, *, other: Annotated[list[Path] | None, Parameter(negative="")] = None, to: Path = Path("audit"),
    window: int = 512, tokens: int = 20_000, estimates: Annotated[list[str] | None, Parameter(negative="")] = None,
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    remote_code: Annotated[bool, Parameter(negative="")] = False, json_: Json = False,
) -> None:  # fmt: skip
    """Audit the log Z of a language model that transformers loads: its head, its numbers on texts, and whether skipping log Z pays.

    Estimates of log Z are fitted on TEXT and measured on a part of it that was left out, and on the other texts. Writes audit.json,
    audit.html and the fitted estimates into a folder. A stopped audit goes on with the same command. Needs the extra "hf".

    Parameters
    ----------
    model
        Folder with safetensors, a GGUF file or a folder that holds one, or a name on the hub.
    text
        UTF-8 text, or a folder of documents (.txt): windows do not cross from one document into the next.
    other
        Another text, which nothing is fitted on. Repeat for more.
    to
        Folder for the results; contexts of finished windows are kept in it too.
    window
        Tokens that are run together.
    tokens
        Tokens of each text that are read, of a folder equally many of each document; 0 reads all.
    estimates
        shift, affine, mlp, screen or int8; repeat for more. All if not given.
    dtype
        Precision of the model.
    remote_code
        Run the Python code that comes with the model.
    """
    from selfnorm.hf.audit.page import write_page
    from selfnorm.hf.audit.run import RESULT
    from selfnorm.hf.audit.run import audit as run
    from selfnorm.hf.audit.show import tables
    from selfnorm.hf.opening import open_model
    from selfnorm.registry.calibrations import CALIBRATIONS

    opened = open_model(model, dtype, remote_code)
    found = run(opened, [text, *(other or [])], to, window, tokens, estimates or tuple(CALIBRATIONS))
    write_page(found, to / "audit.html")
    if json_:
        print(json.dumps(found))
        return
    for one in tables(found)[: 4 + len(found["texts"])]:
        print("" if sys.stdout.isatty() else f"\n{one.title}")
        table(one.title, one.head, one.rows)
    print()
    for sentence in found["sentences"]:
        print(sentence)
    say(f"wrote {to / RESULT} and {to / 'audit.html'}")
