# Needs only make, git, a C compiler and Python 3.11 or newer; everything else goes into .venv.
#   make demo    a real ONNX model through every stage, compared with the reference
#   make test    the test suite
#   make lint    ruff, mypy and pyright
#   make docs    the generated pages of docs/
# PYTHON=... chooses the interpreter, PINS= installs the newest releases instead of the tested ones,
# PYTEST_ARGS=... is passed on to pytest.

.DEFAULT_GOAL := help
.PHONY: help demo test lint docs clean

PINS ?= requirements-ci.txt
PYTEST_ARGS ?=
CANDIDATES := python3.13 python3.12 python3.11 python3 python
USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in $(CANDIDATES); do $$p -c '$(USABLE)' >/dev/null 2>&1 && echo $$p && break; done)

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet $(if $(PINS),--constraint $(PINS))
INPUTS := pyproject.toml $(PINS)

help:
	@sed -n 's/^#   //p' Makefile

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
	  echo "egraph-fusion needs Python 3.11 or newer with venv and pip, and found none." >&2; \
	  echo "Install one (Debian, Ubuntu: apt-get install python3 python3-venv) or name it: make PYTHON=/path/to/python3" >&2; \
	  exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --upgrade 'pip>=25.1'

.venv/installed-core: $(INPUTS) | $(BIN)/python
	$(PIP) --editable .
	@touch $@

.venv/installed-dev: $(INPUTS) | $(BIN)/python
	$(PIP) --editable '.[opencl]' --group dev
	@touch $@ .venv/installed-core

demo: .venv/installed-core
	$(BIN)/egraph-fusion demo

test: .venv/installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: .venv/installed-core
	$(BIN)/python docs/generate.py

clean:
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
