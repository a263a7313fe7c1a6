"""The commands of the chapter "Install", which the tests run."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/src/install.md"


def sections():
    """Returns the parts of the chapter: heading to text."""
    _, *parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.M)
    return dict(zip(parts[::2], parts[1::2]))


def block(section, kind="text"):
    """Returns the lines of the only block of this kind below a heading. A line that ends in `\\` goes on."""
    (text,) = re.findall(rf"^```{kind}\n(.*?)^```$", sections()[section], re.M | re.S)
    return text.replace("\\\n", " ").splitlines() if kind == "text" else text
