# Everything a newcomer needs: `make run` to see it, `make test` to trust it.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8050
# The demonstration trains on the CPU. Where no torch is installed yet, this release is taken; a torch that is already
# in the environment is never touched.
TORCH ?= torch==2.13.0

.PHONY: help run test test-fast explore fuzz check types bench pictures install install-run clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

run: install-run  ## install what is missing, serve on 127.0.0.1:$(PORT), load recorded runs, train a live one with faults
	@$(BIN)/rerail demo --serve --port $(PORT) --data .rerail || [ $$? -eq 130 ]  # 130: ended by Ctrl-C, as it should

WORKERS ?= 2

test: install  ## the whole suite: core, store on SQLite and PostgreSQL, intake, recorder, launcher, pages in a browser
	@$(BIN)/python -m pytest -n $(WORKERS)

test-fast: install  ## the suite without browser, training and servers: under a minute
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not browser and not slow"

explore: install  ## property tests on new examples, twenty times as many: what it finds becomes a test of its own
	@RERAIL_EXPLORE=1 $(BIN)/python -m pytest -n $(WORKERS) $$(grep -rlE '^from hypothesis' tests --include='test_*.py')

FUZZ_SECONDS ?= 60
FUZZED := log kernel flight-recorder scheduler

fuzz: install  ## coverage-guided fuzzing of every parser, FUZZ_SECONDS each (installs atheris)
	@$(BIN)/python -c "import atheris" 2>/dev/null || $(BIN)/pip install --quiet atheris
	@mkdir -p build/fuzz
	@set -- $(FUZZED); echo "$$# parsers, $(FUZZ_SECONDS) s each: it takes $$(( $$# * $(FUZZ_SECONDS) )) s, and some to start"; \
	place=0; for parser in "$$@"; do place=$$((place + 1)); echo "== $$place of $$#: $$parser"; \
	  (cd build/fuzz && ../../$(BIN)/python ../../tests/fuzz/parsers.py $$parser -max_total_time=$(FUZZ_SECONDS) $$parser) \
	  || { echo "$$parser stopped; an input that it found is in build/fuzz, named $$parser-crash-… or the like"; exit 1; }; \
	  echo "Done with $$parser ($$place of $$#): nothing found"; done

check: install types  ## format, lint, types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types: install build/typing/rerail  ## strict types of the core
	@$(BIN)/mypy

bench: install-run  ## every figure of the README, measured on this machine
	@for file in bench/*.py; do echo; echo "== $$file"; $(BIN)/python $$file || exit 1; done

pictures: install  ## every page of the docs, pictured anew from a server of its own
	@$(BIN)/python docs/take_pictures.py

install: $(VENV)/.dev-installed  ## the environment for tests, in .venv

install-run: $(VENV)/.run-installed  ## the environment for `make run`, in .venv

$(VENV)/bin/python:
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --upgrade pip

$(VENV)/.run-installed: $(VENV)/bin/python pyproject.toml
	@echo "installing what is missing into $(VENV) (a few minutes the first time) …"
	@$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/pip install --quiet "$(TORCH)"
	@$(BIN)/pip install --quiet -e ".[ui]"
	@$(BIN)/pip install --quiet -e ".[demo]" || \
	  { echo "nvidia-resiliency-ext cannot be installed here: the demonstration will use torchrun"; \
	    $(BIN)/pip install --quiet "numpy>=1.26"; }
	@touch $@

$(VENV)/.dev-installed: $(VENV)/.run-installed
	@$(BIN)/pip install --quiet -e ".[dev]"
	@touch $@

build/typing/rerail:  # type checkers do not read setuptools' mapping: show them a tree that looks like the wheel
	@mkdir -p $@
	@for folder in server ui collectors migrations; do ln -sfn ../../../$$folder $@/$$folder; done
	@ln -sfn ../../../rerail/__init__.py $@/__init__.py
	@ln -sfn ../../../rerail/py.typed $@/py.typed

clean:  ## remove what was built and what `make run` stored
	@rm -rf build dist *.egg-info .rerail .pytest_cache .mypy_cache .ruff_cache .hypothesis
