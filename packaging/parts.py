"""What the scripts of this folder share: the version, the time, and the system's files that the program needs.

They use Python's standard library, and Debian's dpkg. They ask no network: only Cargo may, for crates.
"""

import argparse
import hashlib
import io
import os
import platform
import re
import subprocess
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Debian's names for the machines that there are packages for. Only amd64 has been tried.
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
TITLE = "Portcullis"
SUMMARY = "LLM gateway: one address, one key, standard answers"
LICENCE = "Apache-2.0"
COMPLETIONS = {
    "bash": "bash-completion/completions/portcullis",
    "zsh": "zsh/site-functions/_portcullis",
    "fish": "fish/vendor_completions.d/portcullis.fish",
}
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


def arguments(description, package):
    """Returns the reader of the arguments that the makers of all packages have: program, folder and licences."""
    asked = argparse.ArgumentParser(description=description)
    asked.add_argument("program", type=Path, help="the program, which runs on this machine")
    asked.add_argument("out", type=Path, help=f"the folder for {package}")
    asked.add_argument("--licences", type=Path, help=f"a folder whose files {package} gets, too")
    return asked


def run(*command, **options):
    """Runs a command to its end, and returns what it printed."""
    done = subprocess.run([str(part) for part in command], text=True, stdout=subprocess.PIPE, **options)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed: {' '.join(map(str, command))}")
    return done.stdout


def project():
    """Returns what Cargo.toml says of the whole project, and no other file does: version, maintainers, homepage, repository."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]


def version():
    """Returns the version of the program."""
    return project()["version"]


def placeholders():
    """Returns where a placeholder stands in place of a name or an address: a line each."""
    found = {"Cargo.toml": " ".join(map(str, project().values()))}
    found |= {name: (ROOT / name).read_text() for name in ("SECURITY.md", "CODE_OF_CONDUCT.md")}
    return "\n".join(f"{name}: {value}" for name, text in found.items() for value in re.findall(r"[^\s<>'\"]+\.invalid\b[^\s<>'\"]*", text))


def machine():
    """Returns Debian's name of this machine's architecture."""
    try:
        return MACHINES[platform.machine()]
    except KeyError:
        raise SystemExit(f"there are no packages for {platform.machine()}") from None


def git(*command):
    """Returns what git says of this folder; nothing if it is a copy without git."""
    return run("git", "-C", ROOT, *command).rstrip() if (ROOT / ".git").exists() else ""


def epoch():
    """Returns the time that all files get: that of the commit, which its archive gives to its files."""
    given = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct")
    return int(given or (ROOT / "Cargo.toml").stat().st_mtime)


def changes():
    """Returns the files that are not as the commit has them, a line each."""
    return git("status", "--porcelain")


def revision():
    """Returns the commit, and whether something was changed since; nothing if it is not known."""
    return git("rev-parse", "HEAD") + ("-dirty" if changes() else "")


def maintainer():
    """Returns who is named as the maintainer of the packages."""
    return project()["authors"][0]


def libraries(program):
    """Returns the shared libraries that a program is loaded with, by their names in /usr: name to file."""
    found = {}
    for line in run("ldd", program).splitlines():
        path = re.search(r"(/\S+) \(0x", line)
        if "not found" in line:
            raise SystemExit(f"{program}: {line.strip()}")
        if path:
            name = path.group(1)
            found[name if name.startswith("/usr/") else "/usr" + name] = Path(name).resolve()
    return found


def debian_packages(files):
    """Returns the Debian packages that these files belong to: name to version."""
    packages = {}
    for file in files:
        # Files of /lib may be known by that name, or by the one in /usr.
        short = str(file).removeprefix("/usr")
        for name in (str(file), short):
            known = subprocess.run(["dpkg-query", "-S", name], text=True, capture_output=True)
            if known.returncode == 0:
                package = known.stdout.split(":", 1)[0]
                packages[package] = run("dpkg-query", "-W", "-f", "${Version}\n", package).splitlines()[0]
                break
        else:
            raise SystemExit(f"{file} belongs to no Debian package")
    return packages


def authorities():
    """Returns the certificates of Debian's package ca-certificates. What this machine trusts besides is left out."""
    names = run("dpkg-query", "-L", "ca-certificates").splitlines()
    files = sorted(Path(name) for name in names if name.startswith("/usr/share/ca-certificates/") and name.endswith(".crt"))
    if not files:
        raise SystemExit("the package ca-certificates has no certificates: is it installed in full?")
    return b"".join(file.read_bytes().rstrip() + b"\n" for file in files)


def texts(program):
    """Returns what the program says of itself to `man` and to shells: file to text. The files are where systems look below /usr/share."""
    with tempfile.TemporaryDirectory() as folder:
        run(program, "man", folder)
        found = {f"man/man1/{page.name}": page.read_text() for page in sorted(Path(folder).iterdir())}
    for shell, file in COMPLETIONS.items():
        found[file] = run(program, "completion", shell)
    return found


def stripped(program, folder):
    """Writes a copy without symbols into the folder, and returns its path."""
    copy = Path(folder) / "portcullis"
    subprocess.run(["strip", "--strip-unneeded", "-o", copy, program], check=True)
    return copy


def sha256(data):
    """Returns the hash of bytes, as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


class Tree:
    """A tree of files, written as a tar whose bytes depend on nothing but the files."""

    def __init__(self, time):
        self.time = time
        self.entries = {}

    def add(self, path, kind, mode, owner, data=b"", link=""):
        entry = tarfile.TarInfo(path.strip("/"))
        entry.type, entry.mode, entry.mtime, entry.size, entry.linkname = kind, mode, self.time, len(data), link
        entry.uid = entry.gid = owner
        self.entries[entry.name] = (entry, data)

    def folder(self, path, mode=0o755, owner=0):
        """Adds a folder, and those that it is in."""
        parent = os.path.dirname(path.strip("/"))
        if parent and parent not in self.entries:
            self.folder(parent)
        self.add(path, tarfile.DIRTYPE, mode, owner)

    def file(self, path, data, mode=0o644, owner=0):
        """Adds a file, and the folders that it is in."""
        parent = os.path.dirname(path.strip("/"))
        if parent and parent not in self.entries:
            self.folder(parent)
        self.add(path, tarfile.REGTYPE, mode, owner, data.encode() if isinstance(data, str) else data)

    def link(self, path, target):
        """Adds a symbolic link."""
        self.add(path, tarfile.SYMTYPE, 0o777, 0, link=target)

    def tar(self):
        """Returns the tar."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for _, (entry, data) in sorted(self.entries.items()):
                tar.addfile(entry, io.BytesIO(data))
        return out.getvalue()
