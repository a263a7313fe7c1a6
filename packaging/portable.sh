#!/usr/bin/env bash
# Builds the program that the packages carry, and prints its path. `portable.sh tools` only installs what that takes, from PyPI,
# under target/. Zig compiles the C and links: it knows the symbols of each version of glibc, and brings libunwind in place of
# Debian's libgcc. On x86-64 the compiler knows from packaging/profile/ which code runs often, unless PROFILE=none says otherwise.
set -euo pipefail
# The program runs with this version and newer ones: Debian 10, RHEL 8, Ubuntu 18.10.
GLIBC=2.28
wanted='cargo-zigbuild==0.24.1 ziglang==0.17.1'
cd "$(dirname "$0")/.."
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
tools=$CARGO_TARGET_DIR/zig
if [ "$(cat "$tools/installed" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    # Both are programs only.
    "$tools/bin/pip" install --quiet --disable-pip-version-check --no-deps $wanted
    echo "$wanted" >"$tools/installed"
fi
[ "${1:-}" != tools ] || exit 0

export CARGO_TARGET_DIR PATH="$tools/bin:$PATH" ZIG_GLOBAL_CACHE_DIR=$tools/cache CARGO_ZIGBUILD_CACHE_DIR=$tools/wrappers
machine=$(uname -m)
profile=
if [ "$machine" = x86_64 ] && [ "${PROFILE:-}" != none ]; then
    # The compiler ignores the profile of each function whose name it does not find, and the names hold the compiler's version.
    compiler=$(cat packaging/profile/compiler)
    if [ "$(rustc --version)" != "$compiler" ]; then
        echo "packaging/profile/ was made with $compiler, but this is $(rustc --version):" \
            'run packaging/profile/make.sh, or set PROFILE=none to build without it' >&2
        exit 1
    fi
    profile=$CARGO_TARGET_DIR/portcullis.profdata
    python3 -c 'import lzma, sys; sys.stdout.buffer.write(lzma.open(sys.argv[1]).read())' packaging/profile/portcullis.profdata.xz >"$profile.new"
    # Cargo compiles everything anew if the file is newer.
    if cmp --quiet "$profile.new" "$profile"; then rm "$profile.new"; else mv "$profile.new" "$profile"; fi
    # Cargo takes this variable in place of the other.
    unset CARGO_ENCODED_RUSTFLAGS
    export RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-use=$profile"
fi
# On arm64 the machine that builds and the one that runs may have pages of different sizes. The largest have 64 KiB.
[ "$machine" != aarch64 ] || export JEMALLOC_SYS_WITH_LG_PAGE=16
make --silent cmake >&2
# The names of functions must be those of the profile.
[ "$machine" != x86_64 ] || export CARGO=$PWD/packaging/profile/cargo
cargo-zigbuild zigbuild --locked --release --package portcullis-cli --bin portcullis \
    --target "$machine-unknown-linux-gnu.$GLIBC" >&2
program=$CARGO_TARGET_DIR/$machine-unknown-linux-gnu/release/portcullis
# The setting of .cargo/config.toml holds only where cargo starts inside this folder.
grep --quiet --binary-files=text 'oversize_threshold:0' "$program" || { echo "$program was built without .cargo/config.toml" >&2; exit 1; }
if [ -n "$profile" ]; then
    # The libraries that were built last have the names; Zig leaves none in the program.
    deps=$CARGO_TARGET_DIR/$machine-unknown-linux-gnu/release/deps
    libraries=("$(ls -t "$deps"/libdialects-*.rlib | sed -n 1p)" "$(ls -t "$deps"/libportcullis-*.rlib | sed -n 1p)")
    known=$(wc -l <packaging/profile/functions)
    found=$({ grep --no-filename --only-matching --text --fixed-strings --file packaging/profile/functions "${libraries[@]}" || true; } | sort -u | wc -l)
    if [ $((found * 2)) -lt "$known" ]; then
        echo "the program has $found of the $known functions that run most by packaging/profile/: run packaging/profile/make.sh," \
            'or set PROFILE=none to build without it' >&2
        exit 1
    fi
fi
needed=$(PYTHONDONTWRITEBYTECODE=1 packaging/glibc.py "$program")
if [ "$(printf '%s\n' "$needed" "$GLIBC" | sort -V | tail -1)" != "$GLIBC" ]; then
    echo "$program needs glibc $needed, and must not need more than $GLIBC" >&2
    exit 1
fi
echo "$program"
