#!/usr/bin/env python3
"""Shows that a program has no commands of tests. Usage: commands.py PROGRAM TEST_PROGRAM

The test program has them, which shows that this script would see them.
"""

import http.client
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KEY = "sk-demo-portcullis-published"
ASKED = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}
SECONDS = 60


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def ask(port, method, path, headers=None, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request(method, path, body, headers or {})
    status = connection.getresponse().status
    connection.close()
    return status


def is_ready(port):
    try:
        return ask(port, "GET", "/readyz") == 200
    except OSError:
        return False


def answers(program):
    """Returns the statuses of the answers to a command for the clock, and to a request that is to make the program panic."""
    callers, admin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "conf/catalog.yaml", folder)
        settings = f"listen: [{{ address: 127.0.0.1:{callers} }}]\nadmin: {{ address: 127.0.0.1:{admin} }}\nledger: {{ enabled: false }}\n"
        Path(folder, "server.yaml").write_text(settings, encoding="utf-8")
        server = subprocess.Popen([program, "serve", "--conf", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + SECONDS
            while not is_ready(admin):
                if server.poll() is not None or time.monotonic() > until:
                    sys.exit(f"{program} does not serve")
                time.sleep(0.02)
            headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json", "x-test-panic": "door"}
            command = ask(admin, "GET", "/test-clock/hold")
            return command, ask(callers, "POST", "/v1/chat/completions", headers, json.dumps(ASKED))
        finally:
            server.terminate()
            server.wait()


def main():
    program, test_program = sys.argv[1:]
    for one, wanted in ((test_program, (200, 500)), (program, (404, 200))):
        found = answers(one)
        if found != wanted:
            sys.exit(f"{one} answers commands of tests with {found}, and not with {wanted}")
    print(f"{program} has no commands of tests")


main()
