#!/usr/bin/env bash
# Builds llama.cpp's server and a tiny model under target/real, and sets up LiteLLM's proxy and Phoenix, a receiver of traces, beside
# it: about eight minutes, once.
# Needs cmake and a C++ compiler.
set -euo pipefail
[ -z "${CARGO_TARGET_DIR:-}" ] || CARGO_TARGET_DIR=$(realpath -m "$CARGO_TARGET_DIR")
cd "$(dirname "$0")"
target=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/real

venv() {
    python3 -m venv "$1" && return
    rm -rf "$1"
    # Debian has this part of Python in a package of its own.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get -o Acquire::Retries=5 update -qq && apt-get -o Acquire::Retries=5 install -y -qq python3-venv && python3 -m venv "$1"
    else
        echo "Python cannot make a virtual environment: install its venv module (Debian, Ubuntu: python3-venv)" >&2
        return 1
    fi
}

# The stamp is what the folder was made from, so that a changed pin makes it anew.
inputs=$(cat requirements.txt litellm.txt phoenix.txt tiny_gguf.py setup.sh)
[ "$(cat "$target/.made-from" 2>/dev/null)" = "$inputs" ] && exit 0

echo "building llama.cpp's server; this takes some minutes" >&2
rm -rf "$target"
mkdir -p "$target"
venv "$target/venv"
# For the machine it is built on no instruction set is assumed, so that the folder can be cached.
CMAKE_ARGS="-DGGML_NATIVE=OFF" nice -n 19 \
    "$target/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r requirements.txt
venv "$target/litellm"
nice -n 19 "$target/litellm/bin/pip" install --quiet --disable-pip-version-check --no-deps -r litellm.txt
venv "$target/phoenix"
nice -n 19 "$target/phoenix/bin/pip" install --quiet --disable-pip-version-check --no-deps -r phoenix.txt
"$target/venv/bin/python" tiny_gguf.py "$target/tiny.gguf"
printf '%s\n' "$inputs" > "$target/.made-from"
