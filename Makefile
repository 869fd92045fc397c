# Every target does its own set-up. `make` alone says what there is.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
READY  := $(VENV)/.ready
EXTRAS := $(VENV)/.ready-extras
UV     := $(shell command -v uv 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: e2e help setup serve test quick lint format bench lock clean

help: ## Say what make can do
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(EXTRAS) ## Create .venv from the lock files (with uv when it is there)

$(READY): requirements.lock pyproject.toml
ifneq ($(UV),)
	@test -x $(BIN)/python || $(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --require-hashes -r requirements.lock
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-build-isolation --no-deps --editable .
else
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
endif
	@touch $@

# Every model provider's library and all that is needed only by tests: about 260 MB.
$(EXTRAS): $(READY) requirements-extras.lock
ifneq ($(UV),)
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --require-hashes -r requirements-extras.lock
else
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-extras.lock
endif
	@touch $@

serve: $(READY) ## Start the server on 127.0.0.1:7337 (ARGS="--port 0 --json" adds flags)
	@exec $(BIN)/dragoman serve $(ARGS)

test: $(EXTRAS) ## Run the whole suite, in JOBS processes (2)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

e2e: $(EXTRAS) ## Drive the real agents, offline (installs them from npm and PyPI on first use)
	$(BIN)/python -m pytest -m e2e -rs tests/e2e $(ARGS)

quick: $(EXTRAS) ## Run the suite without its slow tests
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" $(ARGS)

lint: $(EXTRAS) ## Format check, lint rules, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(EXTRAS) ## Format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(EXTRAS) ## Measure speed beside a ceiling from the same run
	$(BIN)/python -m bench $(ARGS)

lock: $(READY) ## Renew the lock files (needs uv); the extras' one holds what the other holds, and more
	$(UV) pip compile --quiet --upgrade --universal --group dev pyproject.toml --generate-hashes --no-header -o requirements.lock
	cp requirements.lock requirements-extras.lock
	$(UV) pip compile --quiet --universal --group dev --all-extras pyproject.toml --generate-hashes --no-header -o requirements-extras.lock

clean: ## Remove what make created
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
