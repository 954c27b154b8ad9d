# All tasks of developers and of the CI. `make` alone lists the targets.

PYTHON ?= python3
IMAGE ?= volcano-py:latest
EXAMPLES ?= examples
# The scheduler configuration of `make run`: the configuration of the examples if they have one, else the built-in one.
SCHEDULER_CONF ?= $(wildcard $(EXAMPLES)/scheduler.conf)
PYTEST_ARGS ?=
# `make lock UPGRADE=1` moves every pin to its newest release; without UPGRADE, pins move only as far as pyproject.toml requires.
UPGRADE ?=
# The resolver that writes the lock files. No other target needs it, so it is installed in a temporary environment.
UV_VERSION := 0.13.8

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
# This file is touched when the environment matches the lock file and pyproject.toml; make compares the dates.
READY := $(VENV)/.ready

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[36m%-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3")'
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: venv
venv: $(READY) ## Set up .venv from the lock file

.PHONY: run
run: $(READY) ## Schedule the example workloads on an in-memory cluster and print the result
	@$(BIN)/volcano-py simulate -f $(EXAMPLES) $(if $(SCHEDULER_CONF),--scheduler-conf $(SCHEDULER_CONF))

# Tests run in parallel. The tests of a file stay together: some share a control plane, and some build on others. The
# files run in the order of their names: those on a control plane, which take longest, come before the unit tests.
PYTEST := $(PY) -m pytest --dist loadfile --no-loadscope-reorder
CORES := $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
# One process more than there are cores, because tests wait for sockets and for programs that they start.
PARALLEL = --numprocesses $(shell expr $(CORES) + 1)
# Modules are compiled once, into build/, even if the environment forbids bytecode beside the sources: otherwise every
# process that a test starts compiles all modules that it imports.
test test-fast test-python test-node: export PYTHONDONTWRITEBYTECODE :=
test test-fast test-python test-node: export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache

.PHONY: test
test: $(READY) ## Lint, build the control plane, run the whole test suite (PYTEST_ARGS for more options)
	$(MAKE) lint
	$(MAKE) controlplane
	$(PYTEST) $(PARALLEL) -m 'not kind and not node' $(PYTEST_ARGS)

# Property tests try a quarter of their examples; `make test` tries all examples.
.PHONY: test-fast
test-fast: $(READY) ## Run the tests that need no control plane and are not slow: unit tests and scenarios
	$(PYTEST) --numprocesses $(CORES) --hypothesis-profile fast -m 'not controlplane and not slow' \
	  tests/unit tests/scenarios $(PYTEST_ARGS)

.PHONY: test-npu
test-npu: $(READY) ## Run the property tests of NPU chips with 1,000 random clusters per family
	NPU_EXAMPLES=1000 $(PYTEST) --dist load $(PARALLEL) tests/property/test_npu_sessions.py $(PYTEST_ARGS)

# Histories of faults on a real API server (docs/reliability.md). Logs of the programs are in build/faults.
HISTORIES ?= 500
SEED ?=
STEP ?=
MINUTES ?= 30
faults soak: export PYTHONDONTWRITEBYTECODE :=
faults soak: export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache

.PHONY: faults
faults: controlplane ## Run histories of faults on a real API server (HISTORIES=500; SEED=...: one of them again; STEP=...: the first fault of each)
	$(PY) -m tests.faults.run --logs build/faults $(if $(SEED),--seed $(SEED),--histories $(HISTORIES)) $(if $(STEP),--step '$(STEP)')

.PHONY: soak
soak: controlplane ## Run histories with faults of requests for 30 minutes; memory and times of sessions have to stay flat
	$(PY) -m tests.faults.run --logs build/faults --minutes $(MINUTES)

.PHONY: test-python
test-python: controlplane ## Run the fast tests and the tests on a real API server with another Python: PYTHON=python3.13 VENV=.venv-3.13
	$(PYTEST) $(PARALLEL) --hypothesis-profile fast -m 'not slow' tests/integration tests/scenarios tests/unit $(PYTEST_ARGS)

.PHONY: lint
lint: $(READY) ## Check formatting, style, types, the direction of imports, and shell scripts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/shellcheck --external-sources .ci/run deploy/kind/*.sh

.PHONY: format
format: $(READY) ## Format the code and apply the safe fixes
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

# The modules of programs that start are compiled once, as in the image.
bench bench-memory bench-commands bench-cluster bench-workloads bench-vcjobs bench-claims bench-check profile: \
  export PYTHONDONTWRITEBYTECODE :=
bench bench-memory bench-commands bench-cluster bench-workloads bench-vcjobs bench-claims bench-check profile: \
  export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache

.PHONY: bench
bench: controlplane ## Run all benchmarks, one after the other (ROW=... for some benchmarks; benchmarks/rows.py lists them)
	@mkdir -p build
	$(PY) -m benchmarks.rows $(if $(ROW),--row $(ROW))

.PHONY: bench-memory
bench-memory: $(READY) ## Benchmark sessions alone, in memory
	$(PY) -m benchmarks.rows --group memory

.PHONY: bench-scale
bench-scale: $(READY) ## Benchmark sessions with 10,000 to 1,000,000 Pods (3 GiB); plot in docs/images, table in build/scale.md
	@mkdir -p build
	$(PY) -m benchmarks.scale --markdown build/scale.md --plot docs/images/scale.svg

.PHONY: bench-commands bench-cluster bench-workloads bench-vcjobs bench-claims
bench-commands: ## Benchmark the commands explain and simulate on large clusters in files and on an API server
bench-cluster: ## Benchmark against a real API server on this machine
bench-workloads: ## Run kube-scheduler's performance workloads beside kube-scheduler; table in build/workloads.md
bench-vcjobs: ## Benchmark the controllers on a real API server: a thousand vcjobs at once, an AscendJob and its rank table, alone and with all programs
bench-claims: ## Repeat the experiments that were published for Volcano, beside kube-scheduler; table in build/claims.md
bench-commands bench-cluster bench-workloads bench-vcjobs bench-claims: controlplane
	@mkdir -p build
	$(PY) -m benchmarks.rows --group $(@:bench-%=%)

.PHONY: bench-check
bench-check: controlplane ## Run the benchmarks and fail if a figure is 15 % worse than recorded (ROW=... for some; RECORD=1 records)
	@mkdir -p build
	$(PY) -m benchmarks.check $(if $(ROW),--row $(ROW)) $(if $(RECORD),--record)

# No other target needs the sampler, so it is installed in a separate environment.
PYSPY_VERSION := 0.4.3
PYSPY := build/pyspy-$(PYSPY_VERSION)

.PHONY: profile
profile: controlplane ## Show where a benchmark spends its time (ROW=...)
	@test -x $(PYSPY)/bin/py-spy || { $(PYTHON) -m venv $(PYSPY) && $(PYSPY)/bin/pip install --quiet py-spy==$(PYSPY_VERSION); }
	$(PY) -m benchmarks.profile --sampler $(PYSPY)/bin/py-spy $(ROW)

.PHONY: controlplane
controlplane: $(READY) ## Build the control plane for the integration tests (needs Go; slow once, then cached)
	$(PY) -m controlplane.build

.PHONY: crds
crds: controlplane ## Make the resource definitions in deploy/crds from controlplane/crds, and the list of known fields
	$(PY) -m controlplane.crds.generate

.PHONY: manifests
manifests: controlplane ## Make deploy/volcano-py.yaml, for installations without Helm, from the chart
	$(PY) -m controlplane.manifests

.PHONY: dashboard-images
dashboard-images: controlplane ## Draw the dashboards of the chart into docs/images, with data of a control plane
	$(PY) -m tests.integration.dashboard_images

.PHONY: page-images
page-images: $(READY) ## Draw the web page into docs/images, with an example cluster (needs Chromium)
	$(PY) -m tests.browser.page_images

.PHONY: chart
chart: controlplane ## Check the chart and pack it into dist/
	@set -eu; helm="$$($(PY) -m controlplane.build | tail -n 1)/helm"; \
	"$$helm" lint --strict charts/volcano-py; \
	"$$helm" package charts/volcano-py --destination dist

# One lock file serves every supported Python and both architectures: it contains the hashes of all files of a release,
# and environment markers where these differ. The runtime lock has the same pins without the dev extra and with the extra
# dra; the image installs it. Neither file may name an index: users choose the source of packages.
.PHONY: lock
lock: ## Refresh requirements.lock and requirements-runtime.lock (UPGRADE=1 for newest releases)
	@set -eu; \
	scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	$(PYTHON) -m venv "$$scratch/venv"; \
	"$$scratch/venv/bin/python" -m pip install --quiet uv==$(UV_VERSION); \
	compile() { \
	  "$$scratch/venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	    --custom-compile-command "make lock" pyproject.toml "$$@" >/dev/null; \
	}; \
	compile --extra dev $(if $(UPGRADE),--upgrade) -o requirements.lock; \
	compile --extra dra -c requirements.lock $(if $(UPGRADE),--upgrade) -o requirements-runtime.lock; \
	if grep -n '://' requirements.lock requirements-runtime.lock; then \
	  echo "a lock file names a host" >&2; exit 1; \
	fi

# No other target needs the scanner, so it is installed in a separate environment. --strict: a package that the database
# does not answer for is an error.
PIPAUDIT_VERSION := 2.10.1
PIPAUDIT := build/pip-audit-$(PIPAUDIT_VERSION)

.PHONY: audit
audit: ## Look up known vulnerabilities of the locked packages (needs access to the advisories of PyPI)
	@test -x $(PIPAUDIT)/bin/pip-audit || { $(PYTHON) -m venv $(PIPAUDIT) && $(PIPAUDIT)/bin/pip install --quiet pip-audit==$(PIPAUDIT_VERSION); }
	@for file in requirements.lock requirements-runtime.lock; do \
	  $(PIPAUDIT)/bin/pip-audit --strict --progress-spinner off --disable-pip --require-hashes -r $$file || exit 1; \
	done

.PHONY: wheels
wheels: ## Check that all locked packages have wheels for the image's architectures and all supported Pythons
	@set -eu; \
	scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	$(PYTHON) -m venv "$$scratch/venv"; \
	"$$scratch/venv/bin/python" -m pip install --quiet uv==$(UV_VERSION); \
	for python in 3.11 3.12 3.13 3.14; do \
	  for machine in x86_64 aarch64; do \
	    "$$scratch/venv/bin/uv" pip compile --quiet --no-deps --only-binary :all: --python-version $$python \
	      --python-platform $$machine-manylinux_2_28 -o "$$scratch/found" requirements-runtime.lock >/dev/null; \
	    echo "Python $$python, $$machine: $$(grep -c '==' "$$scratch/found") packages"; \
	  done; \
	done

# The builder of images; podman and buildah take the same arguments.
BUILDER ?= docker

.PHONY: image
image: ## Build the container image (IMAGE=name:tag, BUILDER=docker, podman or buildah)
	$(BUILDER) build --tag $(IMAGE) .

.PHONY: image-platforms
image-platforms: ## Build the image for linux/amd64 and linux/arm64 with docker buildx, and push it (IMAGE=registry/name:tag)
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) docker buildx build --platform linux/amd64,linux/arm64 \
	  --output type=image,name=$(IMAGE),push=true,rewrite-timestamp=true .

.PHONY: sbom
sbom: $(READY) ## Write the software bill of materials of the packages in the image to build/sbom.cdx.json (CycloneDX)
	@set -eu; \
	mkdir -p build; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	$(PY) -m pip install --quiet --no-deps --no-compile --require-hashes --target "$$scratch" -r requirements-runtime.lock; \
	$(PY) -m pip install --quiet --upgrade --no-deps --no-compile --no-build-isolation --target "$$scratch" .; \
	$(PY) -m image.prune "$$scratch"; \
	$(PY) -m image.sbom "$$scratch" >build/sbom.cdx.json

# kind is built if it is not installed; kubectl and helm are those of the PATH, else those of `make controlplane`.
.PHONY: kind-up kind-test kind-down
kind-up: ## Create a cluster of kind, build the image, and install the chart there (needs Docker, Podman or nerdctl)
kind-test: ## Run `helm test` and the examples in the cluster of kind-up (KIND_EXAMPLES="pytorch ray": others than the small ones)
kind-down: ## Delete the cluster of kind-up
kind-up kind-test kind-down: $(READY)
	@set -eu; deploy/kind/engine.sh >/dev/null; \
	command -v kind >/dev/null || PATH="$$PATH:$$($(PY) -m controlplane.build --kind | tail -n 1)"; \
	PATH="$$PATH:$$($(PY) -c 'from controlplane import build; print(build.directory())')"; export PATH; \
	deploy/kind/$(@:kind-%=%).sh

# Real nodes run in namespaces of their own, see controlplane/node. The first build of their programs and images takes
# minutes; what it needs of the machine is checked first.
.PHONY: node test-node
node: $(READY) ## Run a cluster with real nodes and the chart, and a shell that reaches it, on this machine (needs root)
	$(PY) -m controlplane.node.run
test-node: $(READY) ## Test image, chart and jobs on real nodes; one line says what this machine lacks (needs root)
	$(PY) -m controlplane.node.run $(PYTEST) -m node tests/node $(PYTEST_ARGS)

.PHONY: clean
clean: ## Remove the environment, caches and build output
	rm -rf .venv .venv-* build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
