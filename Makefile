# Each target sets up .venv first. Another Python: make test PYTHON=python3.13
# Without make (Windows): python tools/setup_venv.py, then .venv\Scripts\python and the words below.

PYTHON ?=
CANDIDATES = python3 python3.14 python3.13 python3.12 python3.11 python
IN_VENV = .venv/bin/python

.PHONY: help setup lab test run bench hazards html workshop notebooks lint format clean

help:
	@echo "make lab        open the lessons in JupyterLab"
	@echo "make test       run the tests and every notebook, strictly"
	@echo "make run        run every scenario and print what came out"
	@echo "make bench      measure"
	@echo "make hazards    every order, power cut, disk fault and kill, at full size (about ten minutes)"
	@echo "make html       the lessons as pages in build/site, with indexes and a handout"
	@echo "make workshop   the lessons without their answers, in workshop/"
	@echo "make notebooks  run the notebooks and store their outputs"
	@echo "make lint       look for mistakes in style"
	@echo "make format     repair the style"
	@echo "make clean      remove .venv, build and caches"

setup:
	@if [ -n "$(PYTHON)" ]; then exec "$(PYTHON)" tools/setup_venv.py; fi; \
	for python in $(CANDIDATES); do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    exec "$$python" tools/setup_venv.py; \
	  fi; \
	done; \
	echo "No Python 3.11 or newer was found. Install one (python.org, apt, brew or conda)," \
	  "or say where it is: make test PYTHON=/path/to/python3" >&2; \
	exit 1

lab: setup
	@$(IN_VENV) tools/lab.py

test: setup
	@$(IN_VENV) -m pytest -n auto --maxprocesses=4

run: setup
	@$(IN_VENV) -m receiptlab run

bench: setup
	@$(IN_VENV) -m tools.bench

hazards: setup
	@$(IN_VENV) -m tools.hazards

html: setup
	@$(IN_VENV) -m tools.site

workshop: setup
	@$(IN_VENV) -m tools.workshop

notebooks: setup
	@$(IN_VENV) tools/notebooks.py execute
	@$(IN_VENV) -m tools.exercises

lint: setup
	@$(IN_VENV) -m ruff check
	@$(IN_VENV) -m ruff format --check

format: setup
	@$(IN_VENV) -m ruff check --fix
	@$(IN_VENV) -m ruff format

clean:
	rm -rf .venv .venv.old .venv.lock build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find receiptlab tools tests notebooks -name __pycache__ -prune -exec rm -rf {} +
	find notebooks -name .ipynb_checkpoints -prune -exec rm -rf {} +
