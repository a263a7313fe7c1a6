#!/usr/bin/env bash
# Makes all packages, with their checksums: `release.sh OUT`. Needs a Debian machine with what `make release` needs.
# PROGRAM=PATH takes a program that is built already, such as a debug build for tests.
set -euo pipefail
[ $# = 1 ] || { echo 'usage: packaging/release.sh OUT' >&2; exit 2; }
out=$(realpath -m "$1")
[ -z "${PROGRAM:-}" ] || PROGRAM=$(realpath "$PROGRAM")
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
missing=()
for tool in /usr/bin/strip:binutils /usr/bin/dpkg-shlibdeps:dpkg-dev /usr/sbin/update-ca-certificates:ca-certificates; do
    [ -e "${tool%:*}" ] || missing+=("${tool#*:}")
done
[ ${#missing[@]} = 0 ] || { echo "install first: apt-get install ${missing[*]}" >&2; exit 1; }
parts() {
    PYTHONPATH=packaging PYTHONDONTWRITEBYTECODE=1 python3 -c "import parts; print(parts.$1())"
}
# Asked once: what is made here may lie in the clone, and changes nothing of it.
changes=$(parts changes)
revision=$(parts revision)
[ -z "$changes" ] || printf '%s\n' 'warning: the packages will hold what is not committed, and the image will say so:' "$changes" >&2
placeholders=$(grep -ls '@portcullis\.invalid' SECURITY.md CODE_OF_CONDUCT.md || true)
[ -z "$placeholders" ] || echo "warning: these name a placeholder in place of an address to report to:" $placeholders >&2
mkdir -p "$out"
[ -z "$(ls -A "$out")" ] || { echo "$out is not empty" >&2; exit 1; }
if [ -z "${PROGRAM:-}" ]; then
    # On arm64 the machine that builds and the one that runs may have pages of different sizes. The
    # largest have 64 KiB.
    [ "$(uname -m)" != aarch64 ] || export JEMALLOC_SYS_WITH_LG_PAGE=16
    make release
    PROGRAM=$target/release/portcullis
fi
packaging/licences/build.py "$PROGRAM" "$out"
licences=$(mktemp -d)
trap 'rm -rf "$licences"' EXIT
cp "$out"/* "$licences"
packaging/image/build.py "$PROGRAM" "$out" --licences "$licences" --revision "$revision"
packaging/deb/build.py "$PROGRAM" "$out" --licences "$licences"
packaging/helm/pack.py "$out"
cp packaging/systemd/portcullis.service "$out"
cd "$out"
sha256sum -- * >SHA256SUMS
cat SHA256SUMS
