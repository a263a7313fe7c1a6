#!/bin/sh
# Installs tinyproxy for the test of accounts behind a proxy, if it is missing.
set -eu
command -v tinyproxy >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo 'installing tinyproxy'
    apt-get -o Acquire::Retries=5 update -qq
    # This is the program alone, without a service.
    DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -y -qq --no-install-recommends tinyproxy-bin >/dev/null
    exit 0
fi
echo 'tinyproxy is needed for the tests: install it with your package manager (Debian: apt-get install tinyproxy-bin)' >&2
exit 1
