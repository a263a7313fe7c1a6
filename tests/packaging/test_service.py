"""The service, run by systemd: from the Debian package, and by hand, with the commands of the book.

systemd runs on a copy of this machine's files, in namespaces of its own.
"""

import json
import os
import re
import shlex
import shutil
import tempfile
import threading
import time
import unittest
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pages
from image import ADMIN, CALLERS, HELLO, ask, loopback_up
from machine import Booted, Machine, kernel, package, run

ROOT = pages.ROOT
UNIT = ROOT / "packaging/systemd/portcullis.service"
CATALOG = """accounts: { far: { dialect: openai, base_url: "http://127.0.0.1:7000/v1", insecure: true, key: { file: secrets/openai } } }
models: { m: { targets: [{ account: far }], price: { input: 0, output: 0 } } }
callers: {}
"""


class Provider(BaseHTTPRequestHandler):
    """A provider whose stream ends when the test says so."""

    ended = threading.Event()

    def do_GET(self):
        self.answer("application/json", [json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]})])

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        chunk = lambda delta, end: "data: " + json.dumps({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}) + "\n\n"

        def events():
            yield chunk({"role": "assistant", "content": "begun"}, None)
            self.ended.wait(120)
            yield chunk({"content": " and ended"}, "stop") + "data: [DONE]\n\n"

        self.answer("text/event-stream", events())

    def answer(self, kind, parts):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()
        for part in parts:
            self.wfile.write(part.encode())
            self.wfile.flush()

    def log_message(self, *_):
        pass


class Stream(threading.Thread):
    """A caller who reads a stream."""

    def __init__(self, key):
        super().__init__(daemon=True)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self.request = urllib.request.Request(f"{CALLERS}/v1/chat/completions", json.dumps(HELLO | {"stream": True}).encode(), headers)
        self.text = ""
        self.start()

    def run(self):
        with urllib.request.urlopen(self.request, timeout=120) as answer:
            for line in answer:
                self.text += line.decode()


class ServiceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        loopback_up()
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.deb = package()
        provider = ThreadingHTTPServer(("127.0.0.1", 7000), Provider)
        provider.daemon_threads = True
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        cls.addClassCleanup(provider.server_close)
        cls.addClassCleanup(provider.shutdown)

    def setUp(self):
        Provider.ended.clear()
        before = kernel()
        self.addCleanup(lambda: self.assertEqual(kernel(), before, "the kernel is this machine's, too"))
        self.machine = Machine(self.enterContext(tempfile.TemporaryDirectory()))
        self.addCleanup(self.machine.close)
        self.root, self.conf = self.machine.root, self.machine.root / "etc/portcullis"
        self.systemd = Booted(self.machine)
        self.addCleanup(self.systemd.close)

    def follow(self, lines, files, codes=()):
        """Types the book's commands in a folder with these files. Those that begin with a key of
        `codes` may end with its values."""
        folder = self.root / "root/here"
        for name, (text, mode) in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
            file.chmod(mode)
        said = {}
        for line in lines:
            # `sh` reads the variable EDITOR, and runs what it names.
            code, said[line] = self.systemd.ask("sh", "-c", f"cd /root/here; {line}", env={"EDITOR": "/root/here/editor"})
            expected = next((codes[begin] for begin in codes if line.startswith(begin)), (0,))
            self.assertIn(code, expected, f"{line}: {said[line]}")
        return said

    def unpacked(self):
        """Returns a folder with what is in the package."""
        tree = self.folder / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        run("dpkg-deb", "--raw-extract", self.deb, tree)
        return tree

    def later(self):
        """Makes a later package, with other settings, and puts it onto the machine."""
        tree = self.unpacked()
        for name, old, new in (("DEBIAN/control", "\nVersion: ", "\nVersion: 9:"), ("etc/portcullis/server.yaml", "# How", "# Later: how"), ("etc/portcullis/catalog.yaml", "# What", "# Later: what")):
            (tree / name).write_text((tree / name).read_text().replace(old, new, 1))
        run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, self.root / "root/next.deb")

    def upgrade(self):
        """Installs the later package, and keeps what was said."""
        self.told = self.systemd.run("dpkg", "-i", "--force-confold", "/root/next.deb")

    def key(self, said):
        """Returns the secret that `portcullis key new` printed."""
        (key,) = [line for line in said.splitlines() if line.startswith("sk-")]
        return key

    def begun(self, key):
        """Begins a stream, and waits for its first word."""
        stream = Stream(key)
        self.systemd.until(lambda: "begun" in stream.text or not stream.is_alive(), "no stream")
        self.assertIn("begun", stream.text)
        return stream

    def complete(self, stream):
        """Reads a stream to its end, which must be there."""
        stream.join(60)
        self.assertIn("and ended", stream.text)
        self.assertTrue(stream.text.endswith("data: [DONE]\n\n"), stream.text)

    def test_the_debian_package(self):
        editor = f"#!/bin/sh\ncat >\"$1\" <<'Y'\n{CATALOG}Y\n"
        files = {self.deb.name: (self.deb.read_bytes(), 0o644), "openai.key": ("sk-of-a-provider\n", 0o600), "editor": (editor, 0o755)}
        # A doctor may warn.
        said = self.follow(pages.commands("Debian"), files, {"portcullis doctor": (0, 1)})
        (install, doctor, new) = (said[next(line for line in said if line.startswith(begin))] for begin in ("apt", "portcullis doctor", "portcullis key"))
        self.assertNotRegex(install, "(?i)error|fail|could not")
        self.assertNotIn("every user of this machine can read", doctor)
        self.assertRegex(doctor, "ok +far +model list|ok +far")
        key = self.key(new)
        served = lambda what: self.systemd.until(lambda: self.systemd.show("StatusText").startswith(f"serving {what}"), what)
        served("1 model")
        self.assertEqual(self.systemd.show("ActiveState"), "active")
        self.assertEqual(self.systemd.show("UnitFileState"), "enabled")

        # A reload is a signal.
        self.systemd.run("systemctl", "reload", "portcullis")
        self.systemd.until(lambda: "SIGHUP" in self.systemd.journal(), "no reload")

        # An upgrade waits for a stream, keeps what was edited, and starts the new version.
        (self.conf / "server.yaml").write_text((self.conf / "server.yaml").read_text() + "attempts: 2\n")
        edited = {name: (self.conf / name).read_text() for name in ("server.yaml", "catalog.yaml")}
        self.later()
        first = self.systemd.show("MainPID")
        stream = self.begun(key)
        upgrade = threading.Thread(target=self.upgrade)
        upgrade.start()
        self.systemd.until(lambda: self.systemd.show("StatusText") == "stopping: 1 exchange runs", "the old version does not drain")
        Provider.ended.set()
        self.complete(stream)
        upgrade.join(120)
        self.assertNotRegex(self.told, "(?i)error|fail|could not")
        self.assertNotEqual(self.systemd.show("MainPID"), first)
        served("1 model")
        self.assertEqual({name: (self.conf / name).read_text() for name in edited}, edited)
        self.assertTrue((self.conf / "server.yaml.dpkg-dist").read_text().startswith("# Later: how"))
        self.assertEqual(self.systemd.show("NRestarts"), "0")
        usage = json.loads(self.systemd.run("portcullis", "usage", "--conf", "/etc/portcullis", "--json"))
        self.assertIn("me", json.dumps(usage), "the ledger outlives the upgrade")

        # A drain that is longer than the unit's patience is waited for.
        with (self.conf / "server.yaml").open("a") as file:
            file.write("drain: { delay: 0s, grace: 60s }\n")
        (self.root / "etc/systemd/system/portcullis.service.d").mkdir()
        (self.root / "etc/systemd/system/portcullis.service.d/short.conf").write_text("[Service]\nTimeoutStopSec=5\n")
        self.systemd.run("systemctl", "daemon-reload")
        self.systemd.run("systemctl", "restart", "portcullis")
        Provider.ended.clear()
        stream = self.begun(key)
        self.systemd.run("systemctl", "stop", "--no-block", "portcullis")
        self.systemd.until(lambda: self.systemd.show("StatusText") == "stopping: 1 exchange runs", "it does not drain")
        time.sleep(7)
        self.assertEqual(self.systemd.show("ActiveState"), "deactivating")
        Provider.ended.set()
        self.complete(stream)
        self.systemd.until(lambda: self.systemd.show("ActiveState") == "inactive", "it does not end")
        self.assertEqual(self.systemd.show("Result"), "success")

        # With an error in the configuration it does not start, and the journal says why.
        (self.conf / "server.yaml").write_text(edited["server.yaml"] + "nonsense: 1\n")
        self.assertNotEqual(self.systemd.ask("systemctl", "start", "portcullis")[0], 0)
        self.assertIn("unknown field", self.systemd.journal())
        (self.conf / "server.yaml").write_text(edited["server.yaml"])
        self.systemd.run("systemctl", "restart", "portcullis")

        # An administrator's choice outlives an upgrade.
        self.systemd.run("systemctl", "disable", "portcullis")
        self.systemd.run("dpkg", "-i", "--force-confold", "/root/next.deb")
        self.assertEqual(self.systemd.show("UnitFileState"), "disabled")

        # Removed, it is stopped, and its files stay. Purged, only the provider's secret is left.
        kept = ["catalog.d/keys-me.yaml", "catalog.yaml", "secrets/openai", "server.yaml"]
        files = lambda: sorted(str(file.relative_to(self.conf)) for file in self.conf.rglob("*") if file.is_file() and "dpkg" not in file.name)
        self.systemd.run("apt-get", "remove", "--yes", "portcullis")
        self.assertEqual(self.systemd.show("ActiveState"), "inactive")
        self.assertEqual(self.systemd.ask("pgrep", "-x", "portcullis")[0], 1)
        self.assertEqual(files(), kept)
        self.systemd.run("apt-get", "purge", "--yes", "portcullis")
        self.assertEqual(files(), ["secrets/openai"])
        self.assertEqual([path for path in ("var/lib/portcullis", "var/log/portcullis", "usr/bin/portcullis") if (self.root / path).exists()], [])

    def test_nothing_there_changes_the_kernel(self):
        for file in ("fs/file-max", "kernel/pid_max", "fs/protected_regular"):
            self.assertNotEqual(self.systemd.ask("test", "-w", f"/proc/sys/{file}")[0], 0, file)
        bounds = int(re.search(r"^CapBnd:\s+(\w+)$", self.systemd.run("cat", "/proc/1/status"), re.M).group(1), 16)
        # By their numbers: modules, and the clock.
        self.assertEqual(bounds & (1 << 16 | 1 << 25), 0)

    def test_a_purge_leaves_no_empty_folder(self):
        self.systemd.run("dpkg", "-i", self.installed())
        self.systemd.run("dpkg", "--purge", "portcullis")
        self.assertFalse(self.conf.exists())

    def installed(self):
        """Puts the package onto the machine."""
        shutil.copy(self.deb, self.root / "root/package.deb")
        return "/root/package.deb"

    def test_the_unit_by_hand(self):
        tree = self.unpacked()
        server = "listen: [{ address: 127.0.0.1:8080 }]\nledger: { path: /var/lib/portcullis/ledger.sqlite }\n"
        files = {
            "target/release/portcullis": ((tree / "usr/bin/portcullis").read_bytes(), 0o755),
            "packaging/systemd/portcullis.service": (UNIT.read_text(), 0o644),
            "openai.key": ("sk-of-a-provider\n", 0o600),
            "your/server.yaml": (server, 0o600),
            "your/catalog.yaml": (CATALOG, 0o600),
        }
        self.follow(pages.commands("systemd"), files)
        self.assertEqual(self.systemd.show("StatusText"), "serving 1 model, catalog 1")
        key = self.key(self.systemd.run("sh", "-c", "umask 077; portcullis key new --conf /etc/portcullis --caller me --name laptop --create"))
        Provider.ended.set()
        self.complete(self.begun(key))
        # An editor that writes a new file, and renames it.
        self.systemd.run("sh", "-c", f"umask 027; cd /etc/portcullis; sed 's/ m: / m2: /' catalog.yaml >new; mv new catalog.yaml; rm -f secrets/openai; echo sk-new >secrets/openai")
        self.systemd.until(lambda: "m2" in ask(f"{ADMIN}/status")[1], "the service does not read the new file")

    def test_the_unit_with_the_changes_that_it_names(self):
        self.systemd.run("dpkg", "-i", self.installed())
        words = UNIT.read_text()
        (credential,) = [line.removeprefix("#") for line in words.splitlines() if line.startswith("#LoadCredential=")]
        port = [part.rstrip(",.") for part in shlex.split(words.split("then\n# ", 1)[1].splitlines()[0])]
        self.assertEqual([part.split("=")[0] for part in port], ["AmbientCapabilities", "CapabilityBoundingSet", "PrivateUsers"])
        (self.conf / "secrets/openai").write_text("sk-of-a-provider\n")
        (self.conf / "secrets/openai").chmod(0o600)
        os.chown(self.conf / "secrets/openai", 0, 0)
        (self.conf / "catalog.yaml").write_text(CATALOG.replace("secrets/openai", "/run/credentials/portcullis.service/openai"))
        settings = self.conf / "server.yaml"
        settings.write_text(settings.read_text().replace("127.0.0.1:8080", "127.0.0.1:80"))
        changes = self.root / "etc/systemd/system/portcullis.service.d/override.conf"
        changes.parent.mkdir()
        changes.write_text("\n".join(["[Service]", credential, *port, "WatchdogSec=15"]) + "\n")
        self.systemd.run("systemctl", "daemon-reload")
        self.systemd.run("systemctl", "restart", "portcullis")
        self.assertEqual(ask("http://127.0.0.1:80/livez")[0], 200)
        # It feeds the watchdog, which would end it.
        for _ in range(2):
            last = self.systemd.show("WatchdogTimestampMonotonic")
            self.systemd.until(lambda: self.systemd.show("WatchdogTimestampMonotonic") != last, "it does not feed the watchdog")
        self.assertEqual((self.systemd.show("NRestarts"), self.systemd.show("ActiveState")), ("0", "active"))
        self.systemd.run("systemctl", "kill", "--signal=STOP", "portcullis")
        self.systemd.until(lambda: self.systemd.show("NRestarts") == "1", "the watchdog does not bite")


if __name__ == "__main__":
    unittest.main()
