"""The tarball: unpacked anywhere, its program serves its configuration, and its pages are there."""

import json
import os
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

import launched
import pages
from image import loopback_up
from machine import carried, run

ROOT = Path(__file__).resolve().parent.parent.parent


class TarballTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        loopback_up()
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (cls.file,) = carried("tarball")

    def unpacked(self, name):
        """Unpacks it into a new folder, and returns the only folder inside."""
        folder = self.folder / name
        folder.mkdir()
        run("tar", "-xzf", self.file, "-C", folder)
        (inside,) = folder.iterdir()
        self.assertEqual(inside.name, self.file.name.removesuffix(".tar.gz"))
        return inside

    def test_the_commands_of_the_book_serve(self):
        here = self.folder / "here"
        here.mkdir()
        (here / self.file.name).write_bytes(self.file.read_bytes())
        unpack, enter, serve = pages.commands("Tarball")
        inside = Path(run("sh", "-c", f"{unpack} && {enter} && pwd", cwd=here).strip())
        program, command = serve.split()
        self.assertEqual(command, "serve")
        with launched.serving([program], inside) as server:
            server.terminate()
            self.assertEqual(server.wait(60), 0)

    def test_it_holds_what_it_should_and_nothing_strange(self):
        inside = self.unpacked("holds")
        files = {str(file.relative_to(inside)) for file in inside.rglob("*") if file.is_file()}
        for name in ("portcullis", "LICENSE", "LICENCES.txt", "sbom.cdx.json", "CHANGELOG.md", "portcullis.service", "conf/catalog.yaml", "conf/schema/server.schema.json"):
            self.assertIn(name, files)
        with tarfile.open(self.file) as tar:
            for member in tar:
                self.assertEqual((member.uid, member.gid, member.mode & 0o022), (0, 0, 0), member.name)
        commands = {line.split()[0] for line in run(inside / "portcullis", "--help").split("Commands:\n")[1].split("\n\n")[0].splitlines()} - {"help"}
        self.assertGreater(len(commands), 10)
        self.assertLessEqual({f"share/man/man1/portcullis-{command}.1" for command in commands}, files)
        for page in sorted((inside / "share/man/man1").iterdir()):
            told = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C.UTF-8"})
            self.assertEqual((told.returncode, told.stderr), (0, ""), page)
        build = json.loads(run(inside / "portcullis", "version", "--json"))
        self.assertEqual(run(inside / "portcullis", "version"), f"portcullis {build['version']}\n")
        self.assertEqual(run(inside / "portcullis", "--version"), f"portcullis {build['version']}\n")


if __name__ == "__main__":
    unittest.main()
