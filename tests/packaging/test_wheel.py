"""The Python wheels: pip takes the right one, its command becomes the program, and nothing stays but data."""

import base64
import csv
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from packaging.metadata import Metadata

import launched
import pages
from image import loopback_up
from machine import carried, highest, run

# A system without a wheel of its own takes the one without a program.
OTHERS = ["musllinux_1_2_x86_64", "macosx_11_0_arm64", "win_amd64", "manylinux_2_17_x86_64"]
# Nothing is fetched, and nothing of this machine's user is read.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))} | {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        loopback_up()
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.other, cls.wheel = carried("wheel")
        cls.venv = cls.folder / "venv"
        run(sys.executable, "-m", "venv", cls.venv)
        cls.pip = cls.venv / "bin/pip"
        run(cls.pip, "--version")

    def test_installed_run_and_removed(self):
        before = launched.files(self.venv)
        (install,) = [line for line in pages.commands("Python and Node") if line.startswith("pip ")]
        done = subprocess.run(["sh", "-c", f'PATH="{self.venv}/bin:$PATH"; {install}'], cwd=self.wheel.parent, env=ENVIRONMENT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        program = self.venv / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/portcullis_gateway/bin/portcullis"
        version = run(os.environ["PROGRAM"], "version")
        for command in (["bin/portcullis"], ["bin/portcullis-gateway"], ["bin/python", "-m", "portcullis_gateway"]):
            self.assertEqual(run(self.venv / command[0], *command[1:], "version"), version)
        self.assertEqual(subprocess.run([self.venv / "bin/portcullis", "nonsense"], capture_output=True).returncode, 2)
        self.assertTrue((self.venv / "share/man/man1/portcullis.1").is_file())
        on_path = ENVIRONMENT | {"PATH": f"{self.venv}/bin:{os.environ['PATH']}"}
        python = self.venv / "bin/python"
        in_cache = "import sys, portcullis_gateway; sys.prefix = '/cache/archive-v0/x'; portcullis_gateway.main()"
        for number, (again, environment, *command) in enumerate(
            [
                ("portcullis", on_path, "portcullis"),
                (str(self.venv / "bin/portcullis"), ENVIRONMENT, self.venv / "bin/portcullis"),
                (f"{python} -m portcullis_gateway", ENVIRONMENT, python, "-m", "portcullis_gateway"),
                ("uvx portcullis-gateway", on_path | {"UV": "/usr/bin/uv"}, python, "-c", in_cache),
            ]
        ):
            folder = self.folder / f"again-{number}"
            folder.mkdir()
            printed = run(*command, "init", "--demo", "--yes", cwd=folder, env=environment)
            self.assertIn(f"\n  {again} serve\n", printed)

        data = self.folder / "data"
        launched.settle(data)
        with launched.serving([self.venv / "bin/portcullis"], data) as server:
            self.assertEqual(Path(f"/proc/{server.pid}/exe").resolve(), program.resolve(), "Python is gone")
            ignored = int(re.search(r"^SigIgn:\s+(\w+)$", Path(f"/proc/{server.pid}/status").read_text(), re.M).group(1), 16)
            self.assertEqual(ignored & 1 << 24, 0, "Python's ignoring of SIGXFSZ is gone, too")
            server.terminate()
            self.assertEqual(server.wait(60), 0)
        kept = launched.files(data)
        self.assertGreater(len(kept), 3, "it wrote a ledger")
        run(self.pip, "uninstall", "--yes", "portcullis-gateway")
        self.assertEqual(launched.files(self.venv), before)
        self.assertEqual(launched.files(data), kept)

    def test_its_name_tells_what_glibc_it_needs(self):
        match = re.fullmatch(r"portcullis_gateway-.+-py3-none-manylinux_(\d+)_(\d+)_(\w+)\.whl", self.wheel.name)
        needed = highest(os.environ["PROGRAM"])
        self.assertEqual((int(match.group(1)), int(match.group(2)), match.group(3)), (*max((2, 28), needed), platform.machine()))
        told = run(sys.executable, "-m", "auditwheel", "show", self.wheel)
        self.assertIn("is consistent with the following platform tag", told.replace("\n", " "))

    def test_all_files_are_on_record(self):
        for wheel in (self.other, self.wheel):
            with zipfile.ZipFile(wheel) as archive:
                names = archive.namelist()
                (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
                rows = {name: (digest, size) for name, digest, size in csv.reader(archive.read(f"{info}/RECORD").decode().splitlines())}
                self.assertEqual(sorted(rows), sorted(names))
                for name in names:
                    data = archive.read(name)
                    digest = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
                    self.assertEqual(rows[name], ("", "") if name.endswith("/RECORD") else (digest, str(len(data))))
                known = Metadata.from_email(archive.read(f"{info}/METADATA"), validate=True)
                self.assertEqual(known.name, "portcullis-gateway")
                self.assertLessEqual({f"{info}/licenses/{name}" for name in known.license_files}, set(names))

    def test_other_systems_get_one_sentence(self):
        for system in OTHERS:
            target = self.folder / system
            where = ["--platform", system, "--only-binary", ":all:", "--target", target]
            run(self.pip, "install", "--no-index", "--find-links", self.wheel.parent, *where, "portcullis-gateway", env=ENVIRONMENT)
            start = "import platform, portcullis_gateway; platform.system = lambda: 'Elsewhere'; portcullis_gateway.main()"
            done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, env=ENVIRONMENT | {"PYTHONPATH": str(target)})
            self.assertEqual((done.returncode, done.stdout), (1, ""), system)
            self.assertRegex(done.stderr, r"^portcullis-gateway carries .* none for this system \(Elsewhere on \w+\).* container image.*\.\n$")

    def test_the_right_system_reads_which_wheel_to_install(self):
        target = self.folder / "without"
        run(self.pip, "install", "--no-index", "--target", target, self.other, env=ENVIRONMENT)
        start = "import portcullis_gateway; portcullis_gateway.main()"
        done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, env=ENVIRONMENT | {"PYTHONPATH": str(target)})
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"This is the wheel without the program: install the one whose name ends with manylinux_2_28_{platform.machine()}.whl, by `pip install --force-reinstall`.\n")


if __name__ == "__main__":
    unittest.main()
