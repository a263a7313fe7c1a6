#!/usr/bin/env python3
"""Tests check.py with made-up crates."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import check

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def package(name, licence="MIT", source=CRATES_IO, manifest="/registry/Cargo.toml"):
    return {"name": name, "version": "1.2.3", "license": licence, "source": source, "manifest_path": manifest}


class CheckTest(unittest.TestCase):
    def refused(self, *packages, exceptions=None):
        return check.check([{"packages": packages}], exceptions or {})[0]

    def test_a_licence_that_is_not_allowed_is_refused(self):
        good = [package("a"), package("b", "GPL-3.0 OR MIT"), package("c", "(MIT OR Apache-2.0) AND Unicode-3.0")]
        self.assertEqual(self.refused(*good), [])
        for licence in ("GPL-3.0-only", "MIT AND AGPL-3.0-only", "(MIT OR Apache-2.0) AND NCSA", "Made-Up-1.0"):
            self.assertEqual(self.refused(*good, package("bad", licence)), [f"bad 1.2.3 has the licence {licence}, which is not allowed"])
        for licence in (None, ""):
            self.assertEqual(self.refused(package("bad", licence)), ["bad 1.2.3 names no licence"])

    def test_only_the_registry_and_this_repository_are_sources(self):
        self.assertEqual(self.refused(package("own", source=None, manifest=str(check.ROOT / "crates/own/Cargo.toml"))), [])
        for source in ("git+https://github.com/a/b?rev=1#1", "registry+https://crates.example/index"):
            self.assertEqual(self.refused(package("bad", source=source)), [f"bad 1.2.3 comes from {source}, which is not allowed"])
        (problem,) = self.refused(package("bad", source=None, manifest="/elsewhere/Cargo.toml"))
        self.assertIn("outside of this repository", problem)

    def test_an_exception_is_for_one_licence_and_must_be_needed(self):
        exceptions = {"odd": ("NCSA", "a reason")}
        self.assertEqual(self.refused(package("odd", "NCSA"), exceptions=exceptions), [])
        for packages in ([package("odd", "GPL-3.0")], [package("odd", "NCSA", source="git+https://github.com/a/b")]):
            self.assertTrue(self.refused(*packages, exceptions=exceptions), packages)
        self.assertEqual(self.refused(package("a"), exceptions=exceptions), ["odd is an exception, but no crate needs it: remove it"])
        for name, (_, reason) in check.EXCEPTIONS.items():
            self.assertGreater(len(reason), 20, name)

    def test_the_script_fails_with_the_names_of_the_crates(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"packages": [package("good"), package("bad", "GPL-3.0-only")]}, file)
            file.flush()
            done = subprocess.run([HERE / "check.py", file.name], text=True, capture_output=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("bad 1.2.3 has the licence GPL-3.0-only", done.stderr)
        self.assertNotIn("good", done.stderr)


if __name__ == "__main__":
    unittest.main()
