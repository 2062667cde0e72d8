# Each target first installs what it needs into .venv. Another Python: make clean, then make lab PYTHON=python3.13
# Without make (Windows): the README has the two commands.

PYTHON ?=
CANDIDATES = python3 python3.14 python3.13 python3.12 python3.11 python
IN_VENV = .venv/bin/python
INSTALL = $(IN_VENV) -m uv pip install --quiet --python $(IN_VENV) -c constraints.txt -e

# loadfile: the cells of a notebook need one kernel. Without reordering, large files are not left to the end.
PARALLEL = -n auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder
NBVAL = --nbval --nbval-cell-timeout=60 --nbval-current-env
EVERYTHING = $(PARALLEL) $(NBVAL) tests notebooks

.PHONY: help lab quick test run bench hazards html notebooks lint format clean

help:
	@echo "make lab        open your own copies of the lessons in JupyterLab"
	@echo "make quick      run the fast tests of the contracts and cases, and two lessons"
	@echo "make test       run every test and compare every notebook's stored output"
	@echo "                T=... selects a file, a folder, file::test, or a notebook"
	@echo "make run        run every scenario and print the results"
	@echo "make bench      run the benchmarks"
	@echo "make hazards    run every interleaving, power cut, disk fault and kill (about ten minutes)"
	@echo "make html       build the lessons as pages in build/site, with indexes and a handout"
	@echo "make notebooks  run the notebooks and store their outputs"
	@echo "make lint       check the style, and the types of the small part"
	@echo "make format     fix the style"
	@echo "make clean      remove .venv, build and caches"

.venv/bin/python:
	@for python in "$(PYTHON)" $(if $(PYTHON),,$(CANDIDATES)); do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    exec "$$python" -m venv --clear .venv; \
	  fi; \
	done; \
	echo "No Python 3.11 or newer was found. Install one (python.org, apt, brew or conda)," \
	  "or say where it is: make lab PYTHON=/path/to/python3" >&2; \
	exit 1

# uv installs the same packages as pip, about ten times as fast. A finished install leaves a mark.
.venv/uv: .venv/bin/python
	@$(IN_VENV) -m pip install -qq --no-input --disable-pip-version-check -c constraints.txt uv
	@touch $@

.venv/lab: .venv/uv pyproject.toml constraints.txt
	@echo "Installing the lab's packages into .venv ..."
	@$(INSTALL) ".[lab]"
	@touch $@

.venv/test: .venv/uv pyproject.toml constraints.txt
	@echo "Installing the packages of the lab and its tests into .venv ..."
	@$(INSTALL) ".[lab,test]"
	@touch $@ .venv/lab

lab: .venv/lab
	@$(IN_VENV) tools/lab.py

test: .venv/test
	@$(IN_VENV) -m pytest $(if $(T),$(if $(filter %.ipynb,$(T)),$(NBVAL),-p no:nbval) $(T),$(EVERYTHING))

quick: .venv/test
	@$(IN_VENV) -m pytest -q $(PARALLEL) -p no:nbval -m "not slow" tests/test_*.py tests/contracts tests/experiment
	@$(IN_VENV) -m pytest -q $(NBVAL) notebooks/00_start_here.ipynb notebooks/01_one_transaction.ipynb

run: .venv/lab
	@$(IN_VENV) -m receiptlab run

bench: .venv/test
	@$(IN_VENV) -m tools.bench

hazards: .venv/test
	@$(IN_VENV) -m tools.hazards

html: .venv/test
	@$(IN_VENV) -m tools.site

notebooks: .venv/test
	@$(IN_VENV) tools/notebooks.py execute
	@$(IN_VENV) -m tools.exercises

lint: .venv/test
	@$(IN_VENV) -m ruff check
	@$(IN_VENV) -m ruff format --check
	@$(IN_VENV) -m mypy

format: .venv/test
	@$(IN_VENV) -m ruff check --fix
	@$(IN_VENV) -m ruff format

clean:
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find receiptlab tools tests notebooks -name __pycache__ -prune -exec rm -rf {} +
	find notebooks -name .ipynb_checkpoints -prune -exec rm -rf {} +
