#!/usr/bin/env bash
# Installs Chromium for the tests of the operator's page, if it is missing, and what drives it, under target/browser, in fixed
# versions. If they are there already, it does nothing.
set -euo pipefail
[ -z "${CARGO_TARGET_DIR:-}" ] || CARGO_TARGET_DIR=$(realpath -m "$CARGO_TARGET_DIR")
cd "$(dirname "$0")"
target=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/browser

if ! command -v chromium >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo 'installing chromium' >&2
        apt-get -o Acquire::Retries=5 update -qq
        # The fonts are for the pictures of the book.
        DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -y -qq --no-install-recommends chromium fonts-inter fonts-jetbrains-mono >/dev/null
    else
        echo 'chromium is needed for the tests of the page: install it with your package manager (Debian: apt-get install chromium)' >&2
        exit 1
    fi
fi

if ! cmp -s package-lock.json "$target/.made-from"; then
    echo "installing tests/browser/package.json" >&2
    rm -rf "$target"
    mkdir -p "$target"
    cp package.json package-lock.json "$target/"
    (cd "$target" && npm ci --silent --no-audit --no-fund)
    cp package-lock.json "$target/.made-from"
fi
