#!/usr/bin/env bash
# Installs the identity libraries of AWS, Azure and Google under target/identities, in fixed versions. If they are there
# already, it does nothing.
set -euo pipefail
[ -z "${CARGO_TARGET_DIR:-}" ] || CARGO_TARGET_DIR=$(realpath -m "$CARGO_TARGET_DIR")
cd "$(dirname "$0")"
target=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")
venv=$target/identities

# The stamp holds the versions that the folder was made from. If they change, the folder is made again.
cmp -s requirements.txt "$venv/.made-from" && exit 0

echo "installing tests/identities/requirements.txt" >&2
mkdir -p "$target"
rm -rf "$venv"
if ! python3 -m venv "$venv"; then
    rm -rf "$venv"
    # In Debian, this part of Python is a separate package.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get -o Acquire::Retries=5 update -qq && apt-get -o Acquire::Retries=5 install -y -qq python3-venv && python3 -m venv "$venv"
    else
        echo "Python cannot make a virtual environment: install its venv module (Debian, Ubuntu: python3-venv)" >&2
        exit 1
    fi
fi
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r requirements.txt
cp requirements.txt "$venv/.made-from"
