"""Runs a program at a terminal: terminal.py PROGRAM ARGUMENT…

Prints everything that it prints. At the end of this script the terminal is closed.
"""

import os
import pty
import signal
import sys

pid, terminal = pty.fork()
if pid == 0:
    # As a terminal's shell starts it, whatever the tests were started from.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
while piece := os.read(terminal, 65536):
    os.write(1, piece)
