#!/usr/bin/env bash
# Installs clients, the libraries of agents and the providers' own packages under target/sdk, in fixed versions. If they are
# there already, it does nothing.
set -euo pipefail
[ -z "${CARGO_TARGET_DIR:-}" ] || CARGO_TARGET_DIR=$(realpath -m "$CARGO_TARGET_DIR")
cd "$(dirname "$0")"
target=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/sdk
mkdir -p "$target"

venv() {
    python3 -m venv "$1" && return
    rm -rf "$1"
    # In Debian, this part of Python is a separate package.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get -o Acquire::Retries=5 update -qq && apt-get -o Acquire::Retries=5 install -y -qq python3-venv && python3 -m venv "$1"
    else
        echo "Python cannot make a virtual environment: install its venv module (Debian, Ubuntu: python3-venv)" >&2
        return 1
    fi
}

# The stamp of a folder holds the versions that it was made from. If they change, the folder is made again.
current() { cmp -s "$1" "$2/.made-from"; }

for pins in python/requirements-*.txt; do
    version=${pins#python/requirements-}
    venv=$target/python-${version%.txt}
    current "$pins" "$venv" && continue
    echo "installing tests/sdk/$pins" >&2
    rm -rf "$venv"
    venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$pins"
    cp "$pins" "$venv/.made-from"
done

node=$target/node
if ! current node/package-lock.json "$node"; then
    echo "installing tests/sdk/node/package.json" >&2
    rm -rf "$node"
    mkdir -p "$node"
    cp node/package.json node/package-lock.json "$node/"
    # The client requires a newer Node than some systems have. The parts that the tests use run on Node 20.
    (cd "$node" && npm ci --silent --no-audit --no-fund)
    cp node/package-lock.json "$node/.made-from"
fi
