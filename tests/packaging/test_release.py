"""The release: a clean clone makes all packages with one command, and their checksums are right."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

from machine import highest, run

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = [
    "LICENCES.txt",
    "SHA256SUMS",
    "portcullis-VERSION-ARCH.oci.tar",
    "portcullis-VERSION-linux-ARCH.tar.gz",
    "portcullis-chart-VERSION.tgz",
    "portcullis-gateway-VERSION.tgz",
    f"portcullis-gateway-linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}-VERSION.tgz",
    "portcullis.service",
    "portcullis_VERSION_ARCH.deb",
    "portcullis_gateway-VERSION-py3-none-any.whl",
    f"portcullis_gateway-VERSION-py3-none-manylinux_2_28_{platform.machine()}.whl",
    "sbom.cdx.json",
]
# A program that writes a manual page and a script for shells, and is packed in a moment.
SMALL = r"""
#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
    char path[4096];
    if (count < 3 || strcmp(words[1], "man") != 0)
        return puts("complete portcullis") < 0;
    snprintf(path, sizeof path, "%s/portcullis.1", words[2]);
    FILE *page = fopen(path, "w");
    return page == NULL || fputs(".TH portcullis 1\n", page) < 0 || fclose(page) != 0;
}
"""
# What changes the packages, whoever makes them, is not taken over.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("SOURCE_DATE_EPOCH", "PROGRAM", "PROFILE")}
# Builds the program in a third of the time: what it is linked with is the same. The profile is of a program that is optimised.
QUICK = {"PROFILE": "none", "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0", "CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}


def release(clone, out, program=None, **environment):
    """Runs the script of a clone."""
    environment = ENVIRONMENT | ({"PROGRAM": str(program)} if program else {}) | environment
    return subprocess.run([Path(clone, "packaging/release.sh"), out], text=True, capture_output=True, env=environment)


def labels(out):
    """Returns the labels of the image."""
    (image,) = Path(out).glob("*.oci.tar")
    with tarfile.open(image) as tar:
        (docker,) = json.load(tar.extractfile("manifest.json"))
        return json.load(tar.extractfile(docker["Config"]))["config"]["Labels"]


class ReleaseTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.clone = self.cloned("clone")
        self.program = self.folder / "small"
        subprocess.run(["cc", "-x", "c", "-o", self.program, "-"], input=SMALL, text=True, check=True)

    def cloned(self, name):
        """Makes a clone. It has what is committed, and nothing else."""
        clone = self.folder / name
        run("git", "clone", "--quiet", ROOT, clone)
        return clone

    def test_a_clean_clone_makes_all_packages(self):
        out = self.folder / "out"
        done = release(self.clone, out, **QUICK)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("not committed", done.stderr)
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=out, check=True)
        version, arch = (subprocess.run(["python3", "-c", f"import parts; print(parts.{name}())"], cwd=self.clone / "packaging", check=True, text=True, capture_output=True).stdout.strip() for name in ("version", "machine"))
        names = sorted(path.name.replace(version, "VERSION").replace(arch, "ARCH") for path in out.iterdir())
        self.assertEqual(names, sorted(FILES))
        # All carry the same program: it needs no newer glibc, no libgcc, and knows its commit.
        programs = self.programs(out)
        self.assertEqual({program.read_bytes() for program in programs.values()}, {programs["tarball"].read_bytes()})
        program = programs["tarball"]
        self.assertLessEqual(highest(program), (2, 28))
        self.assertRegex(run("dpkg-deb", "--field", next(out.glob("*.deb")), "Depends"), r"^libc6 \(>= 2\.28\), adduser, ca-certificates\n$")
        self.assertNotIn("libgcc", run("objdump", "--private-headers", program))
        build = json.loads(run(program, "version", "--json"))
        self.assertEqual((build["commit"], build["features"]), (run("git", "-C", self.clone, "rev-parse", "HEAD").strip(), []))
        inside = {part["name"] for part in json.loads((out / "sbom.cdx.json").read_text())["components"]}
        self.assertLessEqual({"libunwind", "zig-compiler-rt"}, inside)
        self.assertNotIn("libgcc-s1", inside)
        again = release(self.clone, out)
        self.assertNotEqual(again.returncode, 0, "a folder with files is refused")

    @unittest.skipUnless(platform.machine() == "x86_64", "the profile is for x86-64")
    def test_a_profile_of_another_compiler_is_refused(self):
        compiler = self.clone / "packaging/profile/compiler"
        self.assertEqual(compiler.read_text(), run("rustc", "--version"), "run packaging/profile/make.sh")
        version = (self.clone / "packaging/profile/version").read_text()
        self.assertIn(version, (self.clone / "Cargo.toml").read_text(), "run packaging/profile/make.sh")
        compiler.write_text("rustc 1.0.0\n")
        done = release(self.clone, self.folder / "out")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("packaging/profile/ was made with rustc 1.0.0, but this is rustc 1.", done.stderr)

    def programs(self, out):
        """Returns the programs out of the packages: kind to file."""
        found = {kind: self.folder / kind for kind in ("tarball", "deb", "wheel", "npm")}
        for kind, pattern, command in (
            ("tarball", "*-linux-*.tar.gz", ["tar", "-xzf"]),
            ("deb", "*.deb", ["dpkg-deb", "--extract"]),
            ("wheel", "*manylinux*.whl", [sys.executable, "-m", "zipfile", "-e"]),
            ("npm", "portcullis-gateway-linux-*.tgz", ["tar", "-xzf"]),
        ):
            (file,) = out.glob(pattern)
            found[kind].mkdir()
            run(*command, file, *(["-C"] if command[0] == "tar" else []), found[kind])
        programs = {kind: [file for file in folder.rglob("portcullis") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"] for kind, folder in found.items()}
        return {kind: files[0] for kind, files in programs.items()}

    def test_the_same_commit_and_program_make_the_same_bytes(self):
        first, second = self.folder / "first", self.folder / "elsewhere/second"
        done = release(self.clone, first, self.program)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        other = self.cloned("other")
        # The time of a file, its mode, the place, the language and the clock are different there.
        for file in (other / "packaging").rglob("*"):
            os.utime(file, (1, 1), follow_symlinks=False)
        copy = shutil.copy(self.program, self.folder / "copy")
        command = f"umask 077; exec {other}/packaging/release.sh {second}"
        done = subprocess.run(["sh", "-c", command], text=True, capture_output=True, env=ENVIRONMENT | {"PROGRAM": str(copy), "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual((first / "SHA256SUMS").read_text(), (second / "SHA256SUMS").read_text())

    def test_changes_that_are_not_committed_are_told(self):
        (self.clone / "packaging/image/server.yaml").write_text("# changed\n")
        (self.clone / "more").write_text("")
        done = release(self.clone, self.folder / "out", self.program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not committed, and the image will say so:\n M packaging/image/server.yaml\n?? more\n", done.stderr)
        self.assertTrue(labels(self.folder / "out")["org.opencontainers.image.revision"].endswith("-dirty"))

    def test_placeholders_are_told_until_the_last_is_gone(self):
        warning = "warning: placeholders stand in place of names and addresses, so nobody may publish this:\n"
        done = release(self.clone, self.folder / "placeholders", self.program)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = done.stderr.split(warning)[1].splitlines()[:5]
        self.assertEqual([line.split(":")[0] for line in told], ["Cargo.toml"] * 3 + ["SECURITY.md", "CODE_OF_CONDUCT.md"])
        for file in ("Cargo.toml", "SECURITY.md", "CODE_OF_CONDUCT.md"):
            text = (self.clone / file).read_text()
            (self.clone / file).write_text(text.replace("portcullis.invalid", "portcullis.example"))
        done = release(self.clone, self.folder / "real", self.program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(warning, done.stderr)
        self.assertIn("\nMaintainer: The Portcullis authors <maintainers@portcullis.example>\n", run("dpkg-deb", "--field", next((self.folder / "real").glob("*.deb"))))
        self.assertEqual(labels(self.folder / "real")["org.opencontainers.image.source"], "https://portcullis.example/portcullis")

    def test_packages_in_the_clone_do_not_change_it(self):
        done = release(self.clone, self.clone / "out", self.program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("not committed", done.stderr)
        head = run("git", "-C", self.clone, "rev-parse", "HEAD").strip()
        self.assertEqual(labels(self.clone / "out")["org.opencontainers.image.revision"], head)

    def test_a_copy_without_git_makes_all_packages(self):
        shutil.rmtree(self.clone / ".git")
        os.utime(self.clone / "Cargo.toml", (1_700_000_000, 1_700_000_000))
        done = release(self.clone, self.folder / "out", self.program)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said = labels(self.folder / "out")
        self.assertNotIn("org.opencontainers.image.revision", said)
        self.assertEqual(said["org.opencontainers.image.created"], "2023-11-14T22:13:20Z")


if __name__ == "__main__":
    unittest.main()
