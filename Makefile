# Two commands: `make report` measures this machine and writes a report, `make test` runs all tests.

ENV ?= this-machine
PYTHON ?= python3

# One folder, one profile, one set of features for everything below. polars alone takes 23 minutes of CPU time to build,
# and a build without `torch` would build it once more: tch asks for features of crates that both share.
export CARGO_TARGET_DIR := $(CURDIR)/target
BUILD := --release --features torch
SHICE := target/release/shice

.PHONY: help report test site build libtorch tools clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

report: build ## record a quick suite on this machine (ENV=name) and write its report to target/report
	@rm -rf target/traces target/report
	@devices=$$(target/release/shice-workloads devices) && \
	for device in $$(printf '%s' "$$devices" | tr -d '[]"' | tr ',' '\n' | head -n 2); do \
		$(SHICE) record --env "$(ENV)" --out target/traces --repeats 3 --quick --device "$$device" idle small-cnn || exit; \
	done
	@$(SHICE) render target/traces --out target/report
	@echo "The report is ready. Open file://$(CURDIR)/target/report/index.html"

test: libtorch ## run all tests
	cargo test $(BUILD)

site: build ## render the committed traces into site/
	$(SHICE) render traces --out site

build: libtorch ## build both programs
	cargo build $(BUILD) --bins

libtorch: tools ## fetch libtorch into target/libtorch, once
	@$(PYTHON) tools/libtorch/fetch.py

# Before anything long: what is missing, all of it, and how to get it.
tools:
	@missing=; need() { missing=1; echo "missing: $$1; install it with: $$2" >&2; }; \
	command -v cargo >/dev/null || need "Rust (cargo)" "curl -sSf https://sh.rustup.rs | sh"; \
	command -v c++ >/dev/null || need "a C++ compiler (c++)" "sudo apt-get install g++"; \
	if ! command -v $(PYTHON) >/dev/null; then need "Python 3 ($(PYTHON))" "sudo apt-get install python3 python3-pip"; \
	elif ! $(PYTHON) -m pip --version >/dev/null 2>&1; then need "pip for $(PYTHON)" "sudo apt-get install python3-pip"; fi; \
	test -z "$$missing"

clean: ## delete target/: builds, libtorch, and what `make report` recorded
	rm -rf target
