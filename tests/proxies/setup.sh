#!/bin/sh
# Unpacks nginx and Caddy of Debian under target/, for the tests of examples/proxies. Nothing is installed, and no service starts.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
proxies=${CARGO_TARGET_DIR:-$root/target}/proxies
[ -x "$proxies/usr/sbin/nginx" ] && [ -x "$proxies/usr/bin/caddy" ] && exit 0
if ! command -v apt-get >/dev/null; then
    echo 'nginx and caddy are needed for the tests of examples/proxies; they are taken from packages of Debian' >&2
    exit 1
fi
echo 'unpacking nginx and caddy'
[ "$(id -u)" != 0 ] || apt-get -o Acquire::Retries=5 update -qq
mkdir -p "$proxies/packages"
cd "$proxies/packages"
# As root, apt-get would read as another user, who may not write here, and would say so.
apt-get -o Acquire::Retries=5 -o APT::Sandbox::User=root download -qq nginx caddy
for package in *.deb; do dpkg-deb -x "$package" ..; done
rm -rf "$proxies/packages"
