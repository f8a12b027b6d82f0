# Two commands are enough: `make run` and `make test`. Both set up .venv on their first use.
.DEFAULT_GOAL := help
.PHONY: help run flower-demo flower-deploy-demo test test-slow check optimality benchmark reference tutorial docs leaderboard dist clean

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The first interpreter that is new enough; override with `make PYTHON=python3.12 …`.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/make \1\t\2/' | expand -t 26

run: $(READY)  ## simulate the default experiment with FedTeddi and Random side by side (about 2 minutes)
	@$(BIN)/fedteddi compare --scheduler fedteddi --scheduler random --out runs/first --resume
	@$(BIN)/fedteddi report runs/first --html

flower-demo: $(READY)  ## FedTeddi on Flower's Simulation Engine: six clients, three rounds
	@$(BIN)/python examples/flower-fashion/fleet.py simulate

flower-deploy-demo: $(READY)  ## the same on a SuperLink and six SuperNodes, with TLS and node authentication
	@$(BIN)/python examples/flower-fashion/fleet.py deploy

test: check  ## the whole suite, with the checks
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

test-slow: $(READY)  ## what takes longer but must hold
	@# Triton interprets the kernels for GPUs; it comes with PyTorch for CUDA only, and not for every system.
	-$(BIN)/python -c 'import triton' 2>/dev/null || $(BIN)/python -m pip install --quiet triton==3.9.0
	$(BIN)/pytest -m slow

check: $(READY)  ## format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

optimality: $(READY)  ## regenerate docs/optimality.md (about 3 minutes)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/optimality.py --write docs/optimality.md

benchmark: $(READY)  ## regenerate docs/scale.md: growth with clients, classes and runs (about 10 minutes)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/growth.py --write docs/scale.md
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/every_rule.py --write docs/scale.md

reference: $(READY)  ## regenerate what docs/ takes from the code: parts, commands, settings
	$(BIN)/python scripts/reference.py --write docs

tutorial: $(READY)  ## play docs/tutorial.md and the notebooks, and write what they show into them (about 3 minutes)
	$(BIN)/python scripts/tutorial.py --write docs/tutorial.md
	$(BIN)/python scripts/notebooks.py examples/notebooks/*.ipynb

docs: $(READY)  ## build the documentation's site into build/site; broken links and anchors are errors
	$(BIN)/python scripts/docs_site/build.py

leaderboard: $(READY)  ## regenerate docs/leaderboard.md: every scheduler on three scenarios (at most an hour; resumable)
	$(BIN)/fedteddi benchmark --write docs/leaderboard.md

dist: $(READY)  ## build the sdist and the wheel into dist/
	$(BIN)/python -m build

clean:  ## remove .venv and caches
	rm -rf $(VENV) build .cache .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache

# Re-made only when what it installs has changed.
$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none was found on PATH; set PYTHON=…" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@
