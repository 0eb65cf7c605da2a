# Two commands: `make demo` shows the main job, `make test` passes the tests. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint types unit audit bench clean

demo: $(VENV)/.runtime
	$(BIN)/querycloak demo

test: lint types unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/pytest -n 2

# The long version of the attacks: every method on the standard synthetic log. `unit` has the short one.
audit: $(VENV)/.dev
	$(BIN)/python -m bench.release_audits
	$(BIN)/pytest -m slow tests/engines/test_runs.py tests/unit/audits
	$(BIN)/python -m bench.method_audits

bench: $(VENV)/.dev
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) build dist demo-out

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "querycloak needs Python 3.11 or newer; say which: make PYTHON=python3.11 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable '.[dev,spark,audit]'
	@touch $@ $(VENV)/.runtime
