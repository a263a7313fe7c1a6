#!/usr/bin/env bash
# Makes the profile by which the compiler optimises the program of the packages: how often each function ran while a program that
# counts served the load benchmark, and a minute of the soak, whose callers and upstreams use TLS, HTTP/2, all doors and all dialects.
# Takes about half an hour on two cores. Commit what it writes beside itself. The names of all functions change with the compiler, the
# version of Portcullis and those of the crates that it uses: then the profile must be made anew. After other changes, functions with
# other names or branches are optimised as usual.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(uname -m)" = x86_64 ] || { echo 'the profile is for x86-64' >&2; exit 1; }
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# `make cmake` may install cmake there.
export CARGO_TARGET_DIR PATH="$PATH:$CARGO_TARGET_DIR/tools/bin"
profdata=$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-gnu/bin/llvm-profdata
[ -x "$profdata" ] || rustup component add llvm-tools
counts=$CARGO_TARGET_DIR/counts
rm -rf "$counts"
mkdir -p "$counts"
SERVED_PROGRAM=$CARGO_TARGET_DIR/instrumented
make --silent cmake
# With the target written as in portable.sh: else names of functions have other hashes.
target=x86_64-unknown-linux-gnu
RUSTFLAGS=-Cprofile-generate=$counts cargo build --locked --release --package portcullis-cli --bin portcullis --target "$target"
cp "$CARGO_TARGET_DIR/$target/release/portcullis" "$SERVED_PROGRAM"
export SERVED_PROGRAM LLVM_PROFILE_FILE=$counts/%p-%m.profraw
ulimit -n "$(ulimit -Hn)"
# Without link-time optimisation, which takes minutes: only the program that counts is asked.
CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    cargo bench --locked --bench load -- --quick --rounds 1 --seconds 2
SOAK_SECONDS=60 SOAK_RATE=100 cargo test --locked --features test-clock --test integration -- --exact --nocapture \
    soak::l07_a_soak_of_every_fault_leaves_nothing_behind
"$profdata" merge --sparse --output "$counts/portcullis.profdata" "$counts"/*.profraw
cd packaging/profile
python3 -c 'import lzma, sys; lzma.open(sys.argv[2], "w", preset=9).write(open(sys.argv[1], "rb").read())' \
    "$counts/portcullis.profdata" portcullis.profdata.xz
rustc --version >compiler
grep --max-count=1 '^version = ' ../../Cargo.toml >version
# The names of the functions of ours that ran most, for a look at whether the compiler has found them.
"$profdata" show --topn=1000 "$counts/portcullis.profdata" | grep --extended-regexp --only-matching '_(ZN|R)[A-Za-z0-9_.$]*' |
    grep --extended-regexp 'portcullis|dialects' | sort --unique >functions
rm -r "$counts" "$SERVED_PROGRAM"
ls -l
