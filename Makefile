# Every target works alone on a fresh clone: it sets up what it needs first. `make` lists them.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint types layers fmt bench docs wheel clean lock

python := .venv/bin/python
setup := PYTHON="$(PYTHON)" sh scripts/python.sh scripts/setup_env.py
ARGS ?=

help:  ## show this list
	@echo "Carnac: an event store for teams who run Spark"
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## create .venv with everything that development needs (done by the other targets)
	@$(setup) dev

demo:  ## set up and run the main job on real data: 336,776 flights
	@$(setup) demo
	@$(python) -m carnac demo $(ARGS)

test:  ## set up and run every test (ARGS="-k name" chooses)
	@$(setup) dev
	@$(python) -m scripts.run_tests $(ARGS)

check:  ## lint, format, types, layers and the fast tests, in under two minutes
	@$(setup) dev
	@$(python) -m scripts.check

lint:  ## ruff: lint rules and format, without changing anything
	@$(setup) dev
	@$(python) -m scripts.check lint format

types:  ## mypy --strict
	@$(setup) dev
	@$(python) -m scripts.check types

layers:  ## import-linter: imports point down; pyspark, DuckDB and Kafka stay where they belong
	@$(setup) dev
	@$(python) -m scripts.check layers

fmt:  ## format the code and mend what ruff can mend
	@$(setup) dev
	@.venv/bin/ruff check --fix-only .
	@.venv/bin/ruff format .

bench:  ## run the benchmarks and write benchmarks/results/ (ARGS="sql publish" chooses)
	@$(setup) dev
	@$(python) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	@set -e; for name in $(or $(ARGS),$(patsubst benchmarks/bench_%.py,%,$(wildcard benchmarks/bench_*.py))); do \
	  echo "── benchmark: $$name"; $(python) -m "benchmarks.bench_$$name"; \
	done
	@$(python) -m scripts.docs

docs:  ## regenerate the reference pages from the code and the benchmark results
	@$(setup) dev
	@$(python) -m scripts.docs

wheel:  ## build dist/carnac-VERSION-py3-none-any.whl, which pip installs anywhere
	@$(setup) dev
	@$(python) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

clean:  ## remove what tools and the demo leave behind; .venv stays
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache artifacts \
	  .coverage .coverage.* htmlcov build dist demo-output spark-warehouse
	@find src tests scripts benchmarks docs -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || :
	@echo "clean; 'rm -rf .venv' removes the environment as well"

lock:  ## resolve requirements/*.txt anew (UPGRADE=1 takes the newest versions)
	@$(setup) dev
	@UPGRADE=$(UPGRADE) sh scripts/lock.sh
