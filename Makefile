# Start with `make demo` and `make test`, which install everything first.

PYTHON ?= python3
VENV ?= .venv
SRL_ENV ?= $(or $(AGGGEN_SRL_ENV),$(HOME)/.cache/agggen/srl-env)
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help venv demo bundle critic srl stack test test-integration test-chaos test-all test-cluster lint format clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

venv: $(STAMP)  ## create a virtual environment with everything installed (a few minutes, once)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else \
	  "agggen needs Python 3.11 or newer, not %d.%d; try: make PYTHON=python3.12 $(MAKECMDGOALS)" % v[:2])'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || \
	  { echo "$(PYTHON) cannot create a virtual environment (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@echo "Installing into $(VENV): a few minutes and about 2 GB, once"
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: venv  ## train on the shipped corpus, then plan and generate texts
	$(BIN)/agggen demo $(ARGS)

bundle: venv  ## retrain the shipped bundle (minutes), after a change of its preset or corpus
	rm -rf agggen/bundles/elements
	mkdir -p agggen/bundles
	cp -r "$$(OMP_NUM_THREADS=1 $(BIN)/agggen train elements --runs "$$(mktemp -d)" | tail -1)" agggen/bundles/elements

critic: venv  ## retrain the shipped critic (half an hour), after a change of its synthetic errors
	$(BIN)/agggen corpora fetch rel2text
	OMP_NUM_THREADS=1 $(BIN)/agggen train-critic --out agggen/verification/critic/model

srl: venv  ## create AllenNLP's environment (needs Python 3.10; some minutes, once)
	PYENV_VERSION=3.10 python3.10 -m venv $(SRL_ENV)
	$(SRL_ENV)/bin/pip install --no-input -r platform/agggen_platform/srl/requirements.txt
	$(BIN)/agggen srl check --dir $(SRL_ENV)

stack: venv  ## run PostgreSQL, MLflow and an S3 server on this machine, without containers (ARGS=--help)
	$(BIN)/python -m infra.stack $(ARGS)

# Tests on real corpora need AGGGEN_DATA_HOME and are skipped without it. Exit status 5 of pytest: ARGS selected no test.
# tests/README.md lists what each folder covers and how long it takes.
test: venv  ## run the fast unit tests: some minutes, nothing else to install (ARGS='-k planning' to select)
	$(BIN)/python -m pytest -n logical --maxprocesses 4 --dist worksteal -m "not slow" tests/unit $(ARGS) || test $$? -eq 5

# Two processes: each test file starts its own clusters and servers and waits for them.
test-integration: test  ## run the unit tests, then those of clusters, servers, pages and manifests
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations 20 -m slow tests/unit $(ARGS) || test $$? -eq 5
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 40 \
	  tests/integration tests/manifests tests/browser tests/security tests/gpu $(ARGS) || test $$? -eq 5

test-chaos: venv  ## kill processes, fill disks, cut connections
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations 20 tests/chaos $(ARGS) || test $$? -eq 5

test-all: test-integration test-chaos  ## run all tests except those on containers (at most 45 minutes)

# As root, with podman, buildah, runc and debootstrap; images are stored separately (/var/lib/agggen-containers).
test-cluster: venv  ## build the images and test node failures on a cluster of containers (minutes)
	$(BIN)/python -m tests.cluster.image
	$(BIN)/python -m pytest tests/cluster $(ARGS) || test $$? -eq 5

lint: venv  ## check style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/benchmarks/*.py
	$(BIN)/lint-imports

format: venv  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the virtual environment and all caches
	rm -rf $(VENV) build dist agggen.egg-info platform/agggen.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find agggen platform tests -name __pycache__ -type d -prune -exec rm -rf {} +
