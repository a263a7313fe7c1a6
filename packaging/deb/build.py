#!/usr/bin/env python3
"""Makes the Debian package: `build.py PROGRAM OUT` writes OUT/portcullis_VERSION_ARCH.deb.

Needs dpkg-dev and binutils. It depends on the oldest glibc that has what the program needs.
"""

import gzip
import os
import re
import subprocess
import sys
import tempfile
from email.utils import formatdate
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import glibc
import parts

CONFIGURATION = ["server.yaml", "catalog.yaml"]
DOC = "usr/share/doc/portcullis"


def needs(program, folder):
    """Returns the Debian packages that the program is loaded with, each with its lowest version."""
    (folder / "debian").mkdir()
    (folder / "debian/control").write_text("Source: portcullis\n\nPackage: portcullis\nArchitecture: any\n")
    said = parts.run("dpkg-shlibdeps", "-O", program, cwd=folder)
    depends = re.search(r"^shlibs:Depends=(.+)$", said, re.M).group(1)
    # In Debian's list, what moved into libc from another library of glibc is as new as the move. The loader does not mind.
    return re.sub(r"libc6 \(>= [\d.]+\)", "libc6 (>= {}.{})".format(*glibc.needed(program)), depends)


def add(root, path, data, mode=0o644):
    """Writes a file of the package."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    file.chmod(mode)


def packed(text):
    """Returns a text as Debian wants it: gzip, without a time."""
    return gzip.compress(text.encode() if isinstance(text, str) else text, 9, mtime=0)


def fill(root, asked, version, maintainer):
    """Writes all files of the package below a folder."""
    add(root, "usr/bin/portcullis", parts.stripped(asked.program, root.parent).read_bytes(), 0o755)
    add(root, "lib/systemd/system/portcullis.service", (parts.ROOT / "packaging/systemd/portcullis.service").read_bytes())
    for name in CONFIGURATION:
        add(root, f"etc/portcullis/{name}", (HERE / name).read_bytes())
    (root / "etc/portcullis/secrets").mkdir()
    for name, text in parts.texts(asked.program).items():
        if name.startswith("man/"):
            add(root, f"usr/share/{name}.gz", packed(text))
        else:
            # Debian's zsh looks for what is not its own there.
            add(root, f"usr/share/{name.replace('zsh/site-functions', 'zsh/vendor-completions')}", text)
    now = formatdate(parts.epoch())
    add(root, f"{DOC}/changelog.gz", packed(f"portcullis ({version}) unstable; urgency=medium\n\n  * See NEWS.md.gz.\n\n -- {maintainer}  {now}\n"))
    add(root, f"{DOC}/NEWS.md.gz", packed((parts.ROOT / "CHANGELOG.md").read_bytes()))
    add(root, f"{DOC}/copyright", (HERE / "copyright").read_bytes())
    for file in sorted(asked.licences.iterdir()) if asked.licences else []:
        add(root, f"{DOC}/{file.name}.gz", packed(file.read_bytes()))


def control(root, version, maintainer, depends):
    """Writes what dpkg wants to know."""
    size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) // 1024
    fields = {
        "Package": "portcullis",
        "Version": version,
        "Architecture": parts.machine(),
        "Maintainer": maintainer,
        "Installed-Size": str(size),
        "Pre-Depends": "init-system-helpers (>= 1.54~)",
        "Depends": f"{depends}, adduser, ca-certificates",
        "Section": "net",
        "Priority": "optional",
        "Homepage": parts.project()["homepage"],
        "Description": parts.SUMMARY + "\n Programs send OpenAI, Anthropic or Gemini requests to one address, with keys\n"
        " that you issue. Portcullis forwards them to many accounts at many providers,\n with failover, limits and a ledger of what was spent.",
    }
    files = [file for file in sorted(root.rglob("*")) if file.is_file()]
    md5 = [f"{parts.run('md5sum', file).split()[0]}  {file.relative_to(root)}\n" for file in files if not str(file.relative_to(root)).startswith("etc/")]
    add(root, "DEBIAN/control", "".join(f"{name}: {value}\n" for name, value in fields.items()))
    add(root, "DEBIAN/conffiles", "".join(f"/etc/portcullis/{name}\n" for name in CONFIGURATION))
    add(root, "DEBIAN/md5sums", "".join(md5))
    for name in ("postinst", "prerm", "postrm"):
        add(root, f"DEBIAN/{name}", (HERE / name).read_bytes(), 0o755)


def main():
    asked = parts.arguments("Makes the Debian package.", "the package")
    asked.add_argument("--version", default=parts.version(), help="the version of the package [default: that of the program]")
    asked = asked.parse_args()
    os.umask(0o022)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        root = folder / "root"
        root.mkdir()
        fill(root, asked, asked.version, parts.maintainer())
        control(root, asked.version, parts.maintainer(), needs(root / "usr/bin/portcullis", folder))
        asked.out.mkdir(parents=True, exist_ok=True)
        file = asked.out / f"portcullis_{asked.version}_{parts.machine()}.deb"
        # The time of the commit makes the same bytes for the same commit.
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(parts.epoch())}
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, file], check=True, env=environment, stdout=subprocess.DEVNULL)
    print(f"{file} {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
