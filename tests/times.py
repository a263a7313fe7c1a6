#!/usr/bin/env python3
"""Passes on what test programs print, writes the seconds of each test into a file, and prints the slowest tests.

Usage: ... | times.py FILE
"""

import re
import sys

SHOWN = 20
# As in `test hangs::a_test ... ok <1.234s>`.
RESULT = re.compile(r"^test (?P<name>\S+).* (?:ok|FAILED) <(?P<seconds>[0-9.]+)s>$")


def main():
    times = []
    for line in sys.stdin:
        sys.stdout.write(line)
        sys.stdout.flush()
        if result := RESULT.match(line.rstrip("\n")):
            times.append((float(result["seconds"]), result["name"]))
    times.sort(reverse=True)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.writelines(f"{seconds:9.3f} {name}\n" for seconds, name in times)
    total = sum(seconds for seconds, _ in times)
    print(f"\n{len(times)} tests took {total:.0f} s together, side by side less. All are in {sys.argv[1]}. The slowest:")
    for seconds, name in times[:SHOWN]:
        print(f"{seconds:9.3f} {name}")


main()
