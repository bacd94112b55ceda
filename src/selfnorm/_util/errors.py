"""Errors. The command line prints a UserError without a traceback and exits with 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Wrong usage or input. The message says what was found, what was expected and what to do."""


class NotSelfNormalized(UserError):
    """Scoring without log Z would be wrong for this model: calibrate it, or compute log Z."""


class UnknownName(UserError):
    """A criterion, an encoder or the like that no registry has: perhaps one of the user's own, registered elsewhere."""


class Busy(UserError):
    """Another process holds the lock."""


class Diverged(Exception):
    """Training met NaN or inf. Not wrong usage, so the command line exits with 1."""


def nearest(word: str, words: Iterable[str]) -> str:
    """' Did you mean "x"?' for the closest of `words`, or nothing."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f' Did you mean "{close[0]}"?' if close else ""


def missing_extra(package: str, extra: str, purpose: str) -> UserError:
    """The error for an optional library that is not installed."""
    return UserError(f'{purpose} needs the package {package}: pip install "selfnorm[{extra}]"')
