#!/usr/bin/env bash
# Builds the book into target/book. Installs mdBook under target/, which takes some minutes, once. A warning counts as an error.
set -euo pipefail
cd "$(dirname "$0")"
target=$(realpath -m "${CARGO_TARGET_DIR:-../target}")
tools=$target/tools
version=0.5.4
if ! "$tools/bin/mdbook" --version 2>/dev/null | grep -qF " v$version"; then
    echo "installing mdbook $version under $tools"
    CARGO_TARGET_DIR=$target/book-tool cargo install --quiet --locked --root "$tools" --version "$version" \
        --no-default-features --features search mdbook
    rm -rf "$target/book-tool"
fi
said=$("$tools/bin/mdbook" build --dest-dir "$target/book" 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }
printf '%s\n' "$said"
if grep -qE '(^|[^A-Za-z])(WARN|ERROR)([^A-Za-z]|$)' <<<"$said"; then
    echo 'the book has warnings' >&2
    exit 1
fi
# Everything that a page loads must be in the book. Links to other sites are allowed.
if grep -rnoE --include='*.html' --include='*.css' "(src=|@import |url\()[\"']?(https?:)?//[^\"')]*" "$target/book"; then
    echo 'the book loads what is elsewhere' >&2
    exit 1
fi
echo "the book is in $target/book"
