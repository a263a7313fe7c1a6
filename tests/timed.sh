#!/bin/sh
# Cargo runs each test program through this script, so that the program prints the seconds of each test. The stable test harness
# does that only if RUSTC_BOOTSTRAP is set; nothing is compiled with it.
RUSTC_BOOTSTRAP=1 exec "$@" -Z unstable-options --report-time
