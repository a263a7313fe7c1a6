#!/usr/bin/env bash
# Runs each fuzz target for so many seconds (60 if nothing is said), or only the named ones: fuzz/run.sh [SECONDS [TARGET…]].
# On the stable compiler, without sanitizers: what is looked for is a panic, a broken assertion, a hang, or memory without end.
# What is found new is kept under target/fuzz-corpus; fuzz/corpus has a few inputs of each kind to begin with.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
tools=$target/tools
version=0.13.2
if ! "$tools/bin/cargo-fuzz" --version 2>/dev/null | grep -qF " $version"; then
    echo "installing cargo-fuzz $version under $tools"
    CARGO_TARGET_DIR=$target/fuzz-tool cargo install --quiet --locked --root "$tools" --version "$version" cargo-fuzz
    rm -rf "$target/fuzz-tool"
fi
export PATH="$tools/bin:$PATH" RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$target/fuzz
if [ $# -eq 0 ]; then
    mapfile -t names < <(cargo fuzz list)
else
    names=("$@")
fi
cargo fuzz build --sanitizer none
for name in "${names[@]}"; do
    found=$target/fuzz-corpus/$name
    mkdir -p "$found"
    echo "=== fuzz $name: $seconds s"
    log=$target/fuzz-corpus/$name.log
    if ! cargo fuzz run --sanitizer none "$name" "$found" "fuzz/corpus/$name" -- \
        -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1024 -print_final_stats=1 >"$log" 2>&1; then
        tail -n 60 "$log"
        exit 1
    fi
    grep -E 'stat::number_of_executed_units|stat::average_exec_per_sec|stat::peak_rss_mb' "$log"
    # Runs that did nothing would find nothing.
    grep -qE 'stat::number_of_executed_units: *[1-9][0-9]{2,}' "$log" || { tail -n 20 "$log"; exit 1; }
done
