"""The container image: what is in it, and that it runs as an engine would run it.

`run.sh` starts this in namespaces of its own, so that mounts and ports are nobody else's.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
USER = 65532
CALLERS, ADMIN = "http://127.0.0.1:8080", "http://127.0.0.1:9090"
HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


def build(out):
    """Makes the image, and returns its file."""
    subprocess.run([ROOT / "packaging/image/build.py", os.environ["PROGRAM"], out], check=True, stdout=subprocess.DEVNULL)
    (image,) = Path(out).iterdir()
    return image


def loopback_up():
    """A new network namespace has its loopback interface down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        fcntl.ioctl(some, 0x8914, struct.pack("16sh14x", b"lo", 1 | 0x40))


def ask(url, body=None, key="sk-none"):
    """Returns the status and the text of an answer."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, body and json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read().decode()


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
        cls.image = build(cls.folder / "first")
        layout = cls.folder / "layout"
        layout.mkdir()
        subprocess.run(["tar", "-xf", cls.image, "-C", layout], check=True)
        # Another program than ours reads it.
        index = json.loads((layout / "index.json").read_text())
        (name,) = [image["annotations"]["org.opencontainers.image.ref.name"] for image in index["manifests"]]
        subprocess.run(["umoci", "unpack", "--image", f"{layout}:{name}", cls.folder / "bundle"], check=True, capture_output=True)
        cls.layout, cls.tree = layout, cls.folder / "bundle/rootfs"
        # An engine puts these there.
        for name in ("proc", "dev"):
            (cls.tree / name).mkdir()
        (cls.tree / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
        loopback_up()

    def blob(self, digest):
        return json.loads((self.layout / "blobs" / digest.replace(":", "/")).read_text())

    @contextlib.contextmanager
    def mounted(self, conf=None, flags=""):
        """Gives a root that cannot be written, with a volume for data, and with this configuration."""
        root, data = self.folder / "root", self.folder / "data"
        root.mkdir(exist_ok=True)
        data.mkdir(exist_ok=True)
        # A new volume takes the owner and the mode of the image's folder.
        of_image = (self.tree / "var/lib/portcullis").stat()
        os.chown(data, of_image.st_uid, of_image.st_gid)
        data.chmod(stat.S_IMODE(of_image.st_mode))
        mount = lambda *arguments: subprocess.run(["mount", *map(str, arguments)], check=True)
        mount("--bind", self.tree, root)
        mount("-t", "proc", "proc", root / "proc")
        mount("--bind", data, root / "var/lib/portcullis")
        if conf:
            mount("--bind", conf, root / "etc/portcullis")
        mount("-o", "remount,bind,ro", root)
        try:
            yield root, data
        finally:
            subprocess.run(["umount", "-R", root], check=True)
            shutil.rmtree(data)

    def command(self, root, *arguments):
        """Returns the command that runs the image's program as the image's user."""
        return ["chroot", f"--userspec={USER}:{USER}", "--groups=", root, "/usr/bin/portcullis", *arguments]

    def ready(self, root):
        """Waits as a health check does."""
        for _ in range(2400):
            if subprocess.run(self.command(root, "ready"), capture_output=True).returncode == 0:
                return
            time.sleep(0.05)
        self.fail("it is not ready")

    @contextlib.contextmanager
    def serving(self, root):
        """Runs the image, and stops it as an engine does. Gives a list to which its output is added."""
        server = subprocess.Popen(self.command(root, "serve"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = []
        try:
            self.ready(root)
            yield said
            server.send_signal(signal.SIGTERM)
            said += server.communicate(timeout=60)
            self.assertEqual(server.returncode, 0, said)
        finally:
            server.kill()

    def test_the_same_files_make_the_same_bytes(self):
        self.assertEqual(self.image.read_bytes(), build(self.folder / "second").read_bytes())

    def test_it_says_who_runs_what(self):
        index = json.loads((self.layout / "index.json").read_text())
        manifest = self.blob(index["manifests"][0]["digest"])
        settings = self.blob(manifest["config"]["digest"])
        config = settings["config"]
        self.assertEqual((config["User"], config["StopSignal"]), (f"{USER}:{USER}", "SIGTERM"))
        self.assertEqual(config["Entrypoint"] + config["Cmd"], ["/usr/bin/portcullis", "serve"])
        self.assertEqual(config["Healthcheck"]["Test"], ["CMD", "/usr/bin/portcullis", "ready"])
        labels = config["Labels"]
        for label in ("title", "description", "version", "revision", "created", "licenses"):
            self.assertTrue(labels[f"org.opencontainers.image.{label}"], label)
        # `podman load` takes the name of the index, and `docker load` that of manifest.json.
        name = f"portcullis:{labels['org.opencontainers.image.version']}"
        self.assertEqual(index["manifests"][0]["annotations"]["io.containerd.image.name"], f"docker.io/library/{name}")
        (docker,) = json.loads((self.layout / "manifest.json").read_text())
        self.assertEqual(docker["RepoTags"], [name])
        self.assertEqual(docker["Config"], "blobs/" + manifest["config"]["digest"].replace(":", "/"))
        self.assertEqual(docker["Layers"], ["blobs/" + layer["digest"].replace(":", "/") for layer in manifest["layers"]])

    def test_skopeo_reads_both_of_its_formats(self):
        inspect = lambda format: json.loads(subprocess.run(["skopeo", "inspect", "--config", f"{format}:{self.image}"], check=True, capture_output=True, text=True).stdout)
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
        with self.mounted() as (root, data):
            with self.assertRaises(OSError):
                (root / "file").write_text("")
            self.assertNotEqual(subprocess.run(self.command(root, "ready"), capture_output=True).returncode, 0)
            with self.serving(root) as said:
                self.assertEqual(ask(f"{CALLERS}/v1/chat/completions", HELLO)[0], 401)
                self.assertEqual(ask(f"{ADMIN}/livez")[0], 200)
            ledger = (data / "ledger.sqlite").stat()
            self.assertEqual((ledger.st_uid, stat.S_IMODE(ledger.st_mode)), (USER, 0o600))
            lines = [json.loads(line) for line in said[0].splitlines()]
            self.assertEqual([line["outcome"] for line in lines], ["unauthorized"], said[0])
            for line in said[1].splitlines():
                self.assertIn(json.loads(line)["level"], ("INFO", "WARN", "info", "warn"), line)

    def test_a_key_can_be_made_where_the_files_cannot_be_written(self):
        with self.mounted(self.tree / "etc/portcullis") as (root, _):
            subprocess.run(["mount", "-o", "remount,bind,ro", root / "etc/portcullis"], check=True)
            new = self.command(root, "key", "new", "--caller", "me", "--name", "laptop", "--create", "--print")
            new = subprocess.run(new, capture_output=True, text=True)
            self.assertEqual(new.returncode, 0, new.stderr)
            self.assertRegex(new.stdout, "(?s)\nsk-.*hash: sha256:")

    def test_a_catalog_of_ones_own_serves_and_finds_names(self):
        Names().start()
        provider = ThreadingHTTPServer(("127.0.0.1", 7000), Provider)
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        conf = self.folder / "conf"
        conf.mkdir()
        for name in ("server.yaml", "catalog.yaml"):
            (conf / name).write_bytes((self.tree / "etc/portcullis" / name).read_bytes())
        accounts = 'demo: { dialect: demo }, far: { dialect: openai, base_url: "http://provider.test:7000/v1", insecure: true }'
        models = "m: { targets: [{ account: demo }] }, far: { targets: [{ account: far }] }"
        (conf / "catalog.yaml").write_text(f"accounts: {{ {accounts} }}\nmodels: {{ {models} }}\ncallers: {{}}\n")
        for path in (conf, *conf.iterdir()):
            os.chown(path, USER, USER)
        with self.mounted(conf) as (root, _):
            # An engine mounts a folder so that it can be written, unless it is told otherwise.
            new = self.command(root, "key", "new", "--caller", "acme", "--name", "prod", "--create")
            new = subprocess.run(new, capture_output=True, text=True)
            self.assertEqual(new.returncode, 0, new.stderr)
            key = new.stdout.strip()
            with self.serving(root) as said:
                status, text = ask(f"{CALLERS}/v1/chat/completions", HELLO, key)
                self.assertEqual(status, 200, text)
                self.assertIn("This is the demo account of Portcullis.", text)
                status, text = ask(f"{CALLERS}/v1/chat/completions", HELLO | {"model": "far"}, key)
                self.assertEqual(status, 200, text)
                self.assertIn("from afar", text)
            self.assertEqual([json.loads(line)["outcome"] for line in said[0].splitlines()], ["ok", "ok"])
            usage = subprocess.run(self.command(root, "usage", "--json"), check=True, capture_output=True, text=True)
            self.assertIn("acme", usage.stdout)
        provider.shutdown()
        provider.server_close()


if __name__ == "__main__":
    unittest.main()
