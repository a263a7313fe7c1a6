#!/usr/bin/env python3
"""Lists everything that is inside the program: `build.py PROGRAM OUT` writes OUT/LICENCES.txt and OUT/sbom.cdx.json.

These are the crates that the program is built from, the C libraries that come inside some of them, Rust's standard library, what
the linker adds, and Debian's packages that the container image has besides. A licence, a C library or a package of Debian that is
not listed here is an error: somebody must look at it first. Cargo describes the crates of tests, too, and downloads those that a
build did not need.
"""

import html
import json
import os
import re
import sys
import time
import uuid
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import parts

# Licences that may be inside the program. Of `A OR B` one is enough, of `A AND B` both are needed.
ALLOWED = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Unlicense", "Zlib"}
# C inside crates: the crate, then the library, its licence, its homepage, the file with its version
# and how it is written there, and the files with its licence.
C_LIBRARIES = {
    "libsqlite3-sys": ("sqlite", "blessing", "https://sqlite.org", "sqlite3/sqlite3.h", r'#define SQLITE_VERSION +"(.+?)"', []),
    "tikv-jemalloc-sys": ("jemalloc", "BSD-2-Clause", "https://jemalloc.net", "Cargo.toml", r'^version = ".+?\+(.+?)"', ["jemalloc/COPYING"]),
    "libz-ng-sys": ("zlib-ng", "Zlib", "https://github.com/zlib-ng/zlib-ng", "src/zlib-ng/zlib-ng.h.in", r'#define ZLIBNG_VERSION "(.+?)"', ["src/zlib-ng/LICENSE.md"]),
    "zstd-sys": ("zstd", "BSD-3-Clause", "https://facebook.github.io/zstd", "Cargo.toml", r'^version = ".+?\+zstd\.(.+?)"', ["zstd/LICENSE"]),
    # Its C and assembly are BoringSSL's, with changes of its own: the crate's version counts.
    "ring": ("boringssl-in-ring", "Apache-2.0 AND ISC", "https://github.com/briansmith/ring", "Cargo.toml", r'^version = "(.+?)"', ["LICENSE-BoringSSL", "LICENSE-other-bits"]),
}
# Debian's packages in the image, and their licences.
DEBIAN = {
    "libc6": "LGPL-2.1-or-later",
    "libgcc-s1": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "ca-certificates": "MPL-2.0 AND GPL-2.0-or-later",
}
# Where packaging/portable.sh has its linker.
TOOLS = Path(os.environ.get("CARGO_TARGET_DIR") or parts.ROOT / "target") / "zig"
# What compiles C while a crate is built.
COMPILERS = {"cc", "cmake"}
# A part of the program that is no crate.
Library = namedtuple("Library", "name version language licence home texts")
SQLITE = "The authors of SQLite disclaim copyright to its source code: it is in the public domain (https://sqlite.org/copyright.html).\n"
LICENCE_FILE = re.compile(r"(?i)^(licen[cs]e|copying|notice|unlicense|copyright)")


def crates():
    """Returns the packages that are in the program, as Cargo describes them; what each needs; and
    which of them compile C."""
    target = re.search(r"^host: (.+)$", parts.run("rustc", "-vV", cwd=parts.ROOT), re.M).group(1)
    tree = parts.run("cargo", "tree", "--locked", "-p", "portcullis-cli", "-e", "normal,no-proc-macro", "--prefix", "none", "--target", target, "--format", "{p}", cwd=parts.ROOT)
    inside = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    known = json.loads(parts.run("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target, cwd=parts.ROOT))
    found = [package for package in known["packages"] if (package["name"], "v" + package["version"]) in inside]
    if len(found) != len(inside):
        raise SystemExit("cargo tree and cargo metadata disagree about what is inside the program")
    needs = {node["id"]: [need["pkg"] for need in node["deps"]] for node in known["resolve"]["nodes"]}
    names = {package["id"]: package["name"] for package in known["packages"]}
    builds = lambda need: any(kind["kind"] == "build" for kind in need["dep_kinds"])
    compile = {node["id"] for node in known["resolve"]["nodes"] if any(names[need["pkg"]] in COMPILERS and builds(need) for need in node["deps"])}
    return sorted(found, key=lambda package: (package["name"], package["version"])), needs, compile


def expression(licence):
    """Returns a licence as SPDX writes it; older crates write `/` for OR."""
    return re.sub(r"\s*/\s*", " OR ", licence or "")


def is_allowed(licence):
    """Returns whether an SPDX expression is fulfilled by what is allowed. What cannot be read is not."""
    # Brackets from the inside out: a fulfilled one becomes 0BSD, any other one a licence that does not exist.
    inner = re.compile(r"\(([^()]*)\)")
    rest = expression(licence)
    while bracket := inner.search(rest):
        rest = rest[: bracket.start()] + ("0BSD" if is_allowed(bracket.group(1)) else "none") + rest[bracket.end() :]
    return any(all(part.strip() in ALLOWED for part in choice.split(" AND ")) for choice in rest.split(" OR "))


def texts(package, all_packages):
    """Returns the texts of a crate's licence."""
    def of(package):
        folder = Path(package["manifest_path"]).parent
        files = [file for file in sorted(folder.iterdir()) if file.is_file() and LICENCE_FILE.match(file.name)]
        return [file.read_text(errors="replace") for file in files]

    if package["source"] is None:
        return [(parts.ROOT / "LICENSE").read_text()]
    if found := of(package):
        return found
    for other in all_packages:
        # Crates of one repository have one licence.
        if other["repository"] == package["repository"] and expression(other["license"]) == expression(package["license"]) and (found := of(other)):
            return found
    if package["license"] == "Apache-2.0":
        # The text is the same for everybody. It is the project's own, too.
        return [f"Copyright the authors of {package['name']} ({package['repository']})\n\n" + (parts.ROOT / "LICENSE").read_text()]
    if package["license"] == "MIT":
        return [f"Copyright (c) the authors of {package['name']} ({package['repository']})\n\n" + (HERE / "MIT.txt").read_text()]
    raise SystemExit(f"{package['name']}: there is no text of its licence, {package['license']}")


def c_libraries(packages, compile):
    """Returns the C libraries."""
    found = []
    for package in packages:
        if (package["links"] or package["id"] in compile) and package["name"] not in C_LIBRARIES:
            raise SystemExit(f"{package['name']} brings C: name what is inside it in packaging/licences/build.py")
        if package["name"] in C_LIBRARIES:
            name, licence, home, file, pattern, files = C_LIBRARIES[package["name"]]
            folder = Path(package["manifest_path"]).parent
            version = re.search(pattern, (folder / file).read_text(), re.M).group(1)
            found.append(Library(name, version, "C", licence, home, [(folder / file).read_text() for file in files] or [SQLITE]))
    missing = set(C_LIBRARIES) - {package["name"] for package in packages}
    if missing:
        raise SystemExit(f"packaging/licences/build.py names crates that are no longer inside: {sorted(missing)}")
    return found


def standard_library():
    """Returns Rust's standard library, with the notices of the crates inside it on this system."""
    ask = lambda *what: parts.run("rustc", *what, cwd=parts.ROOT).strip()
    page = Path(ask("--print", "sysroot")) / "share/doc/rust/COPYRIGHT-library.html"
    if not page.is_file():
        raise SystemExit(f"{page} is missing, which has the notices of Rust's standard library: install Rust with rustup")
    inside = {file.name.split("-")[0].removeprefix("lib") for file in Path(ask("--print", "target-libdir")).glob("*.rlib")}
    head, *sections = page.read_text().split("<h3>📦 ")
    kept = [head] + [section for section in sections if re.match(r"(.+?)-\d", section).group(1).replace("-", "_") in inside]
    text = html.unescape(re.sub(r"<title>.*?</title>|<[^>]+>", "", "".join(kept)))
    text = "\n".join(line.rstrip() for line in text.splitlines())
    version = re.search(r"^release: (.+)$", ask("-vV"), re.M).group(1)
    licence = "(MIT OR Apache-2.0) AND Unicode-3.0"
    return Library("rust-std", version, "Rust", licence, "https://www.rust-lang.org", [re.sub(r"\n{3,}", "\n\n", text)])


def linked(program):
    """Returns what the linker of packaging/portable.sh puts into a program, where another one needs Debian's libgcc."""
    if any("libgcc_s" in name for name in parts.libraries(program)):
        return []
    (zig,) = TOOLS.glob("lib/python*/site-packages/ziglang")
    # 220108 is 22.1.8.
    number = int(re.search(r"define _LIBCPP_VERSION (\d+)", (zig / "lib/libcxx/include/__config").read_text()).group(1))
    llvm = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    version = parts.run(zig / "zig", "version").strip()
    return [
        Library("libunwind", llvm, "C++", "Apache-2.0 WITH LLVM-exception", "https://llvm.org", [(zig / "lib/libunwind/LICENSE.TXT").read_text()]),
        Library("zig-compiler-rt", version, "Zig", "MIT", "https://ziglang.org", [(zig / "LICENSE").read_text()]),
    ]


def licences(packages, libraries, debian):
    """Returns the text of all licences. The same text stands there once."""
    users = {}
    for package in packages:
        for text in texts(package, packages):
            users.setdefault(text.strip(), []).append(f"{package['name']} {package['version']} ({expression(package['license'])})")
    for name, version, language, licence, _, files in libraries:
        for text in files:
            users.setdefault(text.strip(), []).append(f"{name} {version} ({language}; {licence})")
    out = ["Portcullis is made of these parts. Each stands above its licence.\n"]
    out.append("The container image has packages of Debian besides. Their licences are in the image, in /usr/share/doc and\n/usr/share/common-licenses:\n")
    out += [f"* {name} {version} ({DEBIAN[name]})" for name, version in sorted(debian.items())] + [""]
    for text, names in sorted(users.items(), key=lambda item: item[1]):
        out.append("=" * 100 + "\n" + "\n".join(sorted(set(names))) + "\n" + "-" * 100 + "\n" + text + "\n")
    return "\n".join(out)


def checksums():
    """Returns the SHA-256 of each crate as Cargo.lock has it."""
    found = re.findall(r'name = "(.+?)"\nversion = "(.+?)"\nsource = .+?\nchecksum = "(.+?)"', (parts.ROOT / "Cargo.lock").read_text())
    return {(name, version): checksum for name, version, checksum in found}


def sbom(packages, needs, libraries, debian):
    """Returns the list of parts in the format CycloneDX 1.5."""
    sums, components, dependencies = checksums(), [], []
    ref = {package["id"]: f"pkg:cargo/{package['name']}@{package['version']}" for package in packages}
    of_crate = {package["name"]: ref[package["id"]] for package in packages}
    of_library = {library.name: f"pkg:generic/{library.name}@{library.version}" for library in libraries}
    inside = {crate: of_library[name] for crate, (name, *_) in C_LIBRARIES.items()} 
    besides = [purl for name, purl in of_library.items() if purl not in inside.values()]
    root = of_crate["portcullis-cli"]
    for package in packages:
        name, version, purl = package["name"], package["version"], ref[package["id"]]
        depends = {ref[need] for need in needs[package["id"]] if need in ref} | ({inside[name]} if name in inside else set())
        depends |= set(besides) if purl == root else set()
        dependencies.append({"ref": purl, "dependsOn": sorted(depends)})
        if purl == root:
            continue
        component = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "licenses": [{"expression": expression(package["license"])}]}
        if (name, version) in sums:
            component["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
        components.append(component)
    for name, version, _, licence, home, _ in libraries:
        purl = of_library[name]
        components.append({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "licenses": [{"expression": licence}], "externalReferences": [{"type": "website", "url": home}]})
    for name, version in sorted(debian.items()):
        purl = f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={parts.machine()}"
        components.append({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "licenses": [{"expression": DEBIAN[name]}], "properties": [{"name": "portcullis:only-in", "value": "image"}]})
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(parts.epoch())),
            "component": {"type": "application", "bom-ref": root, "name": "portcullis", "version": parts.version(), "purl": root, "licenses": [{"expression": parts.LICENCE}]},
        },
        "components": components,
        "dependencies": dependencies,
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom, sort_keys=True))
    return json.dumps({"serialNumber": f"urn:uuid:{serial}"} | bom, indent=1) + "\n"


def main():
    if len(sys.argv) != 3:
        raise SystemExit("usage: build.py PROGRAM OUT")
    program, out = map(Path, sys.argv[1:])
    packages, needs, compile = crates()
    wrong = [f"{package['name']}: {package['license']}" for package in packages if not is_allowed(package["license"])]
    if wrong:
        raise SystemExit("licences that nobody has allowed yet: " + ", ".join(wrong))
    libraries = [*c_libraries(packages, compile), standard_library(), *linked(program)]
    debian = parts.debian_packages([*parts.libraries(program).values(), Path("/usr/sbin/update-ca-certificates")])
    if unknown := sorted(set(debian) - set(DEBIAN)):
        raise SystemExit(f"packages of Debian whose licences packaging/licences/build.py does not name yet: {', '.join(unknown)}")
    out.mkdir(parents=True, exist_ok=True)
    (out / "LICENCES.txt").write_text(licences(packages, libraries, debian))
    (out / "sbom.cdx.json").write_text(sbom(packages, needs, libraries, debian))
    print(f"{len(packages)} crates, {len(libraries)} libraries, {len(debian)} Debian packages")


if __name__ == "__main__":
    main()
