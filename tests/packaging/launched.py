"""The program, run from a package as somebody runs it who has just installed it."""

import contextlib
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

from image import ADMIN, CALLERS, ask

ROOT = Path(__file__).resolve().parent.parent.parent
KEY = "sk-demo-portcullis-published"
HELLO = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}


def settle(folder):
    """Gives a folder the configuration of the demo."""
    (folder / "conf").mkdir(parents=True)
    for name in ("server.yaml", "catalog.yaml"):
        shutil.copy(ROOT / "conf" / name, folder / "conf")


@contextlib.contextmanager
def serving(command, folder, **options):
    """Runs `serve` in a folder until it answers a request, and gives the process that was started."""
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
    server = subprocess.Popen([*map(str, command), "serve"], cwd=folder, **options)
    try:
        for _ in range(2400):
            if server.poll() is not None:
                raise AssertionError(f"{command} ended with {server.returncode}")
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{ADMIN}/readyz", timeout=10)
                break
            time.sleep(0.05)
        status, text = ask(f"{CALLERS}/v1/chat/completions", HELLO, KEY)
        if status != 200:
            raise AssertionError(text)
        yield server
    finally:
        server.kill()
        server.wait()


def files(folder):
    """Returns all files below a folder, but what Python compiled. Installers leave folders that are empty."""
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if "__pycache__" not in path.parts and not path.is_dir()}
