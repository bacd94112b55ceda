"""Drive a training from where it stands to its end: validate, keep the best, write checkpoints."""

from __future__ import annotations

import math
import time
from typing import Any

from selfnorm.batches import Windows
from selfnorm.checkpoint import load_checkpoint, save_checkpoint, write_history
from selfnorm.criteria import Criterion
from selfnorm.errors import Diverged, UserError
from selfnorm.measure import validate
from selfnorm.memory import peak_megabytes
from selfnorm.model import LanguageModel
from selfnorm.runs import Run, begin, forget_measured, save_weights
from selfnorm.terminal import progress, say
from selfnorm.text import Corpus
from selfnorm.train import Place, learning_rate, train


class Driver:
    """Validates, keeps the best, checkpoints by the clock and at every epoch."""

    def __init__(self, made: Run, corpus: Corpus, criterion: Criterion, windows: Windows) -> None:
        self.run, self.corpus, self.training = made, corpus, made.recipe.training
        self.criterion, self.windows = criterion, windows
        self.model, self.rng = begin(made.recipe, len(corpus.vocab), criterion)
        self.at = load_checkpoint(made, self.model, self.rng)

    def drive(self) -> None:
        per_window, left = self.training.batch * self.training.steps, self._windows_left()
        if left < 0:
            raise UserError(
                f"{self.run.folder} is in epoch {self.at.place.epoch}; training.epochs = {self.training.epochs} is fewer. "
                "Choose another folder."
            )
        if left == 0:
            self._finish_writing()
            return
        if not self.at.history and not self.corpus.counts()[self.corpus.vocab.unk]:
            say(
                "The training text has no <unk>, so the score of unseen words is not learnt. Set data.min_count=2, which makes some of "
                "its rare words, or score with --unk-penalty."
            )
        steps = train(self.model, self.criterion, self.windows, self.training, self.rng, self.at.place)
        lap = saved = validated = time.monotonic()
        with progress(f"train {self.run.folder.name}", left * per_window) as advance:
            for place in steps:
                advance(per_window)
                now = time.monotonic()
                self.at.seconds, lap = self.at.seconds + now - lap, now
                whole = place.window == len(self.windows)
                if whole or _minutes_passed(now - validated, self.training.validate_minutes):
                    self._keep_best(self._line(place))
                    save_checkpoint(self.run, self.model, self.rng, self.at)
                    saved = validated = time.monotonic()
                elif now - saved > 60 * self.training.checkpoint_minutes:
                    save_checkpoint(self.run, self.model, self.rng, self.at)
                    saved = time.monotonic()
        save_weights(self.run.file("model.safetensors"), self._usable())

    def _windows_left(self) -> int:
        done = (self.at.place.epoch - 1) * len(self.windows) + self.at.place.window
        return self.training.epochs * len(self.windows) - done

    def _finish_writing(self) -> None:
        """All is trained; a process that was killed may not have written the last files."""
        last, checkpoint = self.run.file("model.safetensors"), self.run.file("checkpoint.safetensors")
        if not last.exists() or (checkpoint.exists() and checkpoint.stat().st_mtime_ns > last.stat().st_mtime_ns):
            save_weights(last, self._usable())
        write_history(self.run, self.at.history)

    def _usable(self) -> LanguageModel:
        """The model whose m estimates log p, as everything after training expects it."""
        return self.model.with_output(self.criterion.recover(self.model.output))

    def _line(self, place: Place) -> dict[str, Any]:
        numbers = validate(self._usable(), self.corpus["valid"])
        if not math.isfinite(numbers["perplexity"]):
            raise Diverged(
                f"The validation perplexity became {numbers['perplexity']} in epoch {place.epoch}. The last checkpoint is kept. "
                "Try a lower training.learning_rate, a smaller criterion.alpha, or model.squash = true."
            )
        return {
            "epoch": round(place.epoch - 1 + place.window / len(self.windows), 4),
            "learning_rate": learning_rate(self.training, place.epoch),
            "fit": place.fit / place.words,
            "penalty": place.penalty / place.words,
            **numbers,
            "seconds": round(self.at.seconds, 2),
            "megabytes": round(peak_megabytes()),
        }

    def _keep_best(self, line: dict[str, Any]) -> None:
        best = min((old["perplexity"] for old in self.at.history), default=float("inf"))
        if line["perplexity"] < best or not self.run.file("best.safetensors").exists():
            self._tell_gone(forget_measured(self.run))
            save_weights(self.run.file("best.safetensors"), self._usable())
            forget_measured(self.run)  # once more: what came in while the weights were written is of the old ones
        self.at.history.append(line)
        say(
            f"{self.run.folder.name}: epoch {line['epoch']:g}  valid perplexity {line['perplexity']:.2f}  "
            f"mu_z {line['mu_z']:+.3f}  sigma_z {line['sigma_z']:.3f}  ({line['seconds']:.0f} s)"
        )
        if line["perplexity"] > len(self.corpus.vocab):
            say(
                "That is worse than guessing among all words. Try a lower training.learning_rate: 1 suits a text of PTB's size."
            )

    def _tell_gone(self, gone: list[str]) -> None:
        old = [path.name for path in sorted(self.run.folder.glob("*.onnx"))]
        if gone or old:
            say(
                f"{self.run.folder.name}: better weights. Removed what was of the old ones: {', '.join(gone) or 'nothing'}."
            )
        if old:
            say(f"{', '.join(old)} in {self.run.folder} is still of the old ones: export it again.")


def _minutes_passed(seconds: float, minutes: float) -> bool:
    return minutes > 0 and seconds > 60 * minutes
