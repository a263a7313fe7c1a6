#!/usr/bin/env python3
"""Packs the Helm chart: `pack.py OUT` writes OUT/portcullis-chart-VERSION.tgz, as `helm package` would, without Helm."""

import gzip
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import parts

tree = parts.Tree(parts.epoch())
for file in sorted((HERE / "portcullis").rglob("*")):
    if file.is_file():
        tree.file(str(file.relative_to(HERE)), file.read_bytes())
out = Path(sys.argv[1]) / f"portcullis-chart-{parts.version()}.tgz"
out.write_bytes(gzip.compress(tree.tar(), mtime=0))
print(out)
