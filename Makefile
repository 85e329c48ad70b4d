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
	@echo "make demo      galleries of two suites, and a map of what frost hides"
	@echo "make test      lint, tests, docs"
	@echo "make validate  the long tests, the timing of every corruption and of visual change"
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
	@$(BIN)/eyechart corrupt $< --corruption vcr/frost --severity 2.5 --out $(DEMO)/frost >/dev/null
	@$(BIN)/eyechart visual-change $< $(DEMO)/frost/astronaut.png --map $(DEMO)/visual-change.png
	@echo "Open these:"
	@for file in vcr.html vcr.png imagenet-c.html imagenet-c.png visual-change.png; do \
	    echo "  $(CURDIR)/$(DEMO)/$$file"; \
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
	$(BIN)/eyechart bench vif

clean:
	rm -rf build site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
