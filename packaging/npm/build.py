#!/usr/bin/env python3
"""Makes two npm packages: `build.py PROGRAM OUT` writes OUT/portcullis-gateway-VERSION.tgz and OUT/portcullis-gateway-SYSTEM-VERSION.tgz.

The first one has the command, which runs the program of the second one. npm installs that one as an optional dependency, where it
fits the system. Nothing is done at installation. The same program makes the same bytes, as `npm pack` would name them.
"""

import gzip
import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import glibc
import parts

# Node's names for Debian's.
PROCESSORS = {"amd64": "x64", "arm64": "arm64"}
OLDEST = (2, 28)


def description(name):
    """Returns what all packages say of themselves."""
    return {
        "name": name,
        "version": parts.version(),
        "description": parts.SUMMARY,
        "license": parts.LICENCE,
        "author": parts.maintainer(),
        "homepage": parts.project()["homepage"],
        "repository": {"type": "git", "url": parts.project()["repository"]},
        "publishConfig": {"access": "public"},
    }


def write(out, package, files):
    """Writes a package as `npm pack` names it."""
    tree = parts.Tree(parts.epoch())
    tree.file("package/package.json", json.dumps(package, indent=2) + "\n")
    tree.file("package/LICENSE", (parts.ROOT / "LICENSE").read_bytes())
    for path, (mode, data) in files.items():
        tree.file(f"package/{path}", data, mode)
    file = out / f"{package['name'].removeprefix('@').replace('/', '-')}-{parts.version()}.tgz"
    file.write_bytes(gzip.compress(tree.tar(), 9, mtime=0))
    print(f"{file} {file.stat().st_size / 1e6:.1f} MB")


def main():
    asked = parts.arguments("Makes the npm packages.", "the package with the program").parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    command = "bin/portcullis.js"
    carriers = {f"@portcullis-gateway/linux-{processor}": parts.version() for processor in PROCESSORS.values()}
    texts = {f"share/{name}": (0o644, text.encode()) for name, text in parts.texts(asked.program).items()}
    package = description("portcullis-gateway") | {
        "man": [name for name in texts if name.startswith("share/man/")],
        "bin": {"portcullis": command, "portcullis-gateway": command},
        "engines": {"node": ">=18"},
        "optionalDependencies": carriers,
    }
    readme = (HERE.parent / "registry.md").read_bytes()
    write(asked.out, package, {command: (0o755, (HERE / "launcher.js").read_bytes()), "README.md": (0o644, readme)} | texts)

    processor = PROCESSORS[parts.machine()]
    with tempfile.TemporaryDirectory() as folder:
        files = {"bin/portcullis": (0o755, parts.stripped(asked.program, folder).read_bytes())}
    for file in sorted(asked.licences.iterdir()) if asked.licences else []:
        files[file.name] = (0o644, file.read_bytes())
    # npm knows whether a system has glibc, and not which one: the command looks at that.
    system = {"os": ["linux"], "cpu": [processor], "libc": ["glibc"]}
    oldest = "{}.{}".format(*max(OLDEST, glibc.needed(asked.program)))
    write(asked.out, description(f"@portcullis-gateway/linux-{processor}") | system | {"glibc": oldest}, files)


if __name__ == "__main__":
    main()
