# `make demo` shows what the package does; `make test` is what has to pass before a change goes in.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := build/demo

# Two test processes share the cores; more threads in each would only be in each other's way.
WORKERS ?= 2
export OMP_NUM_THREADS ?= 1

.PHONY: help install demo test validate lint format docs clean
.DELETE_ON_ERROR:

help:
	@echo "make demo      a gallery of every corruption of two suites, as pictures and as pages"
	@echo "make test      lint, tests, docs"
	@echo "make validate  the long tests and the timing of every corruption"
	@echo "make lint      ruff, mypy, import layers"
	@echo "make format    let ruff rewrite the files"
	@echo "make docs      build the documentation into site/"

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

install: $(STAMP)

$(DEMO)/astronaut.png: $(STAMP)
	mkdir -p $(DEMO)
	$(BIN)/python -c "from PIL import Image; from skimage.data import astronaut; Image.fromarray(astronaut()).save('$@')"

demo: $(DEMO)/astronaut.png
	@for suite in vcr imagenet-c; do \
	    $(BIN)/eyechart gallery $< --suite $$suite \
	        --out $(DEMO)/$$suite.png --out $(DEMO)/$$suite.html >/dev/null || exit; \
	done
	@echo "Open these:"
	@for file in $(DEMO)/vcr.html $(DEMO)/vcr.png $(DEMO)/imagenet-c.html $(DEMO)/imagenet-c.png; do \
	    echo "  $(CURDIR)/$$file"; \
	done

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

test: lint
	$(BIN)/pytest -n $(WORKERS)
	$(MAKE) docs

# RIVAL=FOLDER: the folder of an imagecorruptions to measure against
validate: $(STAMP)
	$(BIN)/pytest -n $(WORKERS) -m "slow or not slow"
	$(BIN)/eyechart bench corruptions $(if $(RIVAL),--rival $(RIVAL))

clean:
	rm -rf build site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
