"""Speech made from text, decoded to n-best lists by a real recogniser: lists for `selfnorm rescore`.

    pip install pocketsphinx==5.1.1 faster-whisper==1.2.1        # in an environment of their own; Debian: espeak-ng
    python examples/decode_speech.py lines.txt lists.jsonl --decoder pocketsphinx
    python examples/decode_speech.py lines.txt lists.jsonl --decoder whisper --model FOLDER   # a CTranslate2 Whisper model
    selfnorm rescore RUN lists.jsonl

The speech is synthetic (espeak-ng), one utterance per line of text; the lines are the references. Scores are the decoder's own, in
its own units, so tune the weight (`rescore --tune`). Whisper's texts are lower-cased and stripped of punctuation, as the references.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import tempfile
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

RATE = 16_000
Hypotheses = list[tuple[str, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("lists", type=Path)
    parser.add_argument("--decoder", choices=["pocketsphinx", "whisper"], default="pocketsphinx")
    parser.add_argument("--model", type=Path, help="folder of a CTranslate2 Whisper model")
    parser.add_argument("--size", type=int, default=20, help="hypotheses per list")
    parser.add_argument(
        "--noise", type=float, default=0.0, help="standard deviation of noise, as a share of the speech's"
    )
    given = parser.parse_args()
    decode = pocketsphinx(given.size) if given.decoder == "pocketsphinx" else whisper(given.model, given.size)
    rng = np.random.default_rng(0)
    with given.lists.open("w", encoding="utf-8") as out:
        for number, line in enumerate(given.text.read_text(encoding="utf-8").splitlines(), 1):
            sound = spoken(line)
            sound = sound + given.noise * sound.std() * rng.standard_normal(len(sound))
            hyps = [{"text": text, "score": score} for text, score in decode(sound)]
            if hyps:
                out.write(json.dumps({"id": f"u{number}", "hyps": hyps, "ref": plain(line)}) + "\n")
            print(f"{number}: {len(hyps)} hypotheses", flush=True)


def spoken(text: str) -> np.ndarray:
    """Samples in [-1, 1] at 16 kHz."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "speech.wav"
        subprocess.run(["espeak-ng", "-v", "en-us", "-s", "150", "-w", str(file), "--", text], check=True)
        with wave.open(str(file)) as sound:
            samples = np.frombuffer(sound.readframes(sound.getnframes()), dtype=np.int16) / 32768
            rate = sound.getframerate()
    times = np.arange(0, len(samples) / rate, 1 / RATE)
    return np.interp(times, np.arange(len(samples)) / rate, samples)


def plain(text: str) -> str:
    return " ".join(re.sub(r"[^a-z' ]", " ", text.lower()).split())


def pocketsphinx(size: int) -> Callable[[np.ndarray], Hypotheses]:
    from pocketsphinx import Decoder

    decoder = Decoder(loglevel="FATAL")

    def decode(sound: np.ndarray) -> Hypotheses:
        decoder.start_utt()
        decoder.process_raw((np.clip(sound, -1, 1) * 32767).astype(np.int16).tobytes(), full_utt=True)
        decoder.end_utt()
        return distinct(_paths(decoder), size)

    return decode


def _paths(decoder: Any) -> Iterator[tuple[str, float]]:
    """pocketsphinx gives the exponential of a scaled path score; only its order and relative size mean something."""
    for place, path in enumerate(decoder.nbest()):
        if place == 500 or path is None:
            return
        if path.hypstr and path.score > 0:
            yield plain(path.hypstr), math.log(path.score)


def whisper(folder: Path | None, size: int) -> Callable[[np.ndarray], Hypotheses]:
    from faster_whisper import WhisperModel
    from faster_whisper.tokenizer import Tokenizer

    if folder is None:
        raise SystemExit("--model names the folder of a CTranslate2 Whisper model")
    model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)
    tokenizer = Tokenizer(model.hf_tokenizer, model.model.is_multilingual, "transcribe", "en")

    def decode(sound: np.ndarray) -> Hypotheses:
        from ctranslate2 import StorageView

        features = model.feature_extractor(sound.astype(np.float32))
        features = np.pad(features, ((0, 0), (0, max(0, 3000 - features.shape[1]))))[:, :3000]
        view = StorageView.from_array(np.ascontiguousarray(features[None], dtype=np.float32))
        prompt = [*tokenizer.sot_sequence, tokenizer.no_timestamps]
        (found,) = model.model.generate(
            view, [prompt], beam_size=size, num_hypotheses=size, return_scores=True, length_penalty=1.0
        )
        pairs = zip(found.sequences_ids, found.scores, strict=True)
        return distinct(((plain(tokenizer.decode(ids)), score * max(1, len(ids))) for ids, score in pairs), size)

    return decode


def distinct(paths: Iterator[tuple[str, float]], size: int) -> Hypotheses:
    """The first `size` different texts, each with its best score."""
    best: dict[str, float] = {}
    for text, score in paths:
        if text and (text in best or len(best) < size):
            best[text] = max(score, best.get(text, -math.inf))
    return list(best.items())


if __name__ == "__main__":
    main()
