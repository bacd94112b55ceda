"""How numbers are written in tables: fixed digits, and scientific form where these would show only zeros."""

from __future__ import annotations

import math
from typing import Any


def number(value: float, digits: int, sign: bool = False) -> str:
    """0.1234 with `digits` behind the point; 1.2e-7 where that would be 0.0000; 0 is 0 and NaN is a dash.

    >>> number(0.17, 3), number(1.2345e-7, 4), number(0.0, 4), number(-0.2, 2, sign=True)
    ('0.170', '1.2e-7', '0', '-0.20')
    """
    if math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) < 0.5 * 10.0**-digits:
        mantissa, _, exponent = f"{value:{'+' if sign else ''}.1e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:{'+' if sign else ''}.{digits}f}"


def percent(share: float) -> str:
    """0.017 is +1.7 %."""
    return f"{100 * share:+.1f} %"


def interval(pair: Any, digits: int, sign: bool = False) -> str:
    """ "0.163 to 0.177"; nothing where there is no interval."""
    return "" if not pair else f"{number(pair[0], digits, sign)} to {number(pair[1], digits, sign)}"


def digits_of(value: float) -> int:
    """Digits behind the point for a spread of log Z: three, and four where it is small."""
    return 3 if abs(value) >= 0.02 else 4
