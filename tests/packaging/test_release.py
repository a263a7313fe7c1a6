"""The release: a clean clone makes all packages with one command, and their checksums are right."""

import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = ["LICENCES.txt", "SHA256SUMS", "portcullis-VERSION-ARCH.oci.tar", "portcullis-chart-VERSION.tgz", "portcullis.service", "portcullis_VERSION_ARCH.deb", "sbom.cdx.json"]


class ReleaseTest(unittest.TestCase):
    def test_a_clean_clone_makes_all_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            clone, out = Path(folder, "clone"), Path(folder, "out")
            # A clone has what is committed, and nothing else.
            subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True, capture_output=True)
            release = subprocess.run([clone / "packaging/release.sh", out], text=True, capture_output=True)
            self.assertEqual(release.returncode, 0, release.stdout + release.stderr)
            subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=out, check=True)
            version, arch = (subprocess.run(["python3", "-c", f"import parts; print(parts.{name}())"], cwd=clone / "packaging", check=True, text=True, capture_output=True).stdout.strip() for name in ("version", "machine"))
            names = sorted(path.name.replace(version, "VERSION").replace(arch, "ARCH") for path in out.iterdir())
            self.assertEqual(names, sorted(FILES))
            again = subprocess.run([clone / "packaging/release.sh", out], text=True, capture_output=True)
            self.assertNotEqual(again.returncode, 0, "a folder with files is refused")


if __name__ == "__main__":
    unittest.main()
