#!/usr/bin/env python3
"""Writes what the identity libraries of AWS, Azure and Google ask of mock servers into `golden/`.

Usage: judge.py [--check] [NAME …]

With `--check` nothing is written: the command fails if a library now asks something else than its file says.
"""

import argparse
import difflib
import importlib.metadata
import json
import os
import pathlib
import sys
import tempfile
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE / "golden"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("names", nargs="*", metavar="NAME")
    options = arguments.parse_args()

    sources = load_sources()
    unknown = set(options.names) - sources.keys()
    if unknown:
        sys.exit(f"no such source: {', '.join(sorted(unknown))}")
    texts = {name: golden_text(name, sources[name]) for name in options.names or sources}
    if options.check:
        differences = compare(texts, whole=not options.names)
        print("".join(differences), end="")
        print(f"{len(texts)} sources of identities, {len(differences)} differ")
        sys.exit(1 if differences else 0)
    GOLDEN.mkdir(exist_ok=True)
    for name, text in texts.items():
        (GOLDEN / f"{name}.json").write_text(text, encoding="utf-8")
    if not options.names:
        for path in GOLDEN.glob("*.json"):
            if path.stem not in texts:
                path.unlink()
    print(f"{len(texts)} files are written")


def load_sources():
    # Some libraries read the environment when they are loaded.
    os.environ.clear()
    from sources import aws, azure, google

    return {**aws.SOURCES, **azure.SOURCES, **google.SOURCES}


def golden_text(name, source):
    """Lets the library obtain an identity, and returns the text of its file."""
    from sources import CLOCK
    from wire import Wire, relative_time

    print(name, file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        for path, text in source.files.items():
            (pathlib.Path(folder) / path).write_text(fill_in(text, folder), encoding="utf-8")
        certificate = write_certificate(folder)
        environment = {key: fill_in(value, folder) for key, value in source.environment.items()}
        wire = Wire(source.answers, certificate.public_key())
        # A home without files of clouds. Only what is written here leads to an identity.
        with mock.patch.dict(os.environ, {"HOME": folder, **environment}, clear=True), wire.connected():
            obtained = source.obtain(folder)
    if wire.unexpected:
        raise AssertionError(f"{name}: unexpected requests: {wire.unexpected}")
    for key in ("expires_at", "refresh_at"):
        if key in obtained:
            obtained[key] = relative_time(obtained[key])
    golden = {
        "about": source.about,
        "library": f"{source.library} {importlib.metadata.version(source.library)}",
        **({"clock": CLOCK.strftime("%Y-%m-%dT%H:%M:%SZ")} if source.signed else {}),
        "given": {
            key: value
            for key in ("arguments", "environment", "files")
            if (value := getattr(source, key))
        },
        "exchanges": wire.exchanges,
        "obtained": obtained,
    }
    text = json.dumps(golden, indent=2, ensure_ascii=False) + "\n"
    if folder in text:
        raise AssertionError(f"{name}: a path of this run is in its file")
    return text


def fill_in(text, folder):
    return text.replace("<folder>", folder)


def write_certificate(folder):
    """Writes the private key and the certificate of a client, as Entra wants them, and returns the certificate."""
    from cryptography import x509

    account = json.loads((HERE.parent / "support" / "service_account.json").read_text(encoding="utf-8"))
    pem = (HERE / "certificate.pem").read_text(encoding="utf-8")
    (pathlib.Path(folder) / "certificate.pem").write_text(account["private_key"] + pem, encoding="utf-8")
    return x509.load_pem_x509_certificate(pem.encode())


def compare(texts, whole):
    """The difference of each source whose file is not the same."""
    differences = []
    for name, text in texts.items():
        path = GOLDEN / f"{name}.json"
        written = path.read_text(encoding="utf-8") if path.exists() else ""
        if written != text:
            lines = difflib.unified_diff(written.splitlines(True), text.splitlines(True), f"golden/{name}.json", "now")
            differences.append("".join(lines))
    for path in sorted(GOLDEN.glob("*.json")) if whole else []:
        if path.stem not in texts:
            differences.append(f"golden/{path.name}: no source has this name\n")
    return differences


if __name__ == "__main__":
    main()
