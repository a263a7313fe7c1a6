"""The container image: what is in it, and that it runs as an engine would run it.

`run.sh` starts this in namespaces of its own, so that mounts and ports are nobody else's.
"""

import argparse
import json
import os
import re
import shlex
import socket
import ssl
import stat
import struct
import subprocess
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pages
from image import ADMIN, CALLERS, HELLO, USER, Image, ask, build, loopback_up


class Names(threading.Thread):
    """A name server for which every name is 127.0.0.1."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))

    def run(self):
        while True:
            question, who = self.socket.recvfrom(512)
            end = question.index(b"\0", 12) + 5
            (kind,) = struct.unpack(">H", question[end - 4 : end - 2])
            answers = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1" if kind == 1 else b""
            head = question[:2] + b"\x81\x80\0\1" + struct.pack(">H", bool(answers)) + b"\0\0\0\0"
            self.socket.sendto(head + question[12:end] + answers, who)


class Provider(BaseHTTPRequestHandler):
    """A provider that answers everything in the same way."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "from afar"}
        answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        # The user of the image must reach what is mounted.
        cls.folder.chmod(0o755)
        cls.image = Image.unpacked()
        cls.tree = cls.image.tree
        loopback_up()

    def conf(self, name, catalog):
        """Writes a configuration folder for the image's user, with the shipped settings."""
        conf = self.folder / name
        conf.mkdir()
        (conf / "server.yaml").write_bytes((self.tree / "etc/portcullis/server.yaml").read_bytes())
        (conf / "catalog.yaml").write_text(catalog)
        for path in (conf, *conf.iterdir()):
            os.chown(path, USER, USER)
        return conf

    def test_the_same_files_make_the_same_bytes(self):
        self.assertEqual(self.image.file.read_bytes(), build(self.folder / "second").read_bytes())

    def test_it_says_who_runs_what(self):
        config, manifest, index = self.image.config()
        self.assertEqual((config["User"], config["StopSignal"]), (f"{USER}:{USER}", "SIGTERM"))
        self.assertEqual(config["Entrypoint"] + config["Cmd"], ["/usr/bin/portcullis", "serve"])
        self.assertEqual(config["Healthcheck"]["Test"], ["CMD", "/usr/bin/portcullis", "ready"])
        labels = config["Labels"]
        for label in ("title", "description", "version", "revision", "created", "licenses"):
            self.assertTrue(labels[f"org.opencontainers.image.{label}"], label)
        # `podman load` takes the name of the index, and `docker load` that of manifest.json.
        name = f"portcullis:{labels['org.opencontainers.image.version']}"
        self.assertEqual(index["manifests"][0]["annotations"]["io.containerd.image.name"], f"docker.io/library/{name}")
        (docker,) = json.loads((self.image.layout / "manifest.json").read_text())
        self.assertEqual(docker["RepoTags"], [name])
        self.assertEqual(docker["Config"], "blobs/" + manifest["config"]["digest"].replace(":", "/"))
        self.assertEqual(docker["Layers"], ["blobs/" + layer["digest"].replace(":", "/") for layer in manifest["layers"]])

    def test_skopeo_reads_both_of_its_formats(self):
        inspect = lambda format: json.loads(subprocess.run(["skopeo", "inspect", "--config", f"{format}:{self.image.file}"], check=True, capture_output=True, text=True).stdout)
        self.assertEqual(inspect("oci-archive"), inspect("docker-archive"))
        self.assertEqual(inspect("docker-archive")["config"]["User"], f"{USER}:{USER}")

    def test_it_holds_the_program_what_it_needs_and_nothing_else(self):
        files, owned = [], []
        for path in sorted(self.tree.rglob("*")):
            name, of = str(path.relative_to(self.tree)), path.lstat()
            if path.is_symlink() or name in ("proc", "dev", "etc/resolv.conf"):
                continue
            if of.st_uid != 0:
                owned.append((name, of.st_uid, of.st_gid, oct(stat.S_IMODE(of.st_mode))))
            self.assertFalse(of.st_mode & (stat.S_ISUID | stat.S_ISGID), name)
            if name != "tmp":
                self.assertFalse(of.st_mode & stat.S_IWOTH, name)
            if path.is_file() and not name.startswith(("usr/share/doc/", "usr/share/common-licenses/", "var/lib/dpkg/status.d/")):
                files.append(name.replace("x86_64-linux-gnu", "ARCH").replace("aarch64-linux-gnu", "ARCH"))
        libraries = [name for name in files if name.startswith("usr/lib")]
        self.assertEqual([name for name in files if name not in libraries], ["etc/group", "etc/nsswitch.conf", "etc/os-release", "etc/passwd", "etc/portcullis/catalog.yaml", "etc/portcullis/server.yaml", "etc/ssl/certs/ca-certificates.crt", "usr/bin/portcullis"])
        self.assertEqual(sorted(Path(name).name.split(".so")[0].split("-linux")[0] for name in libraries), ["ld", "libc", "libgcc_s", "libm"])
        self.assertEqual(owned, [("var/lib/portcullis", USER, USER, "0o700")])
        trusted = ssl.create_default_context(cafile=self.tree / "etc/ssl/certs/ca-certificates.crt").cert_store_stats()
        self.assertGreater(trusted["x509_ca"], 100)
        # The demo's key is published: nobody may call with it.
        self.assertNotIn("hash", (self.tree / "etc/portcullis/catalog.yaml").read_text())
        for package in ("libc6", "libgcc-s1", "ca-certificates"):
            named = re.findall(r"common-licenses/([\w.-]*\w)", (self.tree / f"usr/share/doc/{package}/copyright").read_text())
            self.assertEqual([licence for licence in named if not (self.tree / "usr/share/common-licenses" / licence).is_file()], [], package)
            self.assertTrue(named, package)
            self.assertIn("Version: ", (self.tree / f"var/lib/dpkg/status.d/{package}").read_text())

    def test_it_serves_with_the_shipped_files_and_ends_in_order(self):
        with self.image.mounted() as (root, data):
            with self.assertRaises(OSError):
                (root / "file").write_text("")
            self.assertNotEqual(self.image.run(root, "ready").returncode, 0)
            with self.image.serving(root) as said:
                self.assertEqual(ask(f"{CALLERS}/v1/chat/completions", HELLO)[0], 401)
                self.assertEqual(ask(f"{ADMIN}/livez")[0], 200)
            ledger = (data / "ledger.sqlite").stat()
            self.assertEqual((ledger.st_uid, stat.S_IMODE(ledger.st_mode)), (USER, 0o600))
            lines = [json.loads(line) for line in said[0].splitlines()]
            self.assertEqual([line["outcome"] for line in lines], ["unauthorized"], said[0])
            for line in said[1].splitlines():
                self.assertIn(json.loads(line)["level"], ("INFO", "WARN", "info", "warn"), line)

    def test_a_key_can_be_made_where_the_files_cannot_be_written(self):
        with self.image.mounted({"/etc/portcullis": (self.tree / "etc/portcullis", "ro")}) as (root, _):
            new = self.image.run(root, "key", "new", "--caller", "me", "--name", "laptop", "--create", "--print")
            self.assertEqual(new.returncode, 0, new.stderr)
            self.assertRegex(new.stdout, "(?s)\nsk-.*hash: sha256:")

    def test_a_catalog_of_ones_own_serves_and_finds_names(self):
        Names().start()
        provider = ThreadingHTTPServer(("127.0.0.1", 7000), Provider)
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        accounts = 'demo: { dialect: demo }, far: { dialect: openai, base_url: "http://provider.test:7000/v1", insecure: true }'
        models = "m: { targets: [{ account: demo }] }, far: { targets: [{ account: far }] }"
        conf = self.conf("conf", f"accounts: {{ {accounts} }}\nmodels: {{ {models} }}\ncallers: {{}}\n")
        # An engine mounts a folder so that it can be written, unless it is told otherwise.
        with self.image.mounted({"/etc/portcullis": (conf, "rw")}) as (root, _):
            new = self.image.run(root, "key", "new", "--caller", "acme", "--name", "prod", "--create")
            self.assertEqual(new.returncode, 0, new.stderr)
            key = new.stdout.strip()
            with self.image.serving(root) as said:
                status, text = ask(f"{CALLERS}/v1/chat/completions", HELLO, key)
                self.assertEqual(status, 200, text)
                self.assertIn("This is the demo account of Portcullis.", text)
                status, text = ask(f"{CALLERS}/v1/chat/completions", HELLO | {"model": "far"}, key)
                self.assertEqual(status, 200, text)
                self.assertIn("from afar", text)
            self.assertEqual([json.loads(line)["outcome"] for line in said[0].splitlines()], ["ok", "ok"])
            self.assertIn("acme", self.image.run(root, "usage", "--json").stdout)
        provider.shutdown()
        provider.server_close()

    def test_the_commands_of_the_book(self):
        """What the commands ask of an engine is done without one."""
        load, start, *others = [shlex.split(line) for line in pages.commands("Container")]
        self.assertEqual(load, ["docker", "load", "-i", self.image.file.name])
        options = argparse.ArgumentParser()
        options.add_argument("-d", action="store_true")
        options.add_argument("--read-only", action="store_true")
        for name in ("--name", "--cap-drop", "--stop-timeout"):
            options.add_argument(name)
        for name in ("-p", "-v"):
            options.add_argument(name, action="append")
        options.add_argument("image")
        self.assertEqual(start[:2], ["docker", "run"])
        asked = options.parse_args(start[2:])
        config, _, _ = self.image.config()
        (docker,) = json.loads((self.image.layout / "manifest.json").read_text())
        self.assertIn(asked.image, docker["RepoTags"])
        ports = [port.rpartition(":") for port in asked.p]
        self.assertEqual({f"{inside}/tcp" for _, _, inside in ports}, set(config["ExposedPorts"]))
        self.assertEqual([outside for outside, _, inside in ports if inside == "9090"], ["127.0.0.1:9090"])
        # The default drain, and 8 s to write what waits.
        self.assertGreater(int(asked.stop_timeout), 25 + 8)
        (conf, inside, mode), data = [volume.split(":") for volume in asked.v]
        self.assertEqual((conf, mode, data[1:]), ("./conf", "ro", list(config["Volumes"])))
        written = self.conf("of-the-book", "accounts: { demo: { dialect: demo } }\nmodels: { m: { targets: [{ account: demo }] } }\ncallers: {}\n")
        key = subprocess.run([os.environ["PROGRAM"], "key", "new", "--conf", written, "--caller", "me", "--name", "laptop", "--create"], check=True, capture_output=True, text=True).stdout.strip()
        with self.image.mounted({inside: (written, mode)}) as (root, _), self.image.serving(root):
            self.assertEqual(ask(f"{CALLERS}/v1/chat/completions", HELLO, key)[0], 200)
            for command in others:
                self.assertEqual(command[:4], ["docker", "exec", asked.name, "portcullis"])
                ran = self.image.run(root, *command[4:])
                # A doctor may warn.
                self.assertIn(ran.returncode, (0, 1) if command[4] == "doctor" else (0,), ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
