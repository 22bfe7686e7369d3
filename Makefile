# Two commands: `make report` measures this machine and writes a report, `make test` runs all tests.

NAME ?= this-machine
PYTHON ?= python3

# One folder, one profile, one set of features for everything below. polars alone takes 23 minutes of CPU time to build,
# and a build without `torch` would build it once more: tch asks for features of crates that both share.
export CARGO_TARGET_DIR := $(CURDIR)/target
BUILD := --release --features torch
SHICE := target/release/shice

.PHONY: help report test bench site build libtorch tools clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

report: build ## record a quick suite on this machine (NAME=environment), write its report to target/report
	@rm -rf target/traces.old && if test -d target/traces; then mv target/traces target/traces.old; fi
	@# On the CPU, and on the first GPU where there is one. A run that failed is a result: it is rendered, then told.
	@recorded=0 && { $(SHICE) record --env "$(NAME)" --out target/traces --suite quick || recorded=$$?; } && \
	rm -rf target/report && $(SHICE) render target/traces --out target/report && \
	echo "The report is ready. Open file://$(CURDIR)/target/report/index.html" && exit $$recorded

test: libtorch target/python ## run all tests
	PYTHON=$(PYTHON) cargo test $(BUILD) -- --include-ignored

# The readers that the README shows, for the test that they read the traces.
target/python: tests/readers.txt | tools
	@rm -rf target/python.new && PIP_ROOT_USER_ACTION=ignore $(PYTHON) -m pip install --quiet --disable-pip-version-check \
		--only-binary=:all: --target target/python.new --requirement tests/readers.txt
	@rm -rf target/python && mv target/python.new target/python && touch target/python

site: build ## render the committed traces into site/
	$(SHICE) render traces --out site

build: libtorch ## build both programs
	cargo build $(BUILD) --bins

libtorch: tools ## fetch libtorch into target/libtorch, once
	@$(PYTHON) tools/libtorch/fetch.py

tools:
	@tools/prerequisites $(PYTHON)

bench: build target/python ## measure what recording costs, beside its floor (a quiet machine, please)
	PYTHONPATH=target/python $(PYTHON) benches/recorder/run.py

clean: ## delete target/: builds, libtorch, and what `make report` recorded
	rm -rf target
