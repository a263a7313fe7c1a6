#!/usr/bin/env python3
"""Packs the Helm chart: `pack.py OUT` writes OUT/portcullis-chart-VERSION.tgz, as `helm package` would, without Helm."""

import gzip
import json
import sys
from email.utils import parseaddr
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import parts

# These stand in Cargo.toml only. JSON's strings are YAML's, too.
name, mail = parseaddr(parts.maintainer())
known = {"home": parts.project()["homepage"], "sources": [parts.project()["repository"]], "maintainers": [{"name": name, "email": mail}]}
tree = parts.Tree(parts.epoch())
for file in sorted((HERE / "portcullis").rglob("*")):
    if file.is_file():
        more = "".join(f"{key}: {json.dumps(value)}\n" for key, value in known.items()) if file.name == "Chart.yaml" else ""
        tree.file(str(file.relative_to(HERE)), file.read_bytes() + more.encode())
out = Path(sys.argv[1]) / f"portcullis-chart-{parts.version()}.tgz"
out.write_bytes(gzip.compress(tree.tar(), mtime=0))
print(out)
