# One command per job. Each begins with the set-up, which has nothing to do once it is done.
#
#   make setup TORCH_INDEX_URL=URL   takes torch from that index: the small CPU build where there is no NVIDIA GPU
#   make setup PYTHON=python3.12     with another Python than python3
#   make bench-grading BENCH="--tier process --json FILE"   with options; --help names them

PYTHON ?= python3
PY := .venv/bin/python
PIP := $(PY) -m pip install --disable-pip-version-check --no-input -c constraints.txt

.PHONY: setup lab test lint gpu-check prove-speed bench-grading

setup: .venv/.installed
	@$(PY) -m autograder.cli setup

lab: setup
	@$(PY) -m autograder.cli lab

# Tests that measure have the cores to themselves; the others share them, file by file.
test: .venv/.installed-for-tests setup
	@status=0; \
	$(PY) -m pytest -m "not alone" -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder || status=1; \
	$(PY) -m pytest -m alone || status=1; \
	exit $$status

lint: .venv/.installed-for-tests
	@$(PY) -m autograder.cli verify --quick

gpu-check: setup
	@$(PY) -m autograder.course.gpu_check

prove-speed: setup
	@$(PY) -m autograder.course.prove_speed

bench-grading: setup
	@$(PY) -m autograder.classroom.bench_grading $(BENCH)

.venv/.installed: pyproject.toml constraints.txt | .venv/bin/pip
	@if [ -n "$$TORCH_INDEX_URL" ]; then $(PIP) --no-deps --index-url "$$TORCH_INDEX_URL" torch; fi
	@$(PIP) -e .
	@$(PY) -c "import torch; cuda = torch.version.cuda; print('torch', torch.__version__, f'(CUDA {cuda})' if cuda else '(the CPU build)')"
	@touch $@

.venv/.installed-for-tests: .venv/.installed
	@$(PIP) -e '.[test]'
	@touch $@

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
		{ echo "Python 3.11, 3.12 or 3.13 is needed: name one, as in 'make setup PYTHON=python3.12'." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "This Python cannot make virtual environments: install what it lacks (Debian: apt install python3-venv)." >&2; exit 1; }
	@$(PYTHON) -m venv .venv
