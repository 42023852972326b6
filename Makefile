# `make` alone lists the targets. Each one makes its own environment first, from the hash-locked requirements.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON ?= python3
LOCK := requirements-dev.lock
BENCH_LOCK := requirements-bench.lock
READY := .venv/.ready
BENCH_READY := .venv/.ready-bench
BIN := .venv/bin
MUTATION := .venv-mutation
# Two workers: a test that kills processes wants a processor of its own, and a third makes nothing quicker on two processors.
# `make test WORKERS=0` runs in one process.
WORKERS ?= 2
TESTS ?= tests
ARGS ?=

.PHONY: help demo serve test lint format generate bench long soak attacks crash-test sabotage mutation audit e2e live e2e-audit provider-check lock clean

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | awk -F@ '{printf "%-24s %s\n", $$1, $$2}'

demo: $(READY) ## Kill a refund agent in the middle of a refund, in every situation, and print the table
	$(BIN)/python -m harness.run $(ARGS)

serve: $(READY) ## Watch it in a browser: two live pages on 127.0.0.1, and the receipts of past runs
	$(BIN)/python -m harness.demo $(ARGS)

test: $(READY) ## Run the tests, the long ones apart
	$(BIN)/python -m pytest $(TESTS) -q -n $(WORKERS) --dist loadgroup $(ARGS)

lint: $(READY) ## Check format, rules, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache

format: $(READY) ## Format the code and apply the safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: $(READY) ## Write the async gate again from the sync one
	$(BIN)/python -m harness.generate_async

bench: $(BENCH_READY) ## Measure the cost of the gate; exits non-zero above its bounds
	$(BIN)/python -m harness.benchmarks $(ARGS)

# In one process: some of them kill servers, or watch how much memory is used. Their counts are printed at the end.
long: $(READY) ## Run the tests that take minutes, which is hours in all; a line for each, and their counts at the end
	$(BIN)/python -m pytest $(TESTS) -v -raP --durations=30 -m long $(ARGS)

soak: $(READY) ## Work for ten minutes while workers, connections and the database are killed
	$(BIN)/python -m harness.soak $(ARGS)

attacks: $(READY) ## Attack a journal as the owner of its database, with the keys and without, and print who catches it
	$(BIN)/python -m harness.attacks $(ARGS)

SCHEDULES ?= 20000
crash-test: $(READY) ## Play random crash schedules over every profile
	$(BIN)/python -m harness.crash_test --schedules $(SCHEDULES) $(ARGS)

sabotage: $(READY) ## Break each invariant and rule on purpose, in a copy, and see that a test goes red
	$(BIN)/python -m harness.sabotage $(ARGS)

mutation: $(MUTATION)/.ready ## Mutate the domain, and list what no unit test catches (takes a quarter of an hour)
	PATH="$(CURDIR)/$(MUTATION)/bin:$$PATH" mutmut run --max-children 1 $(ARGS)
	$(MUTATION)/bin/mutmut results | sed '/not checked/d; /caught by type check/d'

audit: $(READY) ## Read the results and the provider's ledger again, independently
	$(BIN)/python -m harness.audit $(ARGS)

e2e: $(READY) ## Run the whole crash matrix, standalone and on Temporal; exits non-zero above its bounds
	$(BIN)/python -m harness.run --matrix e2e $(ARGS)

live: $(READY) ## Run the same at Stripe in test mode and with the real model; needs test keys, and takes no live one
	$(BIN)/python -m harness.run --matrix e2e --live --out results/live $(ARGS)

e2e-audit: $(READY) ## Read the results of `make e2e`, the provider's ledger and Temporal's histories again, independently
	$(BIN)/python -m harness.audit $(or $(ARGS),results/e2e.json)

provider-check: $(READY) ## Check every rule of the provider that a target relies on
	$(BIN)/python -m harness.provider_check $(ARGS)

COMPILE = uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --upgrade \
  --no-header --no-emit-index-url --no-emit-find-links --quiet
lock: ## Resolve the dependencies again (needs uv); the files carry hashes and no address
	$(COMPILE) --extra dev --output-file $(LOCK)
	$(COMPILE) --extra bench --constraints $(LOCK) --output-file $(BENCH_LOCK)

clean: ## Remove the environment and everything that was generated
	rm -rf .venv $(MUTATION) mutants build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The project itself goes in last, editable: --no-deps because the lock has them, --no-build-isolation because
# the build backend is locked too, so nothing is installed that has no hash.
$(READY): $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Interlock needs Python 3.11 or newer; '$(PYTHON)' is" \
	    "$$($(PYTHON) --version 2>/dev/null || echo not there). Nothing was installed." \
	    "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Making .venv from $(LOCK) (once; again when the lock changes)"
	@rm -f $@
	@if command -v uv >/dev/null 2>&1; then \
	  $(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear --without-pip .venv; \
	  uv pip sync --quiet --python $(BIN)/python --require-hashes $(LOCK) && \
	  uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .; \
	else \
	  $(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .; \
	fi
	@touch $@

# What the gate is measured against comes on top, with its own lock, and is not needed for anything else.
$(BENCH_READY): $(BENCH_LOCK) $(READY)
	@echo "Adding the peers of the benchmarks from $(BENCH_LOCK) (once; again when a lock changes)"
	@rm -f $@
	@if command -v uv >/dev/null 2>&1; then \
	  uv pip install --quiet --python $(BIN)/python --require-hashes -r $(BENCH_LOCK); \
	else \
	  $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(BENCH_LOCK); \
	fi
	@touch $@

# An environment of its own: nothing else uses mutmut, so what it needs is not in the lock.
$(MUTATION)/.ready: $(LOCK)
	@echo "Making $(MUTATION) (once; again when the lock changes)"
	@$(PYTHON) -m venv --clear $(MUTATION)
	@$(MUTATION)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	@$(MUTATION)/bin/python -m pip install --quiet --disable-pip-version-check mutmut==3.8.1
	@touch $@
