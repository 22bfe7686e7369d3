# Two commands: `make report` measures this machine and writes a report, `make test` runs all tests.

NAME ?= this-machine
PYTHON ?= python3

# One folder, one profile, one set of features for everything below. polars alone takes 23 minutes of CPU time to build,
# and a build without `torch` would build it once more: tch asks for features of crates that both share.
export CARGO_TARGET_DIR := $(CURDIR)/target
BUILD := --release --features torch
SHICE := target/release/shice

# The PyTorch that `make report` trains with: the environment's own where a crate binds it, else the pinned one. Another one
# has a folder, and its workloads are built there, beside a copy of the same recorder.
TORCH ?= $(shell $(PYTHON) tools/torch/derive.py --default 2>/dev/null)
PINNED := $(shell sed -n 's/^torch==\([0-9.]*\).*/\1/p' tools/libtorch/base.txt)
OTHER := $(if $(filter-out $(PINNED),$(TORCH)),target/torch-$(TORCH))
RECORDER := $(if $(OTHER),$(OTHER)/release/shice,$(SHICE))

.PHONY: help report test bench bench-render site build libtorch torch check-torch tools clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

report: build $(if $(OTHER),torch) ## record a quick suite on this machine (NAME=environment), write its report to target/report
	@rm -rf target/traces.old && if test -d target/traces; then mv target/traces target/traces.old; fi
	@# On the CPU, and on the first GPU where there is one. A run that failed is a result: it is rendered, then told.
	@recorded=0 && { $(RECORDER) record --env "$(NAME)" --out target/traces --suite quick || recorded=$$?; } && \
	rm -rf target/report && $(SHICE) render target/traces --out target/report && \
	echo "The report is ready. Open file://$(CURDIR)/target/report/index.html" && exit $$recorded

test: libtorch target/python browser ## run all tests
	PYTHON=$(PYTHON) cargo test $(BUILD) -- --include-ignored

# The readers that the README shows, for the test that they read the traces.
target/python: tests/readers.txt | tools
	@rm -rf target/python.new && PIP_ROOT_USER_ACTION=ignore $(PYTHON) -m pip install --quiet --disable-pip-version-check \
		--only-binary=:all: --target target/python.new --requirement tests/readers.txt
	@rm -rf target/python && mv target/python.new target/python && touch target/python

# A browser and a validator, for the tests that open pages; left out, with a word, where programs for them are missing.
.PHONY: browser
browser:
	@tools/browser/prepare

site: build ## render the committed traces into site/
	$(SHICE) render traces --out site

build: libtorch ## build both programs
	cargo build $(BUILD) --bins

# The pinned one needs nothing besides.
torch: build
ifneq ($(OTHER),)
	@$(PYTHON) tools/torch/derive.py $(TORCH) && $(PYTHON) tools/libtorch/fetch.py --torch $(TORCH)
	@# Most crates are those of the build above: polars alone would take minutes more.
	@test -d $(OTHER)/release || { mkdir -p $(OTHER)/release && \
		cp -al $(addprefix target/release/,deps build .fingerprint) $(OTHER)/release/; }
	cd $(OTHER) && CARGO_TARGET_DIR=. cargo build --release
	@cp -f $(SHICE) $(OTHER)/release/shice
endif

check-torch: torch ## build the workloads for another PyTorch (TORCH=2.13.0) and run them
	$(RECORDER) record --env torch-$(TORCH) --out target/torch-$(TORCH)/traces --append --suite quick --repeats 1

libtorch: tools ## fetch libtorch into target/libtorch, once
	@$(PYTHON) tools/libtorch/fetch.py

tools:
	@tools/prerequisites $(PYTHON)

bench: build target/python ## measure what recording costs, beside its floor (a quiet machine, please)
	PYTHONPATH=target/python $(PYTHON) benches/recorder/run.py

bench-render: build ## measure what rendering costs, at ten thousand to tens of millions of rows (minutes)
	CARGO_FLAGS="$(BUILD)" $(PYTHON) benches/render/run.py

clean: ## delete target/: builds, libtorch, and what `make report` recorded
	rm -rf target
