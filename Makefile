# `make demo` shows what the package does; `make test` is what has to pass before a change goes in.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
COVERAGE_STAMP := $(VENV)/.installed-coverage
DEMO := build/demo

# Packages are compiled when they are first imported, and that once: many tests start a Python anew.
unexport PYTHONDONTWRITEBYTECODE

# Two test processes share the cores; more threads in each would only be in each other's way.
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS)

# What the leaderboard is of: LIST.csv of labeled images, models, whose errors CE divides by, and
# further options, such as --label-map background-first
IMAGES ?=
MODELS ?= efficientnet_lite0 efficientnet_lite1 efficientnet_lite2
BASELINE ?= efficientnet_lite0
OPTIONS ?=
BOARD := build/leaderboard
ASK := $(MODELS) --images $(IMAGES) --bins 14 --min-per-bin 8 $(OPTIONS)

# The experiment with participants is distributed separately; its pages are bundled from frontend/
EXPERIMENT := packages/experiment
PAGES := $(EXPERIMENT)/src/eyechart_experiment/static/app.js
WIRE := $(EXPERIMENT)/frontend/src/wire.ts
PAGE_SOURCES := $(shell find $(EXPERIMENT)/frontend/src $(EXPERIMENT)/frontend/test -type f) $(wildcard $(EXPERIMENT)/src/eyechart_experiment/languages/*.json) $(addprefix $(EXPERIMENT)/frontend/, \
    build.js build.sh NOTICES.txt package.json package-lock.json tsconfig.json)

.PHONY: help install demo test test-eyechart test-experiment beside validate coverage mutation bench leaderboard record-references record-inventory lint \
    format browser frontend notebooks docs clean
.DELETE_ON_ERROR:

help:
	@echo "make demo      three models on 20 images under 14 corruptions, compared with humans"
	@echo "make test      lint, tests, docs"
	@echo "make test-eyechart, make test-experiment  the tests of one of the two distributions"
	@echo "make validate  the long tests, then make bench"
	@echo "make coverage  the lines and branches that the tests run, by package"
	@echo "make mutation  the share of 400 small changes of the code that the tests notice"
	@echo "make bench     every step timed, next to named rivals in the same run"
	@echo "make leaderboard IMAGES=list.csv  models side by side on ImageNet-C and VCR"
	@echo "make record-references  record the numbers of whole runs on demo images, which tests compare"
	@echo "make record-inventory   record commands, names, files and pages, which a test compares"
	@echo "make lint      ruff, mypy, import layers, spelling"
	@echo "make format    let ruff rewrite the files"
	@echo "make frontend  build the pages of the experiment"
	@echo "make notebooks run the notebooks of the documentation and store their outputs"
	@echo "make docs      build the documentation into site/"

$(STAMP): pyproject.toml $(EXPERIMENT)/pyproject.toml constraints.txt requirements.lock install.sh
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@sh install.sh $(BIN)/python
	touch $@

install: $(STAMP)

# The demo needs fewer packages than development, and the environment of the latter has them all.
$(DEMO_STAMP): pyproject.toml $(EXPERIMENT)/pyproject.toml constraints.txt requirements-demo.lock install.sh
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -e $(STAMP) || sh install.sh $(BIN)/python demo
	touch $@

# The main job on what comes along: EfficientNet-Lite 0, 1 and 2, 20 images, 14 corruptions.
demo: $(DEMO_STAMP)
	@mkdir -p $(DEMO)
	$(BIN)/eyechart demo --out $(DEMO)
	@$(BIN)/eyechart gallery "$$($(BIN)/python -c 'from eyechart.images.image_sources import demo_images; print(demo_images()[0].path)')" --suite vcr --out $(DEMO)/gallery.html >/dev/null
	@echo "Every corruption on one image: $(CURDIR)/$(DEMO)/gallery.html"
	@echo "Open the report: $(CURDIR)/$(DEMO)/report.html"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# In a copy, because the notebooks write results beside themselves
notebooks: $(STAMP)
	mkdir -p build/notebooks
	cp docs/notebooks/*.ipynb build/notebooks
	$(BIN)/jupyter nbconvert --to notebook --execute --inplace \
	    --ExecutePreprocessor.record_timing=False build/notebooks/*.ipynb
	cp build/notebooks/*.ipynb docs/notebooks

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Chromium and axe-core for the tests of pages, where they are missing and can be installed.
browser:
	@sh tests/support/browser_setup.sh

# Types of requests and replies, and the list of recruiters, from what the server declares. They are
# in git, and current where nothing was changed: without the environment they are taken as they are.
$(WIRE): $(EXPERIMENT)/src/eyechart_experiment/server/wire.py $(wildcard $(EXPERIMENT)/src/eyechart_experiment/recruiters/*.py)
	@test ! -x $(BIN)/python || $(BIN)/python $(EXPERIMENT)/tools/write_wire.py
	@touch $@

$(PAGES): $(PAGE_SOURCES) $(WIRE)
	@sh $(EXPERIMENT)/frontend/build.sh

frontend: $(PAGES)

# How long images are seen and how soon a server responds is measured with nothing beside it.
ALONE := $(EXPERIMENT)/tests/test_timing.py $(EXPERIMENT)/tests/test_load.py $(EXPERIMENT)/tests/test_deployed.py \
    $(EXPERIMENT)/tests/test_deployed_pages.py
BESIDE := $(addprefix --ignore=,$(ALONE))

# Tests wait for browsers and servers now and then, at first in particular; lint and docs, one after
# the other, make use of that.
test: $(STAMP) browser frontend
	+$(MAKE) -j2 beside lint docs
	$(PYTEST) -n 0 $(ALONE)

beside: $(STAMP)
	$(PYTEST) $(BESIDE)

# The tests of each distribution by itself
test-eyechart: $(STAMP) browser
	$(PYTEST) tests

test-experiment: $(STAMP) browser frontend
	$(PYTEST) $(EXPERIMENT)/tests $(BESIDE)
	$(PYTEST) -n 0 $(ALONE)

# RIVAL=FOLDER: the folder of an imagecorruptions to measure against (make bench)
validate: $(STAMP) browser frontend
	$(PYTEST) -m "slow or not slow" $(BESIDE)
	$(PYTEST) -n 0 -m "slow or not slow" $(ALONE)
	PYTHON=$(PYTHON) sh tests/support/adapters_check.sh
	$(BIN)/python -W ignore -m benchmarks.statistics
	$(MAKE) bench

$(COVERAGE_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --no-build-isolation -c constraints.txt -e ".[coverage]"
	touch $@

# Tests that need their usual speed fail while they are measured, which is no reason to stop.
coverage: $(COVERAGE_STAMP) browser frontend
	rm -rf build/coverage
	mkdir -p build/coverage
	-OMP_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest -n $(WORKERS) --timeout 900 $(BESIDE)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet --directory build/coverage/html
	$(BIN)/coverage json --quiet -o build/coverage/coverage.json
	@$(BIN)/python tools/coverage_table.py build/coverage/coverage.json

mutation: $(COVERAGE_STAMP)
	$(BIN)/python tools/mutation.py --workers $(WORKERS)

# Every step of the work, timed next to named rivals in the same run
bench: $(STAMP)
	$(BIN)/python -m benchmarks corruptions $(if $(RIVAL),--rival $(RIVAL))
	$(BIN)/python -m benchmarks transforms $(if $(RIVAL),--rival $(RIVAL))
	$(BIN)/python -m benchmarks vif
	$(BIN)/python -m benchmarks curves
	$(BIN)/python -m benchmarks scoring
	$(BIN)/python -m benchmarks loop --n 64 --max-images 32

# 80 images at every level of ImageNet-C, 400 samples per corruption of VCR; 300 to compare with humans
leaderboard: $(STAMP)
	@test -n "$(IMAGES)" || { echo "Give the images: make leaderboard IMAGES=list.csv"; exit 2; }
	$(BIN)/eyechart evaluate $(ASK) --humans none --max-images 80 --baseline $(BASELINE) \
	    --suite imagenet-c --out $(BOARD)/imagenet-c
	$(BIN)/eyechart evaluate $(ASK) --humans none --max-images 80 --baseline $(BASELINE) \
	    --suite imagenet-c-extra --corruption gaussian_blur --out $(BOARD)/imagenet-c-extra
	$(BIN)/eyechart evaluate $(ASK) --humans none --max-images 80 --n 400 --out $(BOARD)/vcr
	$(BIN)/eyechart evaluate $(ASK) --labels entry16 --n 300 --out $(BOARD)/humans
	$(BIN)/eyechart compare $(BOARD)/imagenet-c $(BOARD)/imagenet-c-extra $(BOARD)/vcr --out $(BOARD)
	$(BIN)/eyechart compare $(BOARD)/humans --by hmri_a

# Only where a number is meant to change, in a commit of its own that names each number and why
record-references: $(STAMP)
	rm -rf build/references
	OMP_NUM_THREADS=1 $(BIN)/python tests/support/reference_runs.py demo build/references --record

# What users see: commands, public names, files and pages. The diff shows what a change adds and removes
record-inventory: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/support/inventory.py --write

clean:
	rm -rf build site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
