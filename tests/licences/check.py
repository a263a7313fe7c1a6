#!/usr/bin/env python3
"""Checks the licence and the source of each crate that the program, its tests or its fuzz targets are built from.

`check.py` asks Cargo, for the platform of this machine. `check.py FILE…` reads files with the output of `cargo metadata` instead.
The list of allowed licences is in packaging/licences/build.py, which also lists what is inside the program.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "packaging/licences"))
import build

MANIFESTS = ("Cargo.toml", "fuzz/Cargo.toml")
# The sources of crates. Besides these, only folders of this repository are allowed.
SOURCES = {"registry+https://github.com/rust-lang/crates.io-index"}
# Crates that may have another licence: the crate, that licence, and the reason.
EXCEPTIONS = {
    "libfuzzer-sys": ("(MIT OR Apache-2.0) AND NCSA", "NCSA asks for its notice only, and the crate is in fuzz targets, which nobody gets"),
}


def metadata(manifest):
    """Returns the packages of a workspace, as Cargo describes them."""
    host = re.search(r"^host: (.+)$", subprocess.check_output(["rustc", "-vV"], text=True), re.M).group(1)
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host, "--manifest-path", ROOT / manifest]
    return json.loads(subprocess.check_output(command))


def problems(package, exceptions):
    """Returns what is wrong with a package: a sentence each."""
    name, licence, source = package["name"], package["license"], package["source"]
    named = f"{name} {package['version']}"
    is_exception = name in exceptions and licence == exceptions[name][0]
    if not build.is_allowed(licence) and not is_exception:
        yield f"{named} has the licence {licence}, which is not allowed" if licence else f"{named} names no licence"
    if source is None and not Path(package["manifest_path"]).is_relative_to(ROOT):
        yield f"{named} comes from a folder outside of this repository: {package['manifest_path']}"
    if source is not None and source not in SOURCES:
        yield f"{named} comes from {source}, which is not allowed"


def check(workspaces, exceptions):
    """Returns the problems of all packages, and the number of packages."""
    packages = {(package["name"], package["version"]): package for workspace in workspaces for package in workspace["packages"]}
    found = [problem for _, package in sorted(packages.items()) for problem in problems(package, exceptions)]
    known = {(name, package["license"]) for (name, _), package in packages.items()}
    unused = [name for name, (licence, _) in exceptions.items() if (name, licence) not in known]
    return found + [f"{name} is an exception, but no crate needs it: remove it" for name in unused], len(packages)


def main(files):
    workspaces = [json.loads(Path(file).read_text()) for file in files] or [metadata(manifest) for manifest in MANIFESTS]
    found, count = check(workspaces, {} if files else EXCEPTIONS)
    if found:
        help = "Replace the crate; or allow the licence in packaging/licences/build.py, or the crate in tests/licences/check.py, with a reason."
        raise SystemExit("\n".join([*found, help]))
    print(f"{count} crates: all licences and sources are allowed")


if __name__ == "__main__":
    main(sys.argv[1:])
