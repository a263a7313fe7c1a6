#!/usr/bin/env python3
"""Prints the measures of the house: how functions are named, what reads from the middle, and the bytes of production code.

Usage: tests/house.py [--places]   --places also lists each function, closure and parameter that is counted against the house.

Production code is all of `src` and `crates/*/src`, without what only tests compile. In its bytes, comments, blank lines and the
indentation of lines do not count.
"""

import pathlib
import re
import sys
from collections import Counter

ROOT = pathlib.Path(__file__).resolve().parent.parent

COMMENT = r"//[^\n]*|/\*.*?\*/"
TEXT = r"""\bb?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])'"""
COMMENT_OR_TEXT = re.compile(f"(?P<comment>{COMMENT})|{TEXT}", re.DOTALL)

TEST_ONLY = re.compile(r"#\[cfg\(test\)\]")
TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+);")
FUNCTION = re.compile(r"\bfn\s+(?:r#)?(\w+)")
ATTRIBUTE = re.compile(r"#!?\[[^\]]*\]")
BLOCK_OF_METHODS = re.compile(r"(?:pub(?:\([^)]*\))?\s+)?(?:unsafe\s+)?(?:impl|trait)\b")
NAMED_CLOSURE = re.compile(r"\blet\s+(?:mut\s+)?\w+\s*(?::[^=;]+)?=\s*(?:async\s+)?(?:move\s+)?\|")
PATTERN = re.compile(r"(?:mut\s+|&\s*)*[(\[]")


def blanked(source, texts_too):
    """Puts blanks in place of comments, and of texts if asked; all else stays in its place."""

    def blank(match):
        if match["comment"] is None and not texts_too:
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    return COMMENT_OR_TEXT.sub(blank, source)


def end_of(code, start, ends):
    """Returns where the first of these characters stands that is in no bracket, or closes the outermost one."""
    depth = 0
    for index in range(start, len(code)):
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(code[index], 0)
        if depth <= 0 and code[index] in ends:
            return index
    return len(code)


def without_tests(code, other):
    """Cuts each item that only tests compile from the code, and from another text with the same places."""
    kept, kept_other, start = [], [], 0
    for attribute in TEST_ONLY.finditer(code):
        if attribute.start() < start:
            continue
        kept.append(code[start : attribute.start()])
        kept_other.append(other[start : attribute.start()])
        start = end_of(code, attribute.end(), ";}") + 1
        if code[start : start + 1] == ";":
            start += 1
    return "".join([*kept, code[start:]]), "".join([*kept_other, other[start:]])


def production_files():
    """Yields each file's path, its code without texts, and its code with them."""
    roots = [ROOT / "src", *sorted((ROOT / "crates").glob("*/src"))]
    sources = {path: path.read_text(encoding="utf-8") for root in roots for path in sorted(root.rglob("*.rs"))}
    test_only = set()
    for path, source in sources.items():
        folder = path.parent if path.stem in ("mod", "lib", "main") else path.with_suffix("")
        test_only.update(folder / name for name in TEST_MODULE.findall(blanked(source, True)))
    for path, source in sources.items():
        if test_only.isdisjoint([path.with_suffix(""), *path.parents]):
            yield path.relative_to(ROOT), *without_tests(blanked(source, True), blanked(source, False))


def functions(code):
    """Yields the name of each function, and whether it is free: outside of any impl and trait."""
    blocks, depth, start = [], 0, 0
    for mark in re.finditer(r"[{};]", code):
        head = code[start : mark.start()]
        start = mark.end()
        for name in FUNCTION.findall(head):
            yield name, not blocks
        if mark[0] == "{":
            depth += 1
            if BLOCK_OF_METHODS.match(ATTRIBUTE.sub("", head).strip()):
                blocks.append(depth)
        elif mark[0] == "}":
            if blocks and blocks[-1] == depth:
                blocks.pop()
            depth -= 1


def long_closures(code):
    """Yields each closure that `let` names and that takes more than a line, by its first line."""
    for match in NAMED_CLOSURE.finditer(code):
        statement = code[match.start() : end_of(code, match.start(), ";")]
        if "\n" in statement:
            yield statement.splitlines()[0]


def outside_generics(code, start, character):
    """Returns where this character stands first that is in no bracket and in no generics."""
    depth = index = 0
    for index in range(start, len(code)):
        if depth == 0 and code[index] == character:
            break
        if code[index] in "(<[{":
            depth += 1
        elif code[index] in ")]}" or code[index] == ">" and code[index - 1] not in "-=":
            depth -= 1
    return index


def parameters(code, start):
    """Returns the parameters of the function whose name ends here."""
    opening = outside_generics(code, start, "(")
    found, start, end = [], opening + 1, end_of(code, opening, ")")
    while start < end:
        comma = min(outside_generics(code, start, ","), end)
        found.append(ATTRIBUTE.sub("", code[start:comma]).strip())
        start = comma + 1
    return found


def pattern_parameters(code):
    """Yields each parameter of a function that is a tuple or an array taken apart."""
    for function in FUNCTION.finditer(code):
        for parameter in parameters(code, function.end()):
            if PATTERN.match(parameter):
                yield f"{function[1]}({parameter})"


def code_bytes(code):
    """Counts bytes without blank lines and indentation."""
    return sum(len(line.strip().encode()) + 1 for line in code.splitlines() if line.strip())


def main():
    names, free, size, places = [], [], Counter(), []
    closures = patterns = 0
    for path, code, with_texts in production_files():
        for name, is_free in functions(code):
            names.append(name)
            if is_free:
                free.append(name)
                if "_" not in name.strip("_"):
                    places.append(f"one word: {path}: {name}")
        for closure in long_closures(code):
            closures += 1
            places.append(f"closure: {path}: {closure}")
        for parameter in pattern_parameters(code):
            patterns += 1
            places.append(f"pattern: {path}: {parameter}")
        crate = "/".join(path.parts[:2]) if path.parts[0] == "crates" else "src"
        size[crate] += code_bytes(with_texts)
    short = sum("_" not in name.strip("_") for name in free)
    print(f"free functions of one word: {short} of {len(free)}, {100 * short / len(free):.1f} %")
    print(f"mean length of a function's name: {sum(map(len, names)) / len(names):.2f}, of {len(names)}")
    print(f"closures of several lines that `let` names: {closures}")
    print(f"tuple and array patterns in parameters of functions: {patterns}")
    for crate, count in size.items():
        print(f"bytes of code in {crate}: {count:,}")
    print(f"bytes of code in all: {size.total():,}")
    if "--places" in sys.argv[1:]:
        print(*sorted(places), sep="\n")


main()
