"""Train a run from where it stands to its end: validate, keep the best, write checkpoints."""

from __future__ import annotations

import logging
import math
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from selfnorm._util.console import progress
from selfnorm._util.errors import Diverged
from selfnorm._util.interrupts import Held, held
from selfnorm._util.memory import peak_megabytes
from selfnorm._util.processes import ALONE, Processes
from selfnorm.criteria.build import Criterion
from selfnorm.data.corpus import Corpus
from selfnorm.data.windows import Windows
from selfnorm.evaluation.measure import validate
from selfnorm.nn.model import LanguageModel
from selfnorm.registry.encoders import ENCODERS
from selfnorm.runs.folder import Run, changing, derived_names
from selfnorm.runs.history import best_line
from selfnorm.runs.weights import begin, save_weights
from selfnorm.training.checkpoint import FILE as CHECKPOINT
from selfnorm.training.checkpoint import load_checkpoint, save_checkpoint, write_history
from selfnorm.training.exchange import Exchange
from selfnorm.training.loop import Place, learning_rate, train
from selfnorm.training.optimizer import Optimizer

log = logging.getLogger("selfnorm")


class Trainer:
    """Validates, keeps the best, checkpoints by the clock and at every epoch."""

    def __init__(
        self, run: Run, corpus: Corpus, criterion: Criterion, windows: Windows, processes: Processes = ALONE
    ) -> None:
        self.run, self.corpus, self.training = run, corpus, run.recipe.training
        self.criterion, self.windows, self.processes = criterion, windows, processes
        self.model, self.rng = begin(run.recipe, len(corpus.vocab), criterion, self.processes.device)
        self.optimizer = Optimizer(self.model, self.training, ENCODERS.find(run.recipe.model.encoder).optimizer)
        self.at = load_checkpoint(run, self.model, self.optimizer, self.rng, self.processes, windows.own)
        self.exchange = Exchange(self.processes) if self.processes.size > 1 else None

    def train(self) -> None:
        per_window, left = self.training.batch * self.training.steps, self._windows_left()
        if left == 0:
            self._finish()
            return
        if self.processes.first and not self.at.history and not self.corpus.counts()[self.corpus.vocab.unk]:
            log.warning(
                "The training text has no <unk>, so the score of unseen words is not learnt. Set a larger data.min_count, which turns "
                "rare words into <unk>, or score with an unk_penalty."
            )
        if self.exchange is not None:
            self.exchange.same_start(self.model)
        steps = train(
            self.model, self.criterion, self.windows, self.training, self.rng, self.at.place, self.optimizer, self.exchange
        )  # fmt: skip
        with self._interrupts() as signals, progress(f"train {self.run.folder.name}", left * per_window) as advance:
            lap = saved = validated = self._now()
            for place in steps:
                advance(per_window)
                now = self._now()
                self.at.seconds, lap = self.at.seconds + now - lap, now
                whole = place.window == len(self.windows)
                if self._validates(place, whole, now - validated):
                    self._validate()
                    saved = validated = now if self.exchange else self._now()
                elif whole or (place.known and (signals.number or now - saved > 60 * self.training.checkpoint_minutes)):
                    self._save()
                    saved = now if self.exchange else self._now()
                if place.known:
                    signals.deliver()
        if self.processes.first:
            self._save_last()

    def _interrupts(self) -> AbstractContextManager[Held]:
        """Ctrl-C and SIGTERM wait until the step is saved. Not with several processes: they can only save together."""
        return nullcontext(Held({})) if self.exchange else held()

    def _validates(self, place: Place, whole: bool, seconds: float) -> bool:
        """Is this the end of an epoch after which the model is validated, or the time within one?"""
        if whole:
            return place.epoch % self.training.validate_epochs == 0 or place.epoch == self.training.epochs
        return place.known and _minutes_passed(seconds, self.training.validate_minutes)

    def _save_last(self) -> None:
        with changing(self.run) as new:
            save_weights(new, "model.safetensors", self._usable())

    def _now(self) -> float:
        """The clock; of several processes that of the first, so that all decide alike."""
        return time.monotonic() if self.exchange is None else self.exchange.now

    def _save(self) -> None:
        """All processes give their part of the state; the first one writes."""
        state = self.at.place.state
        state = state if self.exchange is None else self.exchange.whole_state(state)
        if self.processes.first:
            save_checkpoint(self.run, self.model, self.optimizer, self.rng, self.at, self.processes, state)

    def _windows_left(self) -> int:
        done = (self.at.place.epoch - 1) * len(self.windows) + self.at.place.window
        return self.training.epochs * len(self.windows) - done

    def _finish(self) -> None:
        """All is trained. The last epoch may not be validated, and a process that was killed may not have written all files."""
        if not self.at.history or self.at.history[-1]["epoch"] < self.training.epochs:
            self._validate()
        if not self.processes.first:
            return
        last, checkpoint = self.run.file("model.safetensors"), self.run.file("checkpoint.safetensors")
        if not last.exists() or (checkpoint.exists() and checkpoint.stat().st_mtime_ns > last.stat().st_mtime_ns):
            self._save_last()
        write_history(self.run, self.at.history)

    def _validate(self) -> None:
        """Measure the model on the validation text, keep it if it is the best, and save."""
        if self.processes.first:
            self._keep_best(self._line(self.at.place))
        self._save()

    def _usable(self) -> LanguageModel:
        """The model whose m estimates log p, as everything after training expects it."""
        return self.model.with_output(self.criterion.recover(self.model.output))

    def _line(self, place: Place) -> dict[str, Any]:
        numbers = validate(self._usable(), self.corpus["valid"])
        if not math.isfinite(numbers["perplexity"]):
            kept = "The last checkpoint is kept. " if self.run.file(CHECKPOINT).exists() else ""
            raise Diverged(
                f"The validation perplexity became {numbers['perplexity']} in epoch {place.epoch}. {kept}"
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
        best = best_line(self.at.history)
        if best is None or line["perplexity"] < best["perplexity"] or not self.run.file("best.safetensors").exists():
            with changing(self.run) as new:  # measurements and calibrations of the old weights go with them
                gone = new.remove(derived_names())
                save_weights(new, "best.safetensors", self._usable())
            self._report_stale(gone)
        self.at.history.append(line)
        log.info(
            "%s: epoch %g  valid perplexity %.2f  mu_z %+.3f  sigma_z %.3f  (%.0f s)",
            self.run.folder.name, line["epoch"], line["perplexity"], line["mu_z"], line["sigma_z"], line["seconds"],
        )  # fmt: skip
        if line["perplexity"] > len(self.corpus.vocab):
            log.warning(
                "That is worse than guessing among all words. Try a lower training.learning_rate: 1 suits a text of PTB's size."
            )

    def _report_stale(self, gone: list[str]) -> None:
        graphs = [path.name for path in sorted(self.run.folder.glob("*.onnx"))]
        if gone:
            log.info("%s: better weights. Removed stale results: %s.", self.run.folder.name, ", ".join(gone))
        if graphs:
            log.warning("%s in %s is of older weights: export it again.", ", ".join(graphs), self.run.folder)


def _minutes_passed(seconds: float, minutes: float) -> bool:
    return minutes > 0 and seconds > 60 * minutes
