"""The container image, unpacked by a program that is not ours, and run as an engine does it."""

import atexit
import contextlib
import fcntl
import functools
import json
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
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


def mount(*arguments):
    """Mounts something."""
    subprocess.run(["mount", *map(str, arguments)], check=True)


class Image:
    """The image in `file`, its OCI layout in `layout`, and its files in `tree`."""

    @staticmethod
    @functools.cache
    def unpacked():
        """Makes the image and unpacks it, once for all tests."""
        folder = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, folder)
        return Image(folder)

    def __init__(self, folder):
        self.folder = folder
        # The user of the image must reach what is mounted.
        folder.chmod(0o755)
        self.file = build(folder / "image")
        self.layout = folder / "layout"
        self.layout.mkdir()
        subprocess.run(["tar", "-xf", self.file, "-C", self.layout], check=True)
        index = json.loads((self.layout / "index.json").read_text())
        (name,) = [image["annotations"]["org.opencontainers.image.ref.name"] for image in index["manifests"]]
        subprocess.run(["umoci", "unpack", "--image", f"{self.layout}:{name}", folder / "bundle"], check=True, capture_output=True)
        self.tree = folder / "bundle/rootfs"
        # An engine puts these there.
        for name in ("proc", "dev"):
            (self.tree / name).mkdir()
        (self.tree / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")

    def blob(self, digest):
        """Returns a part of the layout that is JSON."""
        return json.loads((self.layout / "blobs" / digest.replace(":", "/")).read_text())

    def config(self):
        """Returns the image's configuration, and what is around it."""
        index = json.loads((self.layout / "index.json").read_text())
        manifest = self.blob(index["manifests"][0]["digest"])
        return self.blob(manifest["config"]["digest"])["config"], manifest, index

    @contextlib.contextmanager
    def mounted(self, volumes=None):
        """Gives a root that cannot be written, with a volume for data, and what else is mounted: path to
        folder and options."""
        root, data = self.folder / "root", self.folder / "data"
        root.mkdir(exist_ok=True)
        data.mkdir(exist_ok=True)
        # A new volume takes the owner and the mode of the image's folder.
        of_image = (self.tree / "var/lib/portcullis").stat()
        os.chown(data, of_image.st_uid, of_image.st_gid)
        data.chmod(stat.S_IMODE(of_image.st_mode))
        volumes = {"/var/lib/portcullis": (data, "rw")} | (volumes or {})
        for path in volumes:
            # An engine makes the folders onto which it mounts.
            (self.tree / path.strip("/")).mkdir(parents=True, exist_ok=True)
        mount("--bind", self.tree, root)
        mount("-t", "proc", "proc", root / "proc")
        for path, (source, options) in volumes.items():
            mount("--bind", source, root / path.strip("/"))
            mount("-o", f"remount,bind,{options}", root / path.strip("/"))
        mount("-o", "remount,bind,ro", root)
        try:
            yield root, data
        finally:
            subprocess.run(["umount", "-R", root], check=True)
            shutil.rmtree(data)

    def command(self, root, *arguments):
        """Returns the command that runs the image's program as the image's user."""
        folder = self.config()[0]["WorkingDir"]
        return ["unshare", f"--root={root}", f"--wd={folder}", f"--setuid={USER}", f"--setgid={USER}", "/usr/bin/portcullis", *arguments]

    def run(self, root, *arguments):
        """Runs the image's program."""
        return subprocess.run(self.command(root, *arguments), capture_output=True, text=True)

    @contextlib.contextmanager
    def serving(self, root, *arguments, ready=None):
        """Runs the image, and stops it as an engine does. Gives a list that gets its output."""
        server = subprocess.Popen(self.command(root, *(arguments or ["serve"])), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = []
        # As a health check does.
        ready = ready or (lambda: self.run(root, "ready").returncode == 0)
        try:
            for _ in range(2400):
                if ready():
                    break
                if server.poll() is not None:
                    raise AssertionError(server.communicate())
                time.sleep(0.05)
            else:
                raise AssertionError("it is not ready")
            yield said
            server.send_signal(signal.SIGTERM)
            said += server.communicate(timeout=60)
            if server.returncode != 0:
                raise AssertionError((server.returncode, said))
        finally:
            server.kill()
            # What it has open cannot be unmounted.
            server.wait()
