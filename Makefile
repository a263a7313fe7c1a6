# On a new machine, `make run` and `make test` are enough: with cargo, a C and a C++ compiler, python3 and npm they install the
# rest, under target/. If Python cannot do that, they use apt-get; also for redis-server, prometheus, tinyproxy and chromium, which
# the tests need.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run release package test test-all test-packages test-release test-real soak fuzz bench bench-instructions check workflows house licences doc book pictures cmake valgrind

# An absolute path, since scripts run in other folders.
override CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
export CARGO_TARGET_DIR
TOOLS := $(CARGO_TARGET_DIR)/tools
export PATH := $(PATH):$(TOOLS)/bin

# Tests mostly wait, so more tests than cores run at the same time.
export RUST_TEST_THREADS ?= 8
# The header `x-test-panic` and the commands to the test clock work in test builds only.
FEATURES := --features test-clock
# Runs tests, each of which prints its seconds.
TIMED = cargo test --config "target.'cfg(all())'.runner=['tests/timed.sh']" --locked $(FEATURES)

help:
	@echo 'make run        build, and serve conf/ with its demo account on 127.0.0.1:8080; PORT=8081 for another port'
	@echo 'make test       run the tests that a change needs, with the official clients and the libraries of agents'
	@echo 'make test-all   run every test that there is, in an hour and more (as root)'
	@echo 'make test-release  show that the program of make release has no commands of tests'
	@echo 'make test-real  run tests against llama.cpp, LiteLLM and Phoenix (sets them up once, in some minutes)'
	@echo 'make soak       run ten minutes of every fault at random; HOURS=1 for an hour'
	@echo 'make fuzz       run each fuzz target for a minute'
	@echo 'make release    build the program to deploy: target/release/portcullis'
	@echo 'make package    build the program for glibc 2.28 and newer, and all packages of it: target/package'
	@echo 'make test-packages  build, install and run each package (as root)'
	@echo 'make check      check formatting and lints, also of the workflows'
	@echo 'make house      print how functions are named, what reads from the middle, and the bytes of code'
	@echo 'make licences   check the licences and sources of all crates'
	@echo 'make doc        build the documentation of the libraries'
	@echo 'make book       build the manual, into target/book (installs mdBook once, in some minutes)'
	@echo 'make pictures   take the pictures of the manual anew, in some minutes'
	@echo 'make bench      run microbenchmarks, a simulation of outages, and the load benchmark with gateways of others beside it'
	@echo 'make bench-instructions  count instructions, cache misses and allocations of requests and chunks; fails if one has grown'

# Tests that also run inside examples/embed.rs: these modules, without the tests of what its own server decides.
EMBEDDED := framing:: callers:: every_door:: $(addprefix --skip ,heads_that_are_too_large c02_ambiguous_heads \
  e05_idle_connections_are_capped e08_http2_floods heads_have_a_deadline a_connection_without_a_byte_closes)

PORT = 8080
# The debug build, as one types it in this folder.
BUILT := $(patsubst $(CURDIR)/%,%,$(CARGO_TARGET_DIR))/debug/portcullis

# A debug build, which is quick to build. The release build is quick to run.
run: cmake
	@echo 'Building; the first time this takes some minutes.'
	cargo build --locked
	@# Ctrl-C reaches the server, too: it is waited for, and gets no second signal, which would cut what runs.
	@$(CARGO_TARGET_DIR)/debug/portcullis serve --conf conf --listen 127.0.0.1:$(PORT) & \
	server=$$!; trap 'kill $$server 2>/dev/null; wait $$server' EXIT; \
	stop() { trap - EXIT; trap : INT; \
	  until wait $$server; do code=$$?; kill -0 $$server 2>/dev/null && continue; [ $$code = 130 ] || exit $$code; break; done; exit 0; }; \
	trap stop INT HUP; \
	until (exec 3<>/dev/tcp/127.0.0.1/$(PORT)) 2>/dev/null; do kill -0 $$server 2>/dev/null || wait $$server; sleep 0.1; done; \
	sleep 0.3; kill -0 $$server 2>/dev/null || wait $$server; \
	printf '%s\n' '' 'Portcullis serves the demo; its page is at http://127.0.0.1:9090/. In another terminal:' \
	  '  echo sk-demo-portcullis-published | $(BUILT) try http://127.0.0.1:$(PORT) --key -' \
	  '  ANTHROPIC_BASE_URL=http://127.0.0.1:$(PORT) ANTHROPIC_AUTH_TOKEN=sk-demo-portcullis-published claude -p hello' \
	  'With your own provider: $(BUILT) init --conf mine. All else: docs/src/first-hour.md.' 'Press Ctrl-C to stop it.' ''; \
	wait $$server

release: cmake
	cargo build --locked --release

# PROGRAM=PATH packs a program that is built already.
package: cmake
	rm -rf $(CARGO_TARGET_DIR)/package
	packaging/release.sh $(CARGO_TARGET_DIR)/package

test: cmake
	tests/sdk/setup.sh
	tests/redis/setup.sh
	tests/prometheus/setup.sh
	tests/tinyproxy/setup.sh
	tests/proxies/setup.sh
	tests/browser/setup.sh
	@# This also builds `examples/embed.rs`, which some tests run. With `--examples` it would be built as a test.
	cargo test --locked --workspace $(FEATURES) --no-run
	@# A filter that matches no test would pass.
	@for module in framing callers every_door; do test -f tests/integration/$$module.rs; done
	@# Some tests hold thousands of connections. Those that measure a time run alone.
	ulimit -n "$$(ulimit -Hn)"; { \
	  $(TIMED) --workspace --lib --bins --tests; \
	  TEST_EMBEDDED=1 $(TIMED) --test integration -- $(EMBEDDED); \
	  $(TIMED) --test integration -- --ignored --test-threads=1 ::alone_; \
	} | tests/times.py $(CARGO_TARGET_DIR)/times.txt
	cargo test --locked --workspace $(FEATURES) --doc

# Everything: more runs of the command-line clients, 100,000 requests that must add up, a minute of the soak, the packages, real
# servers and the fuzz targets; and the integration tests once more without the test clock, in real time.
test-all: cmake
	TEST_ALL=1 $(MAKE) test
	ulimit -n "$$(ulimit -Hn)"; TEST_ALL=1 cargo test --locked $(FEATURES) --test integration -- --ignored ::all_
	ulimit -n "$$(ulimit -Hn)"; cargo test --locked --features test-panics --test integration
	$(MAKE) test-packages test-real fuzz

# With the build of `make test`: another would have other features of its dependencies, and build all of them anew.
test-packages: cmake
	cargo test --locked $(FEATURES) --test integration --no-run
	tests/packaging/run.sh $(CARGO_TARGET_DIR)/debug/portcullis

# Shows that the program of `make release` has no commands of tests, and that the test would see them.
test-release:
	tests/packaging/commands.py $(CARGO_TARGET_DIR)/release/portcullis $(CARGO_TARGET_DIR)/debug/portcullis

test-real: cmake
	tests/real/setup.sh
	cargo test --locked $(FEATURES) --test integration -- --ignored --nocapture real_

# `make test` runs the same test for 15 seconds. SOAK_RATE and SOAK_SEED change it further.
soak: cmake
	export SOAK_SECONDS=$$(( $(if $(HOURS),$(HOURS) * 3600,600) )) SOAK_RATE=$${SOAK_RATE:-200}; ulimit -n "$$(ulimit -Hn)"; \
	cargo test --locked $(FEATURES) --test integration -- --exact --nocapture soak::l07_a_soak_of_every_fault_leaves_nothing_behind

# Runs each target of fuzz/ for a minute, or for FUZZ_SECONDS. Its tools are installed under target/.
fuzz: cmake
	fuzz/run.sh $${FUZZ_SECONDS:-60}

# Beside the gateway runs what installs here of nginx with Lua and of gateways of others.
bench: cmake
	benches/load/setup.sh
	ulimit -n "$$(ulimit -Hn)"; cargo bench --locked

# Without link-time optimisation, which takes minutes. ACCEPT=1 accepts the counts, which were then reviewed with the change.
bench-instructions: cmake valgrind
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	cargo bench --locked --bench instructions -- $(if $(ACCEPT),--accept,--gate)

check: cmake workflows
	cargo fmt --all --check
	cargo clippy --locked --workspace $(FEATURES) --all-targets -- -D warnings

# Its linter is installed under target/.
workflows:
	tests/workflows/lint.sh

house:
	tests/house.py

# It has a test of its own, which must see a crate with another licence.
licences:
	tests/licences/test_check.py
	tests/licences/check.py

doc: cmake
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps

# Its tool is installed under target/.
book:
	docs/build.sh

# Takes them of the page of a real gateway, during an outage that a test makes.
pictures: cmake
	tests/browser/setup.sh
	UPDATE_PICTURES=1 cargo test --locked $(FEATURES) --test integration -- --exact page::pictures::the_pictures_of_the_book_are_there

# Counts instructions.
valgrind:
	@command -v valgrind >/dev/null || { apt-get -o Acquire::Retries=5 update -qq && apt-get -o Acquire::Retries=5 install -y -qq valgrind; } \
	  || { echo 'valgrind is needed to count instructions: install it with your package manager' >&2; exit 1; }

# zlib-ng, with which Pingora compresses, is built with cmake.
cmake:
	@command -v cmake >/dev/null || { \
	  echo 'installing cmake under $(TOOLS)'; \
	  { python3 -m venv $(TOOLS) && $(TOOLS)/bin/pip install --quiet --disable-pip-version-check cmake==3.31.6; } \
	  || { apt-get -o Acquire::Retries=5 update -qq && apt-get -o Acquire::Retries=5 install -y -qq cmake; } \
	  || { echo 'cmake is needed to build: install it with your package manager' >&2; exit 1; }; }
