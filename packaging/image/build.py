#!/usr/bin/env python3
"""Makes the container image: `build.py PROGRAM OUT` writes OUT/portcullis-VERSION-ARCH.oci.tar.

The image has no shell and no package manager: the program, the libraries that it is loaded with, the certificates that it
trusts, and a configuration in which nobody may call. The libraries and certificates are those of this machine's Debian
packages. No engine and no network are needed. The same program and the same system make the same bytes.
"""

import gzip
import json
import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import parts

USER = 65532
HERE = Path(__file__).resolve().parent
DATA = "/var/lib/portcullis"


def base(program, now):
    """Returns the layer of what is the system's: it changes with Debian's updates only."""
    tree = parts.Tree(now)
    libraries = parts.libraries(program)
    # As on Debian: /lib is in /usr.
    for name in sorted({path.split("/")[2] for path in libraries}):
        tree.folder(f"/usr/{name}")
        tree.link(f"/{name}", f"usr/{name}")
    for name, file in libraries.items():
        tree.file(name, file.read_bytes(), 0o755)
    tree.file(parts.AUTHORITIES, parts.authorities())
    tree.file("/etc/nsswitch.conf", "hosts: files dns\n")
    tree.file("/etc/passwd", f"root:x:0:0:root:/:/sbin/nologin\nportcullis:x:{USER}:{USER}:Portcullis:{DATA}:/sbin/nologin\n")
    tree.file("/etc/group", f"root:x:0:\nportcullis:x:{USER}:\n")
    tree.folder("/tmp", 0o1777)
    tree.file("/etc/os-release", Path("/etc/os-release").read_bytes())
    packages = parts.debian_packages(libraries.values()) | parts.debian_packages(["/usr/sbin/update-ca-certificates"])
    for package, version in packages.items():
        # Scanners look for known flaws by these.
        tree.file(f"/var/lib/dpkg/status.d/{package}", parts.run("dpkg-query", "-s", package))
        copyright = Path(f"/usr/share/doc/{package}/copyright").read_text()
        tree.file(f"/usr/share/doc/{package}/copyright", copyright)
        for name in re.findall(r"/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]", copyright):
            # The text of a licence must come with what is under it.
            tree.file(name, Path(name).read_bytes())
    return tree


def own(program, licences, now):
    """Returns the layer of what is ours."""
    tree = parts.Tree(now)
    with tempfile.TemporaryDirectory() as folder:
        tree.file("/usr/bin/portcullis", parts.stripped(program, folder).read_bytes(), 0o755)
    for name in ("server.yaml", "catalog.yaml"):
        tree.file(f"/etc/portcullis/{name}", (HERE / name).read_bytes())
    tree.folder(DATA, 0o700, USER)
    tree.file("/usr/share/doc/portcullis/LICENSE", (parts.ROOT / "LICENSE").read_bytes())
    for file in sorted(Path(licences).iterdir()) if licences else []:
        tree.file(f"/usr/share/doc/portcullis/{file.name}", file.read_bytes())
    return tree


def config(layers, now, revision):
    """Returns the image's configuration: who runs what, and how it ends."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    labels = {
        "title": parts.TITLE,
        "description": parts.SUMMARY,
        "version": parts.version(),
        "revision": revision,
        "created": created,
        "licenses": parts.LICENCE,
        "authors": parts.maintainer(),
        "url": parts.project()["homepage"],
        "source": parts.project()["repository"],
    }
    return {
        "created": created,
        "architecture": parts.machine(),
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {"8080/tcp": {}, "9090/tcp": {}},
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/portcullis"],
            "Cmd": ["serve"],
            "Volumes": {DATA: {}},
            "WorkingDir": DATA,
            "Labels": {f"org.opencontainers.image.{name}": value for name, value in labels.items() if value},
            "StopSignal": "SIGTERM",
            # Docker reads this. A command given to `docker run --health-cmd` would need a shell.
            "Healthcheck": {"Test": ["CMD", "/usr/bin/portcullis", "ready"], "Interval": 10**10, "Timeout": 5 * 10**9},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{parts.sha256(tar)}" for tar in layers]},
        "history": [{"created": created, "created_by": "packaging/image/build.py"} for _ in layers],
    }


def archive(layers, now, revision):
    """Returns an OCI layout as one tar. `manifest.json` is there for `docker load`."""
    tree = parts.Tree(now)

    def blob(data, kind):
        digest = parts.sha256(data)
        tree.file(f"blobs/sha256/{digest}", data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    def text(value):
        return json.dumps(value, indent=1, sort_keys=True).encode()

    settings = blob(text(config(layers, now, revision)), "config.v1+json")
    packed = [blob(gzip.compress(tar, 6, mtime=0), "layer.v1.tar+gzip") for tar in layers]
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"}
    image = blob(text(manifest | {"config": settings, "layers": packed}), "manifest.v1+json")
    # The tag, for skopeo and umoci. The whole name, for `docker load` and `podman load`.
    name = f"portcullis:{parts.version()}"
    image["annotations"] = {"org.opencontainers.image.ref.name": parts.version(), "io.containerd.image.name": f"docker.io/library/{name}"}
    image["platform"] = {"architecture": parts.machine(), "os": "linux"}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [image]}
    tree.file("index.json", text(index))
    tree.file("oci-layout", '{"imageLayoutVersion": "1.0.0"}')
    place = lambda part: "blobs/sha256/" + part["digest"].removeprefix("sha256:")
    docker = {"Config": place(settings), "RepoTags": [name], "Layers": [place(p) for p in packed]}
    tree.file("manifest.json", text([docker]))
    return tree.tar(), image["digest"]


def main():
    asked = parts.arguments("Makes the container image.", "the image")
    asked.add_argument("--revision", default=parts.revision(), help="the commit that the image names [default: what git says]")
    asked = asked.parse_args()
    now = parts.epoch()
    layers = [base(asked.program, now).tar(), own(asked.program, asked.licences, now).tar()]
    tar, digest = archive(layers, now, asked.revision)
    file = asked.out / f"portcullis-{parts.version()}-{parts.machine()}.oci.tar"
    asked.out.mkdir(parents=True, exist_ok=True)
    file.write_bytes(tar)
    print(f"{file} {digest} {len(tar) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
