"""The list of what is inside the program: complete, in a format that others read, with the licence of each part."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "packaging/licences"))
import build


class LicencesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        subprocess.run([ROOT / "packaging/licences/build.py", os.environ["PROGRAM"], folder], check=True, stdout=subprocess.DEVNULL)
        cls.text = (folder / "sbom.cdx.json").read_text()
        cls.sbom = json.loads(cls.text)
        cls.licences = (folder / "LICENCES.txt").read_text()

    def test_the_list_is_cyclonedx(self):
        self.assertIsNone(JsonStrictValidator(SchemaVersion.V1_5).validate_str(self.text))

    def test_every_crate_that_the_program_says_is_inside_is_listed(self):
        # Panics name the crate that they are in: an independent witness. A debug build names more.
        strings = subprocess.run(["strings", os.environ["PROGRAM"]], check=True, capture_output=True, text=True).stdout
        named = set(re.findall(r"/registry/src/[^/\s]+/([a-zA-Z0-9_-]+?)-(\d+\.\d+\.\d+[^/\s]*)/", strings))
        listed = {(part["name"], part["version"]) for part in self.sbom["components"]}
        self.assertGreater(len(named), 30)
        self.assertEqual(sorted(named - listed), [])

    def test_c_libraries_and_debians_are_listed(self):
        names = {part["name"]: part for part in self.sbom["components"]}
        for name in ("sqlite", "jemalloc", "zlib-ng", "zstd", "boringssl-in-ring", "rust-std", "libc6", "libgcc-s1", "ca-certificates"):
            self.assertIn(name, names)
        self.assertEqual(names["ca-certificates"]["properties"], [{"name": "portcullis:only-in", "value": "image"}])
        strings = subprocess.run(["strings", os.environ["PROGRAM"]], check=True, capture_output=True, text=True).stdout
        self.assertIn(names["sqlite"]["version"], strings)
        self.assertIn(names["zlib-ng"]["version"], strings)
        self.assertIn("Copyright notices for The Rust Standard Library", self.licences)
        for name in ("libc6", "libgcc-s1", "ca-certificates"):
            self.assertIn(f"* {name} {names[name]['version']} ({names[name]['licenses'][0]['expression']})", self.licences)

    def test_a_crate_that_compiles_c_must_be_known(self):
        packages, _, compile = build.crates()
        # By what they build with, whether they say `links` or not.
        self.assertEqual({package["name"] for package in packages if package["id"] in compile}, set(build.C_LIBRARIES))
        silent = [package | {"links": None} for package in packages if package["name"] == "ring"]
        with self.assertRaises(SystemExit), unittest.mock.patch.dict(build.C_LIBRARIES, clear=True):
            build.c_libraries(silent, compile)

    def test_each_part_has_its_licence(self):
        for part in self.sbom["components"]:
            self.assertIn(f"{part['name']} {part['version']} (", self.licences)
            self.assertTrue(part["licenses"][0]["expression"], part)
        refs = {part["bom-ref"] for part in self.sbom["components"]} | {self.sbom["metadata"]["component"]["bom-ref"]}
        for dependency in self.sbom["dependencies"]:
            self.assertLessEqual(set(dependency["dependsOn"]), refs)

    def test_licences_that_nobody_allowed_are_refused(self):
        cases = {"MIT": True, "MIT OR GPL-3.0": True, "MIT AND GPL-3.0": False, "GPL-3.0": False, "MIT/Apache-2.0": True, "": False, None: False}
        cases |= {"(MIT OR GPL-3.0) AND ISC": True, "(MIT AND GPL-3.0) OR GPL-3.0": False, "ISC AND (MIT OR (GPL-3.0 AND MIT))": True}
        cases |= {"(MIT": False, "MIT)": False, "()": False, "(GPL-3.0)": False, "MIT WITH something": False}
        for licence, expected in cases.items():
            self.assertEqual(build.is_allowed(licence), expected, licence)


if __name__ == "__main__":
    unittest.main()
