# Two commands for a new user: `make demo` and `make test`. Each sets up .venv when it has to.
PYTHON ?= python3
VENV ?= .venv
FLOORS ?= .venv-floors
TORCH ?= torch
BIN := $(VENV)/bin

.PHONY: help demo serve test test-slow test-full test-floors test-adapters check docs package format spark fuzz results bench bench-full bench-spark clean

help:
	@echo "make demo    set everything up and run the main job on real data"
	@echo "make serve   the same data as a page in your browser, with an HTTP API"
	@echo "make test    set everything up and run the tests"
	@echo "             side by side: make test PYTHON=python3.13 VENV=.venv313"
	@echo "make test-slow  the slower tests, which make test leaves out"
	@echo "make test-full  the same with all that takes minutes, the adapters' tests and the fuzzer"
	@echo "make test-floors  the same with the lowest versions that pyproject.toml allows"
	@echo "make test-adapters  the tests of wrapped RecTools, LensKit, RecBole and Cornac, in an environment each: minutes"
	@echo "make check   lint, format, types and import contracts"
	@echo "make docs    build the documentation site, in site/; open site/index.html from the disk"
	@echo "make package build the wheel, and run the README's example from it in an empty environment"
	@echo "make format  let ruff fix what it can"
	@echo "make spark   add pyspark, so that make test runs the Spark tests too (they need Java 17)"
	@echo "make fuzz    try to crash it, or to make it lie: minutes"
	@echo "make bench   speed and memory against peers, as ratios: minutes (bench-full: up to 25M rows)"
	@echo "make results measure the numbers of the documents again: minutes (FULL=1: all; NAME=hits: one claim)"
	@echo "make clean   remove .venv and caches"

demo: $(VENV)/.core
	@$(BIN)/surerec demo
	@echo "Here, 'make serve' opens it."

serve: $(VENV)/.serve
	@$(BIN)/surerec demo --serve

# A file's tests share what they made, so a file stays in one process.
PYTEST := -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile
test: $(VENV)/.dev
	$(BIN)/python $(PYTEST) -m 'not slow'

# What takes long and rarely breaks; CI runs it after the others.
test-slow: $(VENV)/.dev
	$(BIN)/python $(PYTEST) -m slow

# Everything that takes minutes as well: slow commands of the documents, the fuzzer, other libraries' models.
test-full: $(VENV)/.dev test-adapters
	$(BIN)/python $(PYTEST) --full
	$(BIN)/python -m fuzz.run

# Old packages on newer ones below them are warned of deprecations that are not ours.
test-floors: $(FLOORS)/.dev
	$(FLOORS)/bin/python -m pytest -m 'not spark' -W ignore::DeprecationWarning \
		--numprocesses auto --maxprocesses 4 --dist loadfile

# The libraries want different versions of numpy and implicit, so each has an environment.
# All bring torch: TORCH=torch==2.13.0 takes that one, for instance because it is at hand.
test-adapters: .venv-rectools/.tests .venv-lenskit/.tests .venv-recbole/.tests .venv-cornac/.tests
	.venv-rectools/bin/python -m pytest tests/adapters/test_rectools.py tests/adapters/test_rectools_transformers.py
	.venv-lenskit/bin/python -m pytest tests/adapters/test_lenskit.py
	.venv-recbole/bin/python -m pytest tests/adapters/test_recbole.py
	.venv-cornac/bin/python -m pytest tests/adapters/test_cornac.py

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "The site is built: open file://$(CURDIR)/site/index.html in a browser"

package: $(VENV)/.dev
	$(BIN)/python -m checks.package

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

spark: $(VENV)/.spark

bench-spark: $(VENV)/.spark
	$(BIN)/python -m benchmarks.spark

fuzz: $(VENV)/.dev
	$(BIN)/python -m fuzz.run

results: $(VENV)/.bench
	$(BIN)/python -m benchmarks.renew $(NAME) $(if $(FULL),--full)

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.run

bench-full: $(VENV)/.bench
	$(BIN)/python -m benchmarks.run --full --time-limit 1200

clean:
	rm -rf site dist $(VENV) .venv-rectools .venv-lenskit .venv-recbole .venv-cornac .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src -name '*.nb[ic]' -delete  # compiled kernels: numba looks only at the called one's file

# A stamp stands for an environment that was completed; it is stale when pyproject.toml changed.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "surerec needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.serve: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[serve]'
	@touch $@ $(VENV)/.core

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.core $(VENV)/.serve

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@ $(VENV)/.core

$(VENV)/.spark: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark]'
	@touch $@ $(VENV)/.dev $(VENV)/.core $(VENV)/.serve

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,baselines]'
	@touch $@ $(VENV)/.dev $(VENV)/.core

# pip always takes the newest; uv can take the lowest of what pyproject.toml names.
$(FLOORS)/.dev: pyproject.toml
	$(PYTHON) -m venv $(FLOORS)
	$(FLOORS)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(FLOORS)/bin/uv pip install --quiet --python $(FLOORS)/bin/python --resolution lowest-direct \
		--only-binary pytrec-eval-terrier --editable '.[dev]'  # its source fetches another from the net
	@touch $@

.venv-rectools/.tests: pyproject.toml
	$(PYTHON) -m venv .venv-rectools
	.venv-rectools/bin/python -m pip install --quiet --disable-pip-version-check pytest hypothesis \
		--editable '.[transformers]' 'rectools[lightfm]' '$(TORCH)'
	@touch $@

.venv-lenskit/.tests: pyproject.toml
	$(PYTHON) -m venv .venv-lenskit
	.venv-lenskit/bin/python -m pip install --quiet --disable-pip-version-check pytest hypothesis \
		--editable '.[lenskit]' '$(TORCH)'
	@touch $@

.venv-recbole/.tests: pyproject.toml
	$(PYTHON) -m venv .venv-recbole
	.venv-recbole/bin/python -m pip install --quiet --disable-pip-version-check pytest hypothesis \
		--editable '.[recbole]' '$(TORCH)'
	@touch $@

.venv-cornac/.tests: pyproject.toml
	$(PYTHON) -m venv .venv-cornac
	.venv-cornac/bin/python -m pip install --quiet --disable-pip-version-check pytest hypothesis \
		--editable '.[cornac]' '$(TORCH)'
	@touch $@
