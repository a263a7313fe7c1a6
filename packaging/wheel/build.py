#!/usr/bin/env python3
"""Makes two Python wheels: `build.py PROGRAM OUT` writes OUT/portcullis_gateway-VERSION-py3-none-*.whl.

One carries the program, and its name tells which glibc the program needs. The other one is for all other systems: there its
command says in a sentence that there is no program. pip takes the one that fits best. Python's standard library is enough to make
them. The same program makes the same bytes.
"""

import base64
import hashlib
import platform
import sys
import tempfile
import time
import zipfile
from email.utils import parseaddr
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import glibc
import parts

# The oldest glibc that a wheel is named for.
OLDEST = (2, 28)
PACKAGE = "portcullis_gateway"
MAIN = f"from {PACKAGE} import main\n\nmain()\n"
SCRIPTS = f"[console_scripts]\nportcullis = {PACKAGE}:main\nportcullis-gateway = {PACKAGE}:main\n"


def tag(program):
    """Returns the system that a wheel with this program is for."""
    major, minor = max(OLDEST, glibc.needed(program))
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def metadata(licences):
    """Returns what the index of packages shows."""
    name, mail = parseaddr(parts.maintainer())
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {PACKAGE.replace('_', '-')}",
        f"Version: {parts.version()}",
        f"Summary: {parts.SUMMARY}",
        f"Maintainer: {name}",
        f"Maintainer-email: {mail}",
        f"License-Expression: {parts.LICENCE}",
        *[f"License-File: {file}" for file in licences],
        f"Project-URL: Homepage, {parts.project()['homepage']}",
        f"Project-URL: Repository, {parts.project()['repository']}",
        "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (HERE.parent / "registry.md").read_text()


def wheel(system, files, sboms, licences):
    """Returns the name of a wheel, and all its files: path to mode and bytes."""
    info = f"{PACKAGE}-{parts.version()}.dist-info"
    purelib = "true" if system == "any" else "false"
    found = {
        f"{PACKAGE}/__init__.py": (HERE / "launcher.py").read_text(),
        f"{PACKAGE}/__main__.py": MAIN,
        f"{info}/METADATA": metadata(licences),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: portcullis\nRoot-Is-Purelib: {purelib}\nTag: py3-none-{system}\n",
        f"{info}/entry_points.txt": SCRIPTS,
    }
    found |= {f"{info}/licenses/{name}": data for name, data in licences.items()}
    found |= {f"{info}/sboms/{name}": data for name, data in sboms.items()}
    packed = {path: (0o644, data if isinstance(data, bytes) else data.encode()) for path, data in found.items()} | files
    rows = [f"{path},sha256={digest(data)},{len(data)}\n" for path, (_, data) in sorted(packed.items())]
    record = f"{info}/RECORD"
    packed[record] = (0o644, "".join([*rows, f"{record},,\n"]).encode())
    return f"{PACKAGE}-{parts.version()}-py3-none-{system}.whl", packed


def digest(data):
    """Returns the hash of a file as RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write(out, name, files):
    """Writes a wheel. What an installer needs stands at its end, as the format asks for."""
    now = time.gmtime(parts.epoch())[:6]
    with zipfile.ZipFile(out / name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, (mode, data) in sorted(files.items(), key=lambda item: (".dist-info/" in item[0], item[0])):
            entry = zipfile.ZipInfo(path, now)
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, (0o100000 | mode) << 16
            archive.writestr(entry, data)
    print(f"{out / name} {(out / name).stat().st_size / 1e6:.1f} MB")


def main():
    asked = parts.arguments("Makes the Python wheels.", "the wheel with the program").parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        files = {f"{PACKAGE}/bin/portcullis": (0o755, parts.stripped(asked.program, folder).read_bytes())}
    share = f"{PACKAGE}-{parts.version()}.data/data/share"
    files |= {f"{share}/{name}": (0o644, text.encode()) for name, text in parts.texts(asked.program).items()}
    own = {"LICENSE": (parts.ROOT / "LICENSE").read_bytes()}
    given = {file.name: file.read_bytes() for file in sorted(asked.licences.iterdir())} if asked.licences else {}
    sboms = {name: data for name, data in given.items() if name.endswith(".json")}
    licences = own | {name: data for name, data in given.items() if name not in sboms}
    write(asked.out, *wheel(tag(asked.program), files, sboms, licences))
    write(asked.out, *wheel("any", {}, {}, own))


if __name__ == "__main__":
    main()
