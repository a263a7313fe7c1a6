"""Becomes the program that this package carries. Nothing else is done here, and nothing at installation."""

import os
import platform
import signal
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "portcullis")


def main():
    """Replaces Python by the program: it gets this process's number, and so every signal, and its exit code is the program's."""
    if not os.path.isfile(PROGRAM):
        system = f"{platform.system()} on {platform.machine()}"
        sys.exit(
            "portcullis-gateway carries a program for Linux with glibc 2.28 or newer on x86_64 and aarch64, and none for this "
            f"system ({system}): run its container image instead, or build it from its source."
        )
    # Python ignores these signals, and the program would go on to do so.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execv(PROGRAM, ["portcullis", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{PROGRAM} cannot be run: {error.strerror}")
