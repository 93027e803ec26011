# Two commands on a machine with only Python >= 3.11 and make:
#
#   make demo    a sumcheck prover under fusegate, three faults in it, and the report
#   make test    the test suite, once per runtime
#
# PYTHON chooses the interpreter. FRX has wheels for CPython 3.11 only: with 3.11 everything runs on FRX
# and on JAX, with a later Python the JAX half does.

PYTHON ?= python3
PYTEST_ARGS ?= -n 2

VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ifeq ($(VERSION),)
$(error $(PYTHON) does not run; set PYTHON to an interpreter, as in: make test PYTHON=python3.11)
endif
ifneq ($(filter 2.% 3.0 3.1 3.2 3.3 3.4 3.5 3.6 3.7 3.8 3.9 3.10,$(VERSION)),)
$(error $(PYTHON) is Python $(VERSION); fusegate needs 3.11 or later. Set PYTHON, as in: make test PYTHON=python3.11)
endif

VENV := .venv/py$(VERSION)
BIN := $(VENV)/bin
ifeq ($(VERSION),3.11)
RUNTIMES := frx jax
EXTRAS := [frx,zorch]
else
RUNTIMES := jax
EXTRAS :=
endif
INSTALL := -m pip --disable-pip-version-check install --quiet
PIP := $(BIN)/python $(INSTALL)
CUDA := .venv/cuda

.PHONY: help demo test lint types docs bench test-cuda test-matrix clean $(RUNTIMES:%=test-%)

help:
	@echo "make demo | test | lint | types | docs | bench | test-cuda | test-matrix | clean   (PYTHON=$(PYTHON), $(VERSION))"

# The environment is made anew from pyproject.toml whenever that changes; a second run is instant.
# pip is upgraded first: it reads dependency groups since 25.1, and a fresh venv may bring an older one.
$(VENV)/.test: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade "pip>=25.1"
	$(PIP) --editable ".$(EXTRAS)" --group test
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	$(PIP) --editable ".$(EXTRAS)" --group dev
	@touch $@

# The demo's faults are deliberate, so status 1, "violations found", is how it ends; any other is a failure.
ifeq ($(VERSION),3.11)
demo: $(VENV)/.test
	@$(BIN)/fusegate run examples/01_sumcheck_single_zone.py; status=$$?; \
	if [ $$status -eq 1 ]; then \
	  echo; echo "demo: the findings above are those of the three faults, caught as intended (status 1)."; \
	else \
	  echo "demo: status $$status, where 1 (violations found) was expected" >&2; exit 1; \
	fi
else
demo: $(VENV)/.test
	@echo "demo: FRX needs CPython 3.11, this is $(VERSION); running the JAX example instead."
	@$(BIN)/fusegate run examples/02_vit_inference.py
endif

test: $(RUNTIMES:%=test-%)

$(RUNTIMES:%=test-%): test-%: $(VENV)/.test
	@echo "== test suite on $*, Python $(VERSION)"
	FUSEGATE_RUNTIME=$* $(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Every benchmark but `diagnosis` takes the runtime as its argument; that one compares with peers, on JAX.
BENCHMARKS := $(filter-out %/_common.py %/diagnosis.py,$(wildcard benchmarks/*.py))

bench: $(VENV)/.test
	for runtime in $(RUNTIMES); do for file in $(BENCHMARKS); do \
	  echo "== $$file $$runtime"; $(BIN)/python $$file $$runtime || exit 1; \
	done; done
	$(BIN)/python benchmarks/diagnosis.py

# The CUDA compiler, some 460 MB, has an environment of its own. It needs no GPU and none of CUDA's libraries,
# as long as CUDA is no platform that the runtime is asked for.
$(CUDA)/.test: pyproject.toml
	$(PYTHON) -m venv $(CUDA)
	$(CUDA)/bin/python $(INSTALL) --upgrade "pip>=25.1"
	$(CUDA)/bin/python $(INSTALL) --editable ".[cuda-evidence]" --group test
	@touch $@

test-cuda: $(CUDA)/.test
	JAX_PLATFORMS=cpu FUSEGATE_RUNTIME=jax $(CUDA)/bin/python -m pytest $(PYTEST_ARGS) tests/cuda

test-matrix: $(VENV)/.dev
	$(BIN)/nox --session tests

clean:
	rm -rf .venv .nox site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
