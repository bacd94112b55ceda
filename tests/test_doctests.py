"""The examples in docstrings run."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = [
    "selfnorm.calibration.normalize",
    "selfnorm.criteria.z_loss",
    "selfnorm.data.tokenizers",
    "selfnorm.nn.output",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    found = doctest.testmod(import_module(name))
    assert found.attempted > 0 and found.failed == 0
