"""The Debian package: lintian takes it; it is installed, used, upgraded, removed and purged, on a copy of this machine's files."""

import contextlib
import json
import stat
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from image import ADMIN, CALLERS, HELLO, ask, loopback_up
from machine import Machine, package, run

SERVICE = "etc/systemd/system/multi-user.target.wants/portcullis.service"


class DebTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.deb = package()
        cls.machine = Machine(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.addClassCleanup(cls.machine.close)
        cls.machine.mount_system()
        cls.folder, cls.root, cls.inside = cls.machine.folder, cls.machine.root, cls.machine.inside
        loopback_up()

    def install(self, deb, *options):
        (self.root / "tmp").mkdir(exist_ok=True)
        (self.root / "tmp/package.deb").write_bytes(Path(deb).read_bytes())
        return self.inside("dpkg", "-i", *options, "/tmp/package.deb")

    def modes(self):
        """Returns the owner and the mode of everything that is the administrator's or the service's."""
        found = {}
        for top in ("etc/portcullis", "var/lib/portcullis"):
            for path in [self.root / top, *(self.root / top).rglob("*")]:
                of = path.lstat()
                found[str(path.relative_to(self.root))] = (of.st_uid, of.st_gid, oct(stat.S_IMODE(of.st_mode)))
        return {name: mode for name, mode in found.items() if not name.endswith((".dpkg-dist", "-shm", "-wal"))}

    @contextlib.contextmanager
    def serving(self):
        """Runs the service as its unit does."""
        command = ["chroot", "--userspec=portcullis:portcullis", "--groups=", self.root, "/bin/sh", "-c", "umask 077; cd /var/lib/portcullis; exec /usr/bin/portcullis serve --conf /etc/portcullis"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            for _ in range(2400):
                if server.poll() is not None:
                    self.fail(server.communicate()[1])
                if subprocess.run(["chroot", self.root, "portcullis", "ready"], capture_output=True).returncode == 0:
                    break
                time.sleep(0.05)
            yield
            server.terminate()
            told = server.communicate(timeout=60)
            self.assertEqual(server.returncode, 0, told)
        finally:
            server.kill()
            server.wait()

    def next_version(self):
        """Makes a later package, with another server.yaml."""
        tree = self.folder / "next"
        run("dpkg-deb", "--raw-extract", self.deb, tree)
        control = tree / "DEBIAN/control"
        control.write_text(control.read_text().replace("\nVersion: ", "\nVersion: 9:"))
        settings = tree / "etc/portcullis/server.yaml"
        settings.write_text(settings.read_text() + "\n# of the next version\n")
        later = self.folder / "next.deb"
        run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, later)
        return later

    def test_lintian_finds_no_errors_and_no_warnings(self):
        told = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", self.deb], text=True, capture_output=True)
        self.assertEqual((told.returncode, told.stdout), (0, ""), told.stderr)

    def test_it_names_what_is_inside(self):
        listed = run("dpkg-deb", "--contents", self.deb)
        for name in ("LICENCES.txt.gz", "sbom.cdx.json.gz", "copyright", "changelog.gz"):
            self.assertIn(f"./usr/share/doc/portcullis/{name}", listed)
        self.assertRegex(run("dpkg-deb", "--field", self.deb, "Depends"), r"libc6 \(>= 2\.\d+\).*, adduser, ca-certificates")
        self.assertEqual(run("dpkg-deb", "--info", self.deb, "conffiles").split(), ["/etc/portcullis/server.yaml", "/etc/portcullis/catalog.yaml"])

    def test_it_lives_on_a_machine(self):
        self.install(self.deb)
        portcullis = run("chroot", self.root, "id", "-u", "portcullis").strip()
        self.assertEqual(self.inside("getent", "passwd", "portcullis").split(":")[5:], ["/var/lib/portcullis", "/usr/sbin/nologin\n"])
        group = int(run("chroot", self.root, "id", "-g", "portcullis"))
        fresh = self.modes()
        self.assertEqual(fresh["etc/portcullis"], (0, group, "0o2750"))
        self.assertEqual(fresh["etc/portcullis/secrets"], (0, group, "0o2750"))
        self.assertEqual(fresh["var/lib/portcullis"], (int(portcullis), group, "0o700"))
        self.assertTrue((self.root / SERVICE).is_symlink(), "it starts with the machine")
        self.assertEqual(self.inside("systemd-analyze", "verify", "portcullis.service"), "")
        self.assertIn("portcullis\\-serve(1)", self.inside("sh", "-c", "gzip -dc /usr/share/man/man1/portcullis.1.gz"))
        self.assertIn("Listen at this address", self.inside("sh", "-c", "gzip -dc /usr/share/man/man1/portcullis-serve.1.gz"))
        # As bash does when somebody presses the tabulator.
        completed = ". /usr/share/bash-completion/completions/portcullis; COMP_WORDS=(portcullis se) COMP_CWORD=1; _portcullis portcullis se portcullis; echo ${COMPREPLY[@]}"
        self.assertEqual(self.inside("bash", "-c", completed), "serve\n")
        for file in ("zsh/vendor-completions/_portcullis", "fish/vendor_completions.d/portcullis.fish"):
            self.assertIn("completion", (self.root / "usr/share" / file).read_text())
        self.inside("portcullis", "check", "--conf", "/etc/portcullis", user="portcullis")
        with self.assertRaises(AssertionError):
            self.inside("portcullis", "check", "--conf", "/etc/portcullis", user="nobody")

        # The administrator writes a secret, a catalog and a key, with a usual umask.
        conf = self.root / "etc/portcullis"
        self.inside("sh", "-c", "umask 027; echo sk-of-a-provider >/etc/portcullis/secrets/openai")
        catalog = "accounts: { demo: { dialect: demo }, far: { dialect: openai, key: { file: secrets/openai } } }\nmodels: { m: { targets: [{ account: demo }] }, far: { targets: [{ account: far }] } }\ncallers: {}\n"
        (conf / "catalog.yaml").write_text(catalog)
        key = self.inside("sh", "-c", "cd /; umask 077; portcullis key new --conf /etc/portcullis --caller acme --name prod --create 2>/dev/null").strip()
        with self.serving():
            self.assertEqual(ask(f"{CALLERS}/v1/chat/completions", HELLO, key)[0], 200)
            self.assertEqual(json.loads(ask(f"{ADMIN}/status")[1])["phase"], "serving")
            self.inside("portcullis", "key", "disable", "acme/prod", "--conf", "/etc/portcullis")
            self.assertEqual(ask(f"{CALLERS}/v1/chat/completions", HELLO, key)[0], 401)
            self.inside("portcullis", "key", "enable", "acme/prod", "--conf", "/etc/portcullis")
        ledger = (self.root / "var/lib/portcullis/ledger.sqlite").stat()
        self.assertEqual((ledger.st_uid, stat.S_IMODE(ledger.st_mode)), (int(portcullis), 0o600))
        usage = lambda: json.loads(self.inside("portcullis", "usage", "--conf", "/etc/portcullis", "--json"))
        self.assertIn("acme", json.dumps(usage()))

        # An upgrade changes nothing of that. What is tighter than ours stays so.
        (conf / "server.yaml").write_text((conf / "server.yaml").read_text() + "\nattempts: 2\n")
        (conf / "secrets/openai").chmod(0o600)
        conf.chmod(0o700)
        texts = {file: file.read_bytes() for file in conf.rglob("*") if file.is_file()}
        before = self.modes()
        later = self.next_version()
        self.install(later, "--force-confold")
        self.assertEqual(self.modes(), before)
        self.assertEqual({file: file.read_bytes() for file in texts}, texts)
        self.assertIn("# of the next version", (conf / "server.yaml.dpkg-dist").read_text())
        self.assertIn("acme", json.dumps(usage()))

        # Removed, it leaves what the administrator and the service wrote. Installed again, it
        # goes on.
        self.inside("dpkg", "--remove", "portcullis")
        self.assertFalse((self.root / "usr/bin/portcullis").exists())
        self.assertEqual(self.modes(), before)
        self.install(later, "--force-confold")
        self.assertEqual(self.modes(), before)
        conf.chmod(0o2750)
        (conf / "secrets/openai").chmod(0o640)
        with self.serving():
            self.assertEqual(ask(f"{CALLERS}/v1/chat/completions", HELLO, key)[0], 200)

        # Purged, only the secrets of providers are left.
        self.inside("dpkg", "--purge", "portcullis")
        self.assertEqual([str(file.relative_to(conf)) for file in conf.rglob("*") if file.is_file()], ["secrets/openai"])
        for gone in ("var/lib/portcullis", "var/log/portcullis", SERVICE, "usr/bin/portcullis"):
            self.assertFalse((self.root / gone).exists() or (self.root / gone).is_symlink(), gone)
        self.assertEqual(self.inside("sh", "-c", "dpkg-query -W portcullis 2>/dev/null || true").strip(), "")


if __name__ == "__main__":
    unittest.main()
