# Two commands: `make demo` shows the main job, `make test` passes the tests. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint types unit slow listed docs audit bench bench-peers cluster reliability lock sbom clean

demo: $(VENV)/.runtime
	$(BIN)/querycloak demo

test: lint types unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy --num-workers auto

unit: $(VENV)/.dev
	$(BIN)/pytest -n 2

# Everything that is marked slow and that `unit` leaves out: larger logs, long audits, the whole cluster.
# Beyond those listed it needs Java and 4 GB (tests/engines), `make docs` (tests/docs/test_site.py), and a network for
# installs of other packages (tests/unit/exports/test_other_packages.py).
slow: $(VENV)/.dev
	$(BIN)/pytest -n 2 -m slow

# The part of `slow` that tests/slow_cases.txt lists: everything else of the usual suite.
listed: $(VENV)/.dev
	$(BIN)/pytest -n 2 -m listed

# The documentation as a site: build/site/index.html, which needs no network, search included. The generator has an
# environment of its own; the reference is read from the installed package.
docs: $(VENV)-docs/.ready
	rm -rf build/site
	$(VENV)-docs/bin/sphinx-build --quiet --fail-on-warning --keep-going -c docs . build/site
	$(VENV)-docs/bin/python scripts/check_site.py build/site

# The long version of the attacks: every method on the standard synthetic log. `unit` has the short one.
audit: $(VENV)/.dev
	$(BIN)/python -m bench.release_audits
	$(BIN)/pytest -m slow tests/engines/test_runs.py tests/unit/audits
	$(BIN)/python -m bench.method_audits

# Everything that `unit` does not run on a cluster: every method, commands, skewed logs. It starts master, workers and
# a Spark Connect server by itself, on loopback.
cluster: $(VENV)/.dev
	$(BIN)/pytest -m slow tests/cluster

bench: $(VENV)/.dev
	$(BIN)/python -m bench

# The same task on other people's tools, each in an environment of its own; the table goes into docs/scale.md.
bench-peers: $(VENV)/.dev
	$(BIN)/python -m bench.peers

# Commands killed, fuzzed, raced, filled and cut off; the table goes into docs/reliability.md. `unit` has the short version.
reliability: $(VENV)/.dev
	$(BIN)/python -m bench.reliability

# Versions and checksums of what `demo` and `test` install, found anew.
lock: $(VENV)/.dev
	$(BIN)/python scripts/lock_requirements.py

# The wheel, and its bill of materials (CycloneDX): files with checksums, and the packages of the lock.
sbom: $(VENV)/.dev
	rm -rf build/sbom
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/sbom .
	$(BIN)/python scripts/make_sbom.py build/sbom/querycloak-*.whl requirements/demo.lock build/sbom/querycloak.cdx.json

clean:
	rm -rf $(VENV) $(VENV)-docs build dist demo-out

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "querycloak needs Python 3.11 or newer; say which: make PYTHON=python3.11 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# Where the locks are for, what they name is installed, checksum by checksum; elsewhere, and with `make LOCKS=none`,
# pyproject.toml's bounds decide.
EXTRAS := [dev,spark,audit,compare,studio]
LOCKS ?= requirements
define install
	@if test -f $(LOCKS)/$(1).lock && $(BIN)/python -c 'import platform, sys; sys.exit((platform.system(), platform.machine(), *sys.version_info[:2]) != ("Linux", "x86_64", 3, 11))'; \
	then $(BIN)/pip install --quiet --require-hashes --requirement $(LOCKS)/$(1).lock \
		&& $(BIN)/pip install --quiet --no-build-isolation --editable '$(2)'; \
	else $(BIN)/pip install --quiet --editable '$(2)'; fi
endef

$(VENV)/.runtime: pyproject.toml $(wildcard $(LOCKS)/demo.lock) | $(BIN)/python
	$(call install,demo,.[compare])
	@touch $@

$(VENV)/.dev: pyproject.toml $(wildcard $(LOCKS)/test.lock) | $(BIN)/python
	$(call install,test,.$(EXTRAS))
	@touch $@ $(VENV)/.runtime

$(VENV)-docs/.ready: pyproject.toml requirements/docs.txt
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/pip install --quiet --requirement requirements/docs.txt --editable .
	@touch $@
