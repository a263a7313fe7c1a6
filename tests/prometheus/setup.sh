#!/bin/sh
# Installs prometheus, and promtool with it, for the tests of the board and the alerts, if it is missing.
set -eu
command -v prometheus >/dev/null && command -v promtool >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo 'installing prometheus'
    apt-get -o Acquire::Retries=5 update -qq
    # The service is not started: the tests start their own servers.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -y -qq --no-install-recommends prometheus >/dev/null
    exit 0
fi
echo 'prometheus and promtool are needed for the tests: install them with your package manager (Debian: apt-get install prometheus)' >&2
exit 1
