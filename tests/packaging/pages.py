"""The commands of the chapter "Install", which the tests run."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/src/install.md"


def sections():
    """Returns the parts of the chapter: heading to text."""
    _, *parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.M)
    return dict(zip(parts[::2], parts[1::2]))


def blocks(section):
    """Returns the blocks of text below a heading."""
    return re.findall(r"^```text\n(.*?)^```$", sections()[section], re.M | re.S)


def commands(section):
    """Returns the commands of the first block below a heading. A line that ends in `\\` goes on."""
    return blocks(section)[0].replace("\\\n", " ").splitlines()
