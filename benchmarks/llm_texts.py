"""The texts that a language model's head is calibrated and tested on, for benchmarks/llm_contexts.py.

    python benchmarks/llm_texts.py --data DATA --to TEXTS

To fit: addresses to Congress up to 1980, Python's standard library, Penn Treebank. To test: WikiText-2, the descriptions of
the packages installed here, a novel, and addresses after 1980. DATA holds ptb/, wikitext-2/, mscc/ and sotu/ with the
files that these data sets are published as, packed with xz. Code and descriptions depend on the machine; the others do not.
"""

from __future__ import annotations

import argparse
import lzma
import sysconfig
import tarfile
from importlib.metadata import distributions
from pathlib import Path

MOST = 120_000  # characters of each text, taken from several documents
NOVEL = "Holmes_Training_Data/2TALE10.TXT"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    addresses = members(given.data / "sotu" / "sotu.tar.xz", ".txt")
    old = {name: text for name, text in addresses.items() if year(name) <= 1980}
    new = {name: text for name, text in addresses.items() if year(name) > 1980}
    novel = members(given.data / "mscc" / "Holmes_Training_Data.tar.xz", NOVEL)
    texts = {
        "sotu_fit": spread(list(old.values()), 12),
        "code_fit": spread(code(), 24),
        "ptb_fit": unpacked(given.data / "ptb" / "ptb.valid.txt.xz"),
        "wiki_test": unpacked(given.data / "wikitext-2" / "wiki.test.tokens.xz"),
        "readme_test": spread(descriptions(), 24),
        "novel_test": next(iter(novel.values())).partition("SMALL PRINT")[2][20_000:],
        "sotu_test": spread(list(new.values()), 6),
    }
    for name, text in texts.items():
        (given.to / f"{name}.txt").write_text(text[:MOST], encoding="utf-8")
        print(f"{name}: {len(text[:MOST]):,} characters")


def year(name: str) -> int:
    digits = "".join(ch if ch.isdigit() else " " for ch in Path(name).stem).split()
    return next(int(number) for number in digits if len(number) == 4)


def spread(texts: list[str], count: int) -> str:
    """The beginnings of so many texts, taken at equal distances."""
    chosen = texts[:: max(1, len(texts) // count)][:count]
    return "\n\n".join(text[: MOST // count] for text in chosen)


def members(archive: Path, ending: str) -> dict[str, str]:
    with tarfile.open(archive) as files:
        found = [m for m in files.getmembers() if m.isfile() and m.name.endswith(ending)]
        return {
            m.name: files.extractfile(m).read().decode("utf-8", "replace") for m in sorted(found, key=lambda m: m.name)
        }  # type: ignore[union-attr]


def unpacked(path: Path) -> str:
    return lzma.decompress(path.read_bytes()).decode()


def code() -> list[str]:
    """Modules of the standard library of more than 5,000 characters, by name."""
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return [text for path in paths if len(text := path.read_text(encoding="utf-8", errors="replace")) > 5000]


def descriptions() -> list[str]:
    """The READMEs of installed packages of more than 4,000 characters, by name."""
    found = {
        d.metadata["Name"]: str(d.metadata.get_payload() or d.metadata["Description"] or "") for d in distributions()
    }
    return [text for _, text in sorted(found.items()) if len(text) > 4000]


if __name__ == "__main__":
    main()
