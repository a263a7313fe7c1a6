# `make run` and `make test` are all that a fresh machine needs: with cargo, a C compiler, python3 and npm they set up the rest.
# What they install lies under target/; where Python cannot do that, and for the tests' redis-server, apt-get is asked.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run release test test-real soak fuzz bench check doc book cmake

# Whole, since scripts run in other folders.
override CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
export CARGO_TARGET_DIR
TOOLS := $(CARGO_TARGET_DIR)/tools
export PATH := $(PATH):$(TOOLS)/bin

# Tests mostly wait, so more of them than there are cores run side by side.
export RUST_TEST_THREADS ?= 8
# The header `x-test-panic` works in test builds only.
FEATURES := --features test-panics

help:
	@echo 'make run        build, and serve conf/ with its demo account on 127.0.0.1:8080'
	@echo 'make test       every test, with the official OpenAI clients'
	@echo 'make test-real  against a real llama.cpp server (builds it once, some minutes)'
	@echo 'make soak       ten minutes of every fault at random; HOURS=1 for an hour'
	@echo 'make fuzz       each fuzz target for a minute'
	@echo 'make release    the binary as it should be deployed: target/release/portcullis'
	@echo 'make check      formatting and lints'
	@echo 'make book       the manual, into target/book (installs mdBook once, some minutes)'
	@echo 'make bench      microbenchmarks, a simulation of outages, the load benchmark'

# Quick to build; `make release` is quick to run.
run: cmake
	@echo 'Building; the first time this takes some minutes.'
	cargo build --locked
	@$(CARGO_TARGET_DIR)/debug/portcullis serve --conf conf --listen 127.0.0.1:8080 & \
	server=$$!; trap 'kill $$server 2>/dev/null; wait $$server' EXIT; \
	until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do kill -0 $$server 2>/dev/null || wait $$server; sleep 0.1; done; \
	sleep 0.3; kill -0 $$server 2>/dev/null || wait $$server; \
	printf '%s\n' '' 'Portcullis serves conf/. Paste this into another terminal:' '' \
	  '  curl http://127.0.0.1:8080/v1/chat/completions \' \
	  "    -H 'Authorization: Bearer sk-demo-portcullis-published' -H 'Content-Type: application/json' \\" \
	  "    -d '{\"model\":\"demo\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'" \
	  '' 'Ctrl-C ends it.' ''; \
	wait $$server

release: cmake
	cargo build --locked --release

test: cmake
	tests/sdk/setup.sh
	tests/redis/setup.sh
	@# Some tests hold thousands of connections.
	ulimit -n "$$(ulimit -Hn)"; cargo test --locked --workspace $(FEATURES)

test-real: cmake
	tests/real/setup.sh
	cargo test --locked $(FEATURES) --test integration -- --ignored --nocapture real_

# The same test as the minute's in `make test`. SOAK_RATE and SOAK_SEED change it further.
soak: cmake
	export SOAK_SECONDS=$$(( $(if $(HOURS),$(HOURS) * 3600,600) )) SOAK_RATE=$${SOAK_RATE:-200}; ulimit -n "$$(ulimit -Hn)"; \
	cargo test --locked $(FEATURES) --test integration -- --exact --nocapture soak::l07_a_soak_of_every_fault_leaves_nothing_behind

# Each target of fuzz/ for a minute, or for FUZZ_SECONDS. What it builds with is installed under target/.
fuzz: cmake
	fuzz/run.sh $${FUZZ_SECONDS:-60}

bench: cmake
	cargo bench --locked

check: cmake
	cargo fmt --all --check
	cargo clippy --locked --workspace $(FEATURES) --all-targets -- -D warnings

doc: cmake
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps

# What it builds with is installed under target/.
book:
	docs/build.sh

# zlib-ng, which Pingora compresses with, is built by it.
cmake:
	@command -v cmake >/dev/null || { \
	  echo 'installing cmake under $(TOOLS)'; \
	  { python3 -m venv $(TOOLS) && $(TOOLS)/bin/pip install --quiet --disable-pip-version-check cmake==3.31.6; } \
	  || { apt-get update -qq && apt-get install -y -qq cmake; } \
	  || { echo 'cmake is needed to build: install it with your package manager' >&2; exit 1; }; }
