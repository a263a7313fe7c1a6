#!/bin/sh
# Installs redis-server for the tests of the store, if it is missing.
set -eu
command -v redis-server >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo 'installing redis-server'
    apt-get -o Acquire::Retries=5 update -qq
    # The service is not started: the tests start their own servers.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -y -qq --no-install-recommends redis-server >/dev/null
    exit 0
fi
echo 'redis-server 6 or later is needed for the tests: install it with your package manager (Debian: apt-get install redis-server)' >&2
exit 1
