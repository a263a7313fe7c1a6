#!/usr/bin/env python3
"""Tells which glibc a program needs: `glibc.py PROGRAM` prints a version such as 2.28.

It reads the versions of the symbols that the program asks the C library for, in its ELF section .gnu.version_r.
"""

import re
import struct
import sys
from pathlib import Path

# The type of that section.
VERSIONS_NEEDED = 0x6FFFFFFE


def sections(data):
    """Yields the type, the offset and the linked section's number of each section of an ELF file of 64 bits."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise SystemExit("this is no ELF program of 64 bits, little endian")
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    for number in range(count):
        kind, _, _, offset, _, link = struct.unpack_from("<IQQQQI", data, start + number * size + 4)
        yield kind, offset, link


def symbol_versions(data):
    """Yields the name of each version of a symbol that the program needs."""
    all_sections = list(sections(data))
    for kind, library, link in all_sections:
        names = all_sections[link][1]
        more = kind == VERSIONS_NEEDED
        while more:
            # One structure for each library, with a chain of one structure for each version.
            _, count, _, first, more = struct.unpack_from("<HHIII", data, library)
            version = library + first
            for _ in range(count):
                _, _, _, name, following = struct.unpack_from("<IHHII", data, version)
                yield data[names + name : data.index(b"\0", names + name)].decode()
                version += following
            library += more


def needed(program):
    """Returns the oldest glibc that has all symbols of a program: (2, 28)."""
    found = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", name) for name in symbol_versions(Path(program).read_bytes())]
    versions = [(int(match.group(1)), int(match.group(2))) for match in found if match]
    if not versions:
        raise SystemExit(f"{program} names no version of glibc: is it linked against another C library?")
    return max(versions)


if __name__ == "__main__":
    print("{}.{}".format(*needed(sys.argv[1])))
