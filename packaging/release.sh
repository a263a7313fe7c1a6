#!/usr/bin/env bash
# Makes all packages, with their checksums: `release.sh OUT`. Needs a Debian machine with what
# `make release` needs.
# PROGRAM=PATH takes a program that is built already, such as a debug build for tests. If it needs a newer glibc than the
# program that is built here, the wheel and the npm package say so.
set -euo pipefail
[ $# = 1 ] || { echo 'usage: packaging/release.sh OUT' >&2; exit 2; }
out=$(realpath -m "$1")
[ -z "${PROGRAM:-}" ] || PROGRAM=$(realpath "$PROGRAM")
cd "$(dirname "$0")/.."
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
placeholders=$(parts placeholders)
[ -z "$placeholders" ] || printf '%s\n' 'warning: placeholders stand in place of names and addresses, so nobody may publish this:' "$placeholders" >&2
mkdir -p "$out"
[ -z "$(ls -A "$out")" ] || { echo "$out is not empty" >&2; exit 1; }
[ -n "${PROGRAM:-}" ] || PROGRAM=$(PORTCULLIS_COMMIT=$revision packaging/portable.sh)
packaging/licences/build.py "$PROGRAM" "$out"
licences=$(mktemp -d)
trap 'rm -rf "$licences"' EXIT
cp "$out"/* "$licences"
packaging/image/build.py "$PROGRAM" "$out" --licences "$licences" --revision "$revision"
for package in deb tarball wheel npm; do
    packaging/$package/build.py "$PROGRAM" "$out" --licences "$licences"
done
packaging/helm/pack.py "$out"
cp packaging/systemd/portcullis.service "$out"
cd "$out"
sha256sum -- * >SHA256SUMS
cat SHA256SUMS
