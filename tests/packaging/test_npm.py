"""The npm packages: npm takes the one for the system, and the command passes on each signal, and the program's end."""

import base64
import contextlib
import hashlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import launched
import pages
from image import loopback_up
from machine import carried, run

# What stands in for the program: it writes each signal that it gets, and ends as it is told.
RECORDER = f"""#!{sys.executable}
import os, signal, sys, time
how, book = sys.argv[1:]
def write(number, frame):
    with open(book, "a") as file:
        file.write(signal.Signals(number).name + "\\n")
for number in signal.valid_signals() - {{signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT}}:
    if number < 32:
        signal.signal(number, write)
with open(book, "a") as file:
    file.write(f"started {{os.getpid()}}\\n")
if how.startswith("signal "):
    signal.signal(int(how.split()[1]), signal.SIG_DFL) if how != "signal 9" else None
    os.kill(os.getpid(), int(how.split()[1]))
if how == "ask":
    line = input("which? ")
    with open(book, "a") as file:
        file.write(f"{{line}} {{os.isatty(0)}} {{os.isatty(1)}}\\n")
    how = "0"
while how == "wait" or how.startswith("until ") and how.split()[1] + "\\n" not in open(book).read():
    # A signal that comes just before `pause` would wait for the next one.
    time.sleep(0.1)
if how.startswith("until "):
    how = how.split()[2]
sys.exit(int(how))
"""
# Those that are the launcher's own affair.
OWN = {"SIGKILL", "SIGSTOP", "SIGCHLD", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGTRAP", "SIGPROF", "SIGTSTP", "SIGCONT"}
# Makes Node believe that it runs elsewhere.
ELSEWHERE = "Object.defineProperty(process, '{name}', {{ value: {value} }});"
GLIBC = "process.report.getReport = () => ({{ header: {header} }});"
LONG = 60


def package(file):
    """Returns the package.json of an npm package."""
    with tarfile.open(file) as tar:
        return json.load(tar.extractfile("package/package.json"))


class Registry(BaseHTTPRequestHandler):
    """Serves the packages as a registry does."""

    packages = {}

    def do_GET(self):
        path = self.path.lower().replace("%2f", "/").lstrip("/")
        if path.startswith("-/"):
            return self.answer(200, self.packages[path[2:]].read_bytes())
        for name, file in self.packages.items():
            known = package(file)
            if known["name"] == path:
                data = file.read_bytes()
                integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
                known["dist"] = {"tarball": f"http://127.0.0.1:{self.server.server_port}/-/{name}", "integrity": integrity}
                return self.answer(200, json.dumps({"name": path, "dist-tags": {"latest": known["version"]}, "versions": {known["version"]: known}}).encode())
        return self.answer(404, b"{}")

    def answer(self, status, data):
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def state(process):
    """Returns the state of a process as the kernel has it: T is stopped."""
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]


class NpmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        loopback_up()
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.files = carried("npm")
        Registry.packages = {file.name: file for file in cls.files}
        registry = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
        registry.daemon_threads = True
        threading.Thread(target=registry.serve_forever, daemon=True).start()
        cls.addClassCleanup(registry.server_close)
        cls.addClassCleanup(registry.shutdown)
        kept = {name: value for name, value in os.environ.items() if not name.lower().startswith("npm_")}
        cls.environment = kept | {
            "HOME": str(cls.folder / "home"),
            "npm_config_registry": f"http://127.0.0.1:{registry.server_port}",
            "npm_config_update_notifier": "false",
            "npm_config_audit": "false",
            "npm_config_fund": "false",
        }
        # With the program, to serve.
        cls.served = cls.installed("served", "portcullis-gateway")
        # With the recorder in its place.
        cls.recorded = cls.installed("recorded", "portcullis-gateway")
        (program,) = cls.recorded.glob("node_modules/@portcullis-gateway/*/bin/portcullis")
        program.write_text(RECORDER)

    @classmethod
    def npm(cls, folder, *words):
        """Runs npm in a folder."""
        folder.mkdir(exist_ok=True)
        return run("npm", *words, cwd=folder, env=cls.environment)

    @classmethod
    def installed(cls, name, *words):
        """Installs packages into a new folder, and returns it."""
        cls.npm(cls.folder / name, "install", *words)
        return cls.folder / name

    def until(self, found, otherwise):
        """Waits until something is so, and returns it."""
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            if value := found():
                return value
            time.sleep(0.02)
        self.fail(otherwise)

    @contextlib.contextmanager
    def recorder(self, how="wait"):
        """Runs the recorder by the command, and gives the command's process, and what reads the book."""
        with tempfile.NamedTemporaryFile("r") as book:
            read = lambda: Path(book.name).read_text().split("\n")[:-1]
            process = subprocess.Popen([self.recorded / "node_modules/.bin/portcullis", how, book.name])
            try:
                started = self.until(lambda: [line for line in read() if line.startswith("started ")], "the program does not start")
                yield process, int(started[0].split()[1]), read
            finally:
                process.kill()
                process.wait()
                if started:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(started[0].split()[1]), signal.SIGKILL)

    def test_npx_runs_it(self):
        empty = self.folder / "empty"
        for words in (["npx", "--yes", "portcullis-gateway"], ["npx", "--yes", "--package", "portcullis-gateway", "portcullis"]):
            empty.mkdir(exist_ok=True)
            self.assertEqual(run(*words, "version", cwd=empty, env=self.environment), run(os.environ["PROGRAM"], "version"))
        self.assertEqual(list(empty.iterdir()), [])

    def test_init_prints_commands_that_can_be_run(self):
        for command, name in ((["npx", "--yes", "portcullis-gateway"], "npx portcullis-gateway"), ([self.served / "node_modules/.bin/portcullis"], "portcullis")):
            with tempfile.TemporaryDirectory() as empty:
                printed = run(*command, "init", "--demo", cwd=empty, env=self.environment)
                self.assertIn(f"\n  {name} serve\n", printed)
                self.assertIn(f"\n  {name} try ", printed)

    def test_installed_run_and_removed(self):
        command = self.served / "node_modules/.bin/portcullis"
        self.assertEqual(sorted(path.name for path in (self.served / "node_modules").iterdir()), [".bin", ".package-lock.json", "@portcullis-gateway", "portcullis-gateway"])
        data = self.folder / "data"
        launched.settle(data)
        with launched.serving([command], data) as server:
            (program,) = run("pgrep", "-P", str(server.pid)).split()
            server.terminate()
            self.assertEqual(server.wait(LONG), 0)
            self.assertFalse(Path(f"/proc/{program}").exists())
        kept = launched.files(data)
        self.assertGreater(len(kept), 3, "it wrote a ledger")
        self.npm(self.served, "uninstall", "portcullis-gateway")
        self.assertEqual(launched.files(self.served / "node_modules") - {".package-lock.json"}, set())
        self.assertEqual(launched.files(data), kept)

    def test_the_command_of_the_book_needs_no_registry(self):
        here = self.folder / "here"
        here.mkdir()
        for file in self.files:
            (here / file.name).write_bytes(file.read_bytes())
        (install,) = [line for line in pages.commands("Python and Node") if line.startswith("npm ")]
        run("sh", "-c", install, cwd=here, env=self.environment | {"npm_config_registry": "http://127.0.0.1:1", "npm_config_fetch_retries": "0"})
        self.assertEqual(run(here / "node_modules/.bin/portcullis-gateway", "version"), run(os.environ["PROGRAM"], "version"))

    def test_every_signal_is_passed_on(self):
        names = {one.name for one in signal.valid_signals() if isinstance(one, signal.Signals) and one < 32} - OWN
        self.assertGreater(len(names), 15)
        with self.recorder() as (process, _, read):
            for name in sorted(names):
                process.send_signal(signal.Signals[name])
                self.until(lambda: name in read(), f"{name} is not passed on: {read()}")
            self.assertEqual(sorted(read()[1:]), sorted(names), "each once")

    def test_it_ends_as_the_program_does(self):
        for how, wanted in (("0", 0), ("7", 7), ("255", 255), *((f"signal {number}", -number) for number in (1, 2, 6, 9, 11, 15))):
            with self.recorder(how) as (process, _, _):
                self.assertEqual(process.wait(LONG), wanted, how)

    def test_a_question_is_answered_in_a_terminal(self):
        with tempfile.NamedTemporaryFile("r") as book:
            process, terminal = self.in_terminal("ask", book.name)
            os.write(terminal, b"this one\n")
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), 0)
            self.assertEqual(Path(book.name).read_text().splitlines()[1], "this one True True")
            os.close(terminal)

    def in_terminal(self, *words):
        """Runs the recorder by the command in a terminal, and returns the command's number and the terminal."""
        process, terminal = pty.fork()
        if process == 0:
            command = self.recorded / "node_modules/.bin/portcullis"
            os.execv(command, [command, *words])
        return process, terminal

    def test_a_terminal_interrupts_the_program_once(self):
        with tempfile.NamedTemporaryFile("r") as book:
            process, terminal = self.in_terminal("wait", book.name)
            lines = lambda: Path(book.name).read_text().split()
            self.until(lambda: "started" in lines(), "it does not start")
            program = int(lines()[1])
            os.write(terminal, b"\x03")
            self.until(lambda: "SIGINT" in lines(), "Ctrl-C does not arrive")
            # What comes after it arrives after it.
            os.kill(process, signal.SIGUSR2)
            self.until(lambda: "SIGUSR2" in lines(), "it does not go on")
            self.assertEqual(lines()[2:], ["SIGINT", "SIGUSR2"])
            # Ctrl-Z stops both, and both go on.
            os.write(terminal, b"\x1a")
            self.until(lambda: state(process) == state(program) == "T", "Ctrl-Z does not stop both")
            os.kill(process, signal.SIGCONT)
            self.until(lambda: "T" not in (state(process), state(program)), "they do not go on")
            os.kill(program, signal.SIGKILL)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), -signal.SIGKILL)
            os.close(terminal)

    def test_a_closed_terminal_ends_the_program(self):
        with tempfile.NamedTemporaryFile("r") as book:
            process, terminal = self.in_terminal("wait", book.name)
            lines = lambda: Path(book.name).read_text().split()
            self.until(lambda: "started" in lines(), "it does not start")
            program = int(lines()[1])
            # While the terminal is there, SIGHUP is for the program.
            os.kill(process, signal.SIGHUP)
            self.until(lambda: "SIGHUP" in lines(), "SIGHUP is not passed on")
            os.close(terminal)
            self.until(lambda: "SIGTERM" in lines(), f"the program goes on: {lines()}")
            # The shell sends the signal again.
            os.kill(process, signal.SIGHUP)
            os.kill(process, signal.SIGUSR2)
            self.until(lambda: "SIGUSR2" in lines(), "it does not go on")
            self.assertEqual(lines()[2:], ["SIGHUP", "SIGTERM", "SIGUSR2"])
            os.kill(program, signal.SIGKILL)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), -signal.SIGKILL)

    def test_it_ends_as_the_program_does_without_its_terminal(self):
        for code in (0, 7):
            with tempfile.NamedTemporaryFile("r") as book:
                process, terminal = self.in_terminal(f"until SIGTERM {code}", book.name)
                self.until(lambda: "started" in Path(book.name).read_text(), "it does not start")
                os.close(terminal)
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), code)

    def test_nohup_outlives_the_terminal(self):
        with tempfile.NamedTemporaryFile("r") as book, tempfile.TemporaryDirectory() as here:
            process, terminal = pty.fork()
            if process == 0:
                os.chdir(here)
                os.execvp("nohup", ["nohup", self.recorded / "node_modules/.bin/portcullis", "wait", book.name])
            lines = lambda: Path(book.name).read_text().split()
            self.until(lambda: "started" in lines(), "it does not start")
            program = int(lines()[1])
            os.close(terminal)
            self.until(lambda: "SIGHUP" in lines(), "SIGHUP is not passed on")
            os.kill(process, signal.SIGUSR2)
            self.until(lambda: "SIGUSR2" in lines(), "it does not go on")
            self.assertEqual(lines()[2:], ["SIGHUP", "SIGUSR2"])
            os.kill(program, signal.SIGKILL)
            os.waitpid(process, 0)

    def test_other_systems_get_one_sentence(self):
        launcher = self.recorded / "node_modules/portcullis-gateway/bin/portcullis.js"
        none = r"^portcullis-gateway carries .* none for this system \({}\).* container image.*\.\n$"
        cases = [
            (ELSEWHERE.format(name="platform", value="'darwin'"), none.format("darwin-x64")),
            (ELSEWHERE.format(name="platform", value="'win32'"), none.format("win32-x64")),
            (ELSEWHERE.format(name="arch", value="'s390x'"), none.format("linux-s390x")),
            (GLIBC.format(header="{}"), none.format("linux-x64, without glibc")),
            (GLIBC.format(header="{ glibcVersionRuntime: '2.17' }"), r"^The program of portcullis-gateway needs glibc 2\.\d\d or newer, and this system has 2\.17: .*\.\n$"),
        ]
        for number, (code, words) in enumerate(cases):
            before = self.folder / f"{number}.js"
            before.write_text(code)
            done = subprocess.run(["node", "--require", before, launcher, "version"], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (1, ""), code)
            self.assertRegex(done.stderr, words)

    def test_a_program_that_is_left_out_is_named(self):
        folder = self.installed("without", "portcullis-gateway", "--omit=optional")
        done = subprocess.run([folder / "node_modules/.bin/portcullis", "version"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^portcullis-gateway has its program in another package, @portcullis-gateway/linux-\w+, .*\.\n$")

    def test_a_system_gets_only_its_own_package(self):
        for number, words in enumerate((["--libc=musl"], ["--os=darwin"], ["--cpu=arm64"])):
            folder = self.installed(f"other-{number}", "portcullis-gateway", *words)
            self.assertFalse((folder / "node_modules/@portcullis-gateway").exists(), words)

    def test_a_global_installation_has_manual_pages(self):
        prefix = self.folder / "prefix"
        self.npm(self.folder / "global", "install", "--global", "--prefix", prefix, "portcullis-gateway")
        self.assertTrue((prefix / "share/man/man1/portcullis-serve.1").is_file())
        self.assertEqual(run(prefix / "bin/portcullis", "version"), run(os.environ["PROGRAM"], "version"))
        self.npm(self.folder / "global", "uninstall", "--global", "--prefix", prefix, "portcullis-gateway")
        self.assertEqual(launched.files(prefix), set())

    def test_nothing_is_run_at_installation(self):
        for file in self.files:
            known = package(file)
            self.assertNotIn("scripts", known)
            self.assertRegex(file.name, re.escape(known["name"].removeprefix("@").replace("/", "-")))


if __name__ == "__main__":
    unittest.main()
