#!/usr/bin/env python3
"""Makes the tarball: `build.py PROGRAM OUT` writes OUT/portcullis-VERSION-linux-ARCH.tar.gz.

It is unpacked anywhere, and `./portcullis serve` in it serves conf/, as in a clone. The same program makes the same bytes.
"""

import gzip
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import parts

# Of the repository.
FILES = [
    "CHANGELOG.md",
    "LICENSE",
    "conf/catalog.yaml",
    "conf/schema/catalog.schema.json",
    "conf/schema/server.schema.json",
    "conf/server.yaml",
]


def main():
    asked = parts.arguments("Makes the tarball.", "the tarball").parse_args()
    name = f"portcullis-{parts.version()}-linux-{parts.machine()}"
    tree = parts.Tree(parts.epoch())
    with tempfile.TemporaryDirectory() as folder:
        tree.file(f"{name}/portcullis", parts.stripped(asked.program, folder).read_bytes(), 0o755)
    for file in FILES:
        tree.file(f"{name}/{file}", (parts.ROOT / file).read_bytes())
    tree.file(f"{name}/portcullis.service", (parts.ROOT / "packaging/systemd/portcullis.service").read_bytes())
    for file, text in parts.texts(asked.program).items():
        tree.file(f"{name}/share/{file}", text)
    for file in sorted(asked.licences.iterdir()) if asked.licences else []:
        tree.file(f"{name}/{file.name}", file.read_bytes())
    asked.out.mkdir(parents=True, exist_ok=True)
    file = asked.out / f"{name}.tar.gz"
    file.write_bytes(gzip.compress(tree.tar(), 9, mtime=0))
    print(f"{file} {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
