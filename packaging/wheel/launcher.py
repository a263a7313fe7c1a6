"""Becomes the program that this package carries. Nothing else is done here, and nothing at installation."""

import os
import platform
import shlex
import shutil
import signal
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "portcullis")


def command_again():
    """Returns the command that runs the program again, if a plain `portcullis` does not. `uvx` names itself in no variable, but it runs
    what lies in uv's cache, and its own path is on the program's only."""
    if "UV" in os.environ and f"{os.sep}archive-v" in sys.prefix:
        return "uvx portcullis-gateway"
    here, found = os.path.abspath(sys.argv[0]), shutil.which("portcullis")
    if found and os.path.dirname(os.path.realpath(found)) == os.path.dirname(os.path.realpath(here)):
        return None
    if os.path.basename(here) == "__main__.py":
        return shlex.join([sys.executable, "-m", "portcullis_gateway"])
    return shlex.quote(here)


def is_supported():
    """Returns whether this system can have a wheel with the program."""
    libc, version = platform.libc_ver()
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64") or libc != "glibc":
        return False
    return tuple(int(part) for part in version.split(".")[:2]) >= (2, 28)


def main():
    """Replaces Python by the program: it gets this process's number, and so every signal, and its exit code is the program's."""
    if not os.path.isfile(PROGRAM) and is_supported():
        sys.exit(
            "This is the wheel without the program: install the one whose name ends with "
            f"manylinux_2_28_{platform.machine()}.whl, by `pip install --force-reinstall`."
        )
    if not os.path.isfile(PROGRAM):
        system = f"{platform.system()} on {platform.machine()}"
        sys.exit(
            "portcullis-gateway carries a program for Linux with glibc 2.28 or newer on x86_64 and aarch64, and none for this "
            f"system ({system}): run its container image instead, or build it from its source."
        )
    # Python ignores these signals, and the program would go on to do so.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    # `init` prints it in the commands to go on with. Nothing else reads the variable.
    again = command_again()
    if again:
        os.environ["PORTCULLIS_COMMAND"] = again
    try:
        os.execv(PROGRAM, ["portcullis", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{PROGRAM} cannot be run: {error.strerror}")
