PYTHON ?= python3
VENV ?= .venv

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
USER_STAMP := $(VENV)/.installed-user
DEV_STAMP := $(VENV)/.installed-dev
BENCH_STAMP := $(VENV)/.installed-bench

.DEFAULT_GOAL := help
.PHONY: help install demo test soak lint format bench detach clean

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z]+):.*## (.*)/  make \1	\2/' | expand -t 16

install: $(DEV_STAMP) ## make the virtual environment and install everything for development

demo: $(USER_STAMP) ## install what a user needs and run the demonstration
	@echo "$(BIN)/alloc-es demo: two schedulers race, which takes some seconds"
	@$(BIN)/alloc-es demo

# They start hundreds of Python processes, of which each compiles all anew if none may keep it.
test: export PYTHONDONTWRITEBYTECODE =
test: $(DEV_STAMP) ## run the tests on every store, PostgreSQL included, and on all cores
	@ALLOC_ES_REQUIRE_POSTGRES=1 $(BIN)/python -m pytest -n logical --maxprocesses 8 --dist worksteal

# The tests that `make test` runs with less effort, and with what was asked of them here.
SOAKED := tests/following/test_reconnects.py tests/fence/test_no_deadlock.py tests/fence/test_race.py tests/model

soak: $(DEV_STAMP) ## drill for hours, and try harder in the tests that take longest
	@ALLOC_ES_SOAK=1 $(BIN)/python -m pytest --timeout=3600 $(SOAKED)
	@$(BIN)/python -m tests.soak

lint: $(DEV_STAMP) ## check format, lint, types and the direction of imports
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV_STAMP) ## format the code and apply the safe fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(BENCH_STAMP) ## measure this machine
	@$(BIN)/python -m tests.bench

detach: $(DEV_STAMP) ## break the code on purpose and see that a test turns red each time
	@$(BIN)/python -m tests.detach

clean: ## remove the virtual environment, caches and builds
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src projections tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "alloc-es needs Python 3.11 or newer, and '$(PYTHON)' is not: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "making the virtual environment $(VENV), for some seconds"
	@$(PYTHON) -m venv $(VENV)

$(USER_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing alloc-es for use, which downloads packages and takes up to a minute or two"
	@$(PIP) -e '.[postgres]'
	@touch $@

# The development install holds the user's, so it stamps both.
$(DEV_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing alloc-es for development, which downloads packages and takes some minutes"
	@$(PIP) -e '.[dev]'
	@touch $(USER_STAMP) $@

$(BENCH_STAMP): $(DEV_STAMP)
	@echo "installing what alloc-es is measured beside"
	@$(PIP) -e '.[bench]'
	@touch $@
