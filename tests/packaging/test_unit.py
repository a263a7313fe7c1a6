"""The systemd unit: systemd takes it, its sandbox is tight, and the program does nothing that the sandbox forbids."""

import json
import os
import re
import subprocess
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

from image import USER, ask, loopback_up

ROOT = Path(__file__).resolve().parent.parent.parent
UNIT = ROOT / "packaging/systemd/portcullis.service"
# systemd's measure, in tenths: 12 was measured with systemd 252.
EXPOSED = 15


def allowed():
    """Returns the system calls that the unit allows."""
    sets, name = {}, None
    text = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], check=True, text=True, capture_output=True).stdout
    for line in text.splitlines():
        if line.startswith("@"):
            name = line.strip()
            sets[name] = set()
        elif line.startswith("    ") and not line.strip().startswith("#"):
            sets[name].add(line.strip())

    def calls(name):
        found = set()
        for part in sets[name]:
            found |= calls(part) if part.startswith("@") else {part}
        return found

    lines = re.findall(r"^SystemCallFilter=(~?)(.+)$", UNIT.read_text(), re.M)
    result = set()
    for denies, names in lines:
        for name in names.split():
            result = result - calls(name) if denies else result | calls(name)
    return result


class UnitTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.unit = self.folder / "portcullis.service"
        self.unit.write_text(UNIT.read_text().replace("/usr/bin/portcullis", os.environ["PROGRAM"]))

    def test_systemd_takes_it(self):
        told = subprocess.run(["systemd-analyze", "verify", self.unit], text=True, capture_output=True)
        self.assertEqual((told.returncode, told.stdout + told.stderr), (0, ""))

    def test_its_sandbox_is_tight(self):
        command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSED}", "--no-pager", self.unit]
        told = subprocess.run(command, text=True, capture_output=True)
        score = re.search(r"exposure level for portcullis.service: (\S+)", told.stdout)
        print(f"systemd-analyze security: {score and score.group(1)} … ", end="")
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)

    def test_a_drain_ends_before_systemd_loses_its_patience(self):
        # Of server.yaml's defaults: delay and grace, then 8 s to write what waits.
        text = (ROOT / "conf/server.yaml").read_text()
        delay, grace = (int(re.search(rf"^  {name}: (\d+)s", text, re.M).group(1)) for name in ("delay", "grace"))
        self.assertGreater(int(re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.M).group(1)), delay + grace + 8)

    def test_the_program_makes_no_call_that_the_filter_forbids(self):
        loopback_up()
        conf, trace = self.folder / "conf", self.folder / "trace"
        conf.mkdir()
        for name in ("server.yaml", "catalog.yaml"):
            (conf / name).write_bytes((ROOT / "conf" / name).read_bytes())
        # Root would be asked for other calls.
        for path in (self.folder, conf, *conf.iterdir()):
            os.chown(path, USER, USER)
        # As ProcSubset=pid does it.
        (self.folder / "hostname").write_text("gw.example.com\n")
        hide = f"mount --bind {self.folder}/hostname /etc/hostname; mount -t proc -o subset=pid proc /proc; exec \"$@\""
        command = ["unshare", "--mount", "sh", "-eu", "-c", hide, "sh", "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
        command += ["strace", "-f", "-qq", "-o", trace, os.environ["PROGRAM"], "serve", "--conf", conf]
        server = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(2400):
                try:
                    urllib.request.urlopen("http://127.0.0.1:9090/readyz", timeout=10)
                    break
                except OSError:
                    time.sleep(0.05)
            hello = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
            status, text = ask("http://127.0.0.1:8080/v1/chat/completions", hello, "sk-demo-portcullis-published")
            self.assertEqual(status, 200, text)
            by_name = urllib.request.Request("http://127.0.0.1:9090/status", headers={"Host": "gw.example.com"})
            self.assertEqual(urllib.request.urlopen(by_name, timeout=60).status, 200, "the machine's name is known")
            # An edit, and a reload.
            (conf / "catalog.yaml").write_text((conf / "catalog.yaml").read_text() + "\n# edited\n")
            (program,) = subprocess.run(["pgrep", "-P", str(server.pid)], check=True, text=True, capture_output=True).stdout.split()
            subprocess.run(["kill", "-HUP", program], check=True)
            time.sleep(1)
            status = json.loads(ask("http://127.0.0.1:9090/status")[1])
            self.assertEqual(status["phase"], "serving")
            subprocess.run(["kill", "-TERM", program], check=True)
            self.assertEqual(server.wait(20), 0)
        finally:
            server.kill()
        lines = trace.read_text().splitlines()
        calls = {match.group(1) for line in lines if (match := re.match(r"\d+ +(?:<\.\.\. )?(\w+)[( ]", line))}
        self.assertGreater(len(calls), 30)
        self.assertEqual(calls - allowed(), set())
        # ProcSubset=pid hides all of /proc but the processes. These two have another way:
        # /etc/hostname, and a guess of jemalloc's.
        hidden = {path for line in lines for path in re.findall(r'"(/proc/[^"]+)"', line) if not re.match(r"/proc/(self|thread-self|\d+)(/|$)", path)}
        self.assertLessEqual(hidden, {"/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory"})
        # MemoryDenyWriteExecute, RestrictAddressFamilies.
        both = [line for line in lines if "PROT_WRITE" in line and "PROT_EXEC" in line]
        families = {family for line in lines for family in re.findall(r"socket\((AF_\w+)", line)}
        permitted = set(re.search(r"^RestrictAddressFamilies=(.+)$", UNIT.read_text(), re.M).group(1).split())
        self.assertEqual((both, families - permitted), ([], set()))


if __name__ == "__main__":
    unittest.main()
