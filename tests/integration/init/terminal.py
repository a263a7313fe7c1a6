"""Runs a program at a terminal, and answers its questions: terminal.py ANSWERS PROGRAM ARGUMENT…

ANSWERS is a JSON list of pairs: what the program prints last before it waits, and what is typed then. Prints everything that the
program prints, and ends as the program does: a signal is 128 and its number.
"""

import json
import os
import pty
import select
import signal
import sys

# Less than the test waits for this script, so that its words are read.
SECONDS = 45

answers = json.loads(sys.argv[1])
pid, terminal = pty.fork()
if pid == 0:
    # A job in the background of a shell ignores Ctrl-C, and so would the program. A terminal's shell starts it with the defaults.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    os.execv(sys.argv[2], sys.argv[2:])
printed = unread = b""
while True:
    if not select.select([terminal], [], [], SECONDS)[0]:
        print(printed.decode(), f"\nit waits for something else than {answers[:1]}")
        os.kill(pid, 9)
        sys.exit(99)
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        piece = b""
    if not piece:
        break
    printed += piece
    unread += piece
    if answers and answers[0][0].encode() in unread:
        os.write(terminal, answers.pop(0)[1].encode())
        unread = b""
print(printed.decode().replace("\r\n", "\n"))
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(code if code >= 0 else 128 - code)
