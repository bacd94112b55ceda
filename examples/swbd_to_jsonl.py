"""Convert the Switchboard 9-best files of a Johns Hopkins course to selfnorm's JSON lines, and their text to lines.

Usage: python examples/swbd_to_jsonl.py swbd-nbest.tar.xz OUT

Writes OUT/easy.jsonl, OUT/unrestricted.jsonl (lists, scores in natural logs), OUT/easy.ref, OUT/unrestricted.ref
(references) and OUT/train.txt (transcribed speech). One file per utterance in the archive: line 1 is the length and
the reference; each other line is WER, log2 acoustic score, number of words, words, with <s> and </s> around them.
"""

import json
import math
import re
import sys
import tarfile
from pathlib import Path

MARK = re.compile(r"</?s>|[\[\]]")


def words(text: str) -> str:
    return " ".join(MARK.sub(" ", text).lower().split())


def convert(archive: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    lists: dict[str, list[dict]] = {"easy": [], "unrestricted": []}
    with tarfile.open(archive, "r:xz") as tar:
        for member in sorted((m for m in tar.getmembers() if m.isfile()), key=lambda m: m.name):
            handle = tar.extractfile(member)
            assert handle is not None
            parts = member.name.split("/")
            if "dev" in parts and parts[parts.index("dev") + 1] in lists:
                lists[parts[parts.index("dev") + 1]].append(utterance(Path(member.name).name, handle.read().decode()))
            elif member.name.endswith("switchboard-small"):
                text = handle.read().decode().splitlines()
                (out / "train.txt").write_text("".join(words(line) + "\n" for line in text), encoding="utf-8")
    for name, found in lists.items():
        (out / f"{name}.jsonl").write_text("".join(json.dumps(n) + "\n" for n in found), encoding="utf-8")
        (out / f"{name}.ref").write_text("".join(f"{n['id']} {n['ref']}\n" for n in found), encoding="utf-8")
        print(f"{name}: {len(found)} lists")


def utterance(name: str, text: str) -> dict:
    first, *rest = text.strip().split("\n")
    hypotheses = []
    for line in rest:
        _, acoustic, _, said = line.split("\t")
        hypotheses.append({"text": words(said), "score": float(acoustic) * math.log(2)})
    return {"id": name, "hyps": hypotheses, "ref": words(first.split("\t")[1])}


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
