# SPDX-License-Identifier: MIT
"""The names of allocator/base/rule.hpp, the questions in the sources and the rows of docs/testing.md are the same."""
import os
import re
import sys

from source import ROOT, files, finish, read

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests", "mutants"))
from mutants import finders_of, rows_of  # noqa: E402

LIST = "allocator/base/rule.hpp"
FEWEST_WORDS = 12  # of a proof


def kept_in(texts):
    """The files that ask for each rule."""
    places = {}
    for path, text in texts.items():
        for rule in re.findall(r"\bholds\(Rule::(\w+)\)", text):
            places.setdefault(rule, set()).add(path)
    return places


def problems_of(header, texts, page):
    names = re.findall(r"^  RULE\((\w+)\)", header, re.M)
    places = kept_in(texts)
    rows = rows_of(page)
    problems = [f"{LIST}: {name} stands there twice" for name in {n for n in names if names.count(n) > 1}]
    problems += [f"{LIST}: no source asks for {name}" for name in names if name not in places]
    listed = [rule for rule, _, _, _ in rows]
    problems += [f"docs/testing.md: {name} has {listed.count(name)} rows" for name in names if listed.count(name) != 1]
    problems += [f"docs/testing.md: {rule} is no rule" for rule in listed if rule not in names]
    for rule, paths, _, cell in rows:
        if set(paths) != places.get(rule, set()):
            problems.append(f"docs/testing.md: {rule} is kept in {sorted(places.get(rule, ()))}")
        try:
            if not finders_of(cell) and len(cell.split()) < FEWEST_WORDS:
                problems.append(f"docs/testing.md: {rule}: no proof")
        except ValueError as error:
            problems.append(f"docs/testing.md: {rule}: {error}")
    return problems


def self_test():
    """Each planted fault is found, and what is right is not."""
    header = "  RULE(one) \\\n  RULE(two)\n"
    texts = {"a.cpp": "holds(Rule::one)", "b.cpp": "x && holds(Rule::two)"}
    page = ('## Rules removed one by one\n\n| rule | file | what | by |\n| --- | --- | --- | --- |\n'
            '| `one` | `a.cpp` | x | unit "y" |\n| `two` | `b.cpp` | x | property 7 race; unit "z" |\n\n## Next\n')
    assert not problems_of(header, texts, page), problems_of(header, texts, page)
    for bad in [(header.replace("RULE(one)", "RULE(won)"), texts, page),
                (header, {**texts, "a.cpp": ""}, page),
                (header, {**texts, "c.cpp": "holds(Rule::one)"}, page),
                (header, texts, page.replace("`one`", "`won`")),
                (header, texts, page.replace("`a.cpp`", "`b.cpp`")),
                (header, texts, page.replace('unit "y"', "by luck")),
                (header, texts, page.replace('unit "y"', "equivalent: it just is"))]:
        assert problems_of(*bad), bad


def main():
    self_test()
    texts = {path: read(path) for path in files("allocator", "pinned", "interpose", ends=(".hpp", ".cpp"))
             if path != LIST}
    header = read(LIST)
    finish(problems_of(header, texts, read("docs/testing.md")), header.count("  RULE("))


main()
