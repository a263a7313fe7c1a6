"""Volumes as the kubelet makes them: files behind a link that is swapped as a whole."""

import shutil
from pathlib import Path


def swap(folder, files, mode=0o644, owner=(0, 0)):
    """Writes new files beside the old ones of a volume, and swaps the link `..data`."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "..data"
    old = data.resolve() if data.is_symlink() else None
    new = folder / f"..{int(old.name.strip('.')) + 1 if old else 1}"
    for path, text in files.items():
        file = new / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        top = folder / Path(path).parts[0]
        if not top.is_symlink():
            top.symlink_to(Path("..data") / Path(path).parts[0])
    for path in (folder, *new.rglob("*"), new):
        shutil.chown(path, *owner)
    (folder / "..data_tmp").symlink_to(new.name)
    (folder / "..data_tmp").rename(data)
    if old:
        shutil.rmtree(old)
