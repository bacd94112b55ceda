"""Memory is measured per piece of work, not per process."""

from __future__ import annotations

import numpy as np
import pytest

from selfnorm._util.memory import megabytes_of, peak_megabytes


def test_a_piece_of_work_is_charged_for_what_it_holds_and_no_more() -> None:
    def large() -> float:
        return float(np.ones(12_500_000).sum())  # 100 MB

    first, small, again = megabytes_of(large), megabytes_of(lambda: 1), megabytes_of(large)
    if first is None or small is None or again is None:
        pytest.skip("this system does not tell")
    assert 90 < first < 130 and 90 < again < 130 and small < 20
    assert peak_megabytes() > 100
