"""A copy of this machine's files, in memory, on which packages are installed.

systemd can run on it, in namespaces of its own.
"""

import atexit
import contextlib
import functools
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def run(*command, **options):
    """Runs a command that must succeed, and returns what it printed."""
    done = subprocess.run([str(part) for part in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}")
    return done.stdout


@functools.cache
def carried(kind):
    """Makes the packages of a kind that carry the program, once for all tests, and returns their files."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    run(ROOT / "packaging/licences/build.py", os.environ["PROGRAM"], folder / "licences", cwd=ROOT)
    run(ROOT / f"packaging/{kind}/build.py", os.environ["PROGRAM"], folder / kind, "--licences", folder / "licences")
    return sorted((folder / kind).iterdir())


def package():
    """Returns the Debian package."""
    (deb,) = carried("deb")
    return deb


def highest(program):
    """Returns the newest version of glibc whose symbols a program needs, as binutils sees it."""
    found = re.findall(r"GLIBC_(\d+)\.(\d+)", run("objdump", "--dynamic-syms", program))
    return max((int(major), int(minor)) for major, minor in found)


# The environment of whoever installs packages.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


class Machine:
    """The copy. Its `root` is in `folder`, which holds what was changed."""

    def __init__(self, folder):
        self.folder = Path(folder)
        # What is written goes into memory: this machine's own files stay as they are.
        run("mount", "-t", "tmpfs", "tmpfs", folder)
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir()
        self.root = self.folder / "root"
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work", self.root)
        # It may forbid that services are started.
        (self.root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)

    def close(self):
        run("umount", "-l", self.root)
        run("umount", "-l", self.folder)

    def mount_system(self):
        """Gives the copy this machine's devices and processes, for commands without systemd."""
        run("mount", "-t", "proc", "proc", self.root / "proc")
        run("mount", "--bind", "/dev", self.root / "dev")

    def inside(self, *command, user=None, **options):
        """Runs a command on the copy."""
        who = [f"--userspec={user}:{user}", "--groups="] if user else []
        return run("chroot", *who, self.root, *command, env=ENVIRONMENT | {"HOME": "/"}, **options)


# Makes the copy the root, with devices and processes of its own, and becomes systemd. Of this
# machine's units only those start that every machine needs. There is only one kernel, which is this
# machine's: nothing there may change its settings, load its modules or set its clock.
BOOT = """
cd "$1"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for folder in dev run tmp; do mount -t tmpfs tmpfs $folder; done
for device in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0'; do
    set -- $device
    mknod -m 666 dev/$1 c $2 $3
done
mkdir dev/pts dev/shm dev/mqueue old
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
rm -rf etc/systemd/system/*.wants etc/systemd/system/*.requires
for unit in systemd-sysctl.service systemd-modules-load.service systemd-binfmt.service modprobe@.service proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount; do
    ln -sf /dev/null etc/systemd/system/$unit
done
pivot_root . old
exec env -i container=test PATH="$PATH" sh -c 'umount -l /old && rmdir /old && mount --make-rshared / && exec setpriv --bounding-set=-sys_module,-sys_time /lib/systemd/systemd --unit=multi-user.target'
"""


def kernel():
    """Returns the settings of the kernel: file to value."""
    found = {}
    for file in (file for part in ("fs", "kernel", "vm") for file in Path("/proc/sys", part).rglob("*") if file.is_file()):
        # What nobody can write counts something. So does the last process's number.
        if file.stat().st_mode & 0o200 and file.name != "ns_last_pid":
            # Some can only be written.
            with contextlib.suppress(OSError):
                found[str(file)] = file.read_bytes()
    return found


class Booted:
    """systemd, running on the copy. It has its own processes, mounts and control groups, and the
    network of the test."""

    def __init__(self, machine):
        groups = machine.folder / "groups"
        groups.mkdir()
        run("mount", "-t", "cgroup2", "cgroup2", groups)
        own = [line.removeprefix("0::") for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
        if not own:
            raise AssertionError("systemd needs control groups of version 2: /proc/self/cgroup has no line that begins with 0::")
        parent = groups / own[0].strip("/")
        for stale in parent.glob("packaging-*"):
            # A run that was killed leaves them.
            if "populated 0" in (stale / "cgroup.events").read_text():
                self.remove(stale)
        name = f"packaging-{os.getpid()}-{id(self)}"
        self.group = parent / name
        self.group.mkdir()
        # Only the copy has this file.
        (machine.root / name).touch()
        join = f'echo $$ >{self.group}/cgroup.procs; exec unshare --mount --pid --ipc --uts --cgroup --fork --kill-child sh -eu -c "$1" sh {machine.root}'
        self.process = subprocess.Popen(["sh", "-eu", "-c", join, "sh", BOOT], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.first = None
        try:
            # Until it is on the copy, the machine's own systemd would answer.
            self.until(lambda: self.children() and self.ask("cat", f"/{name}", "/proc/1/comm") == (0, "systemd\n"), "systemd does not start")
            self.until(lambda: self.ask("systemctl", "is-system-running")[1].strip() in ("running", "degraded"), "systemd does not run")
        except BaseException:
            self.close()
            raise

    def children(self):
        self.first = subprocess.run(["pgrep", "-P", str(self.process.pid)], text=True, capture_output=True).stdout.strip()
        return self.first

    def ask(self, *command, **options):
        """Runs a command there, and returns its exit code and what it printed."""
        enter = ["nsenter", f"--target={self.first}", "--mount", "--pid", "--ipc", "--uts", "--cgroup"]
        options = {"stdin": subprocess.DEVNULL} | options
        environment = ENVIRONMENT | options.pop("env", {})
        done = subprocess.run([*enter, *map(str, command)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, timeout=300, **options)
        return done.returncode, done.stdout

    def run(self, *command, **options):
        """Runs a command there that must succeed, and returns what it printed."""
        code, said = self.ask(*command, **options)
        if code != 0:
            raise AssertionError(f"{command}: {code}: {said}")
        return said

    def show(self, name):
        """Returns a property of the service."""
        return self.run("systemctl", "show", "portcullis", "--value", "-p", name).strip()

    def journal(self):
        """Returns what the service has written."""
        return self.run("journalctl", "-u", "portcullis", "-o", "cat", "--no-pager")

    def until(self, found, otherwise):
        """Waits until something is so."""
        for _ in range(1200):
            if found():
                return
            if self.process.poll() is not None:
                raise AssertionError(f"systemd ended: {self.process.stdout.read()}")
            time.sleep(0.1)
        raise AssertionError(otherwise)

    def close(self):
        self.process.kill()
        self.process.communicate()
        self.remove(self.group)

    def remove(self, group):
        """Removes a control group, and those inside it."""
        for inside in sorted(group.rglob("*"), reverse=True):
            if inside.is_dir():
                self.removed(inside)
        self.removed(group)

    def removed(self, group):
        """Removes a control group when its last process is gone."""
        for _ in range(100):
            try:
                return group.rmdir()
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"{group} still has processes")
