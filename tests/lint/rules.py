# SPDX-License-Identifier: MIT
"""The names of allocator/base/rule.hpp, the questions in the sources and the rows of docs/testing.md are the same.
So are the rungs of the out-of-memory ladder in the sources, in decision 18 and in the picture of docs/how-it-works.md."""
import os
import re
import sys

from source import ROOT, files, finish, read

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests", "mutants"))
from mutants import finders_of, rows_of  # noqa: E402

LIST = "allocator/base/rule.hpp"
LADDER = ("allocator/cache/oom_ladder.cpp", "allocator/oom_ladder.cpp")
LADDER_PAGES = ("docs/decisions/18-ladder.md", "docs/how-it-works.md")
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


def ladder_problems(sources, decision, picture):
    """The list must have each rung in order, and the picture an arrow from each to the next."""
    rungs = [name for text in sources for table in re.findall(r"\bkRungs\[\] = \{(.*?)\};", text, re.S)
             for name in re.findall(r"(\w+),", table)]
    rows = [(int(number), name) for number, name in re.findall(r"^(\d+)\. `(\w+)`:", decision, re.M)]
    problems = [] if rungs and rows == list(enumerate(rungs, 1)) else [f"{LADDER_PAGES[0]}: the rungs are {rungs}"]
    picture = picture[picture.find("  no["):].partition("```")[0]
    arrows = re.findall(r"^  (\w+)(?:\[.*\])? --> (\w+)\[", picture, re.M)
    wanted = list(zip(["no", *rungs], [*rungs, "full"]))
    return problems + ([] if arrows == wanted else [f"{LADDER_PAGES[1]}: the picture of the ladder has not the rungs {rungs}"])


def self_test_of_ladder():
    sources = ["R kRungs[] = {\n    &L::one,\n    &L::two,\n};", "R* kRungs[] = {\n    three,\n};"]
    decision = "1. `one`: x;\n2. `two`: x;\n3. `three`: x.\n"
    picture = '  no["x y"] --> one["x"]\n  one --> two["x"]\n  two --> three["x"]\n  three --> full["x"]\n```\n  a --> b["x"]\n'
    assert not ladder_problems(sources, decision, picture), ladder_problems(sources, decision, picture)
    for bad in [(sources[:1], decision, picture), (sources[::-1], decision, picture),
                (sources, decision.replace("`two`", "`too`"), picture), (sources, decision.replace("3.", "4."), picture),
                (sources, decision, picture.replace("  two --> three", "  one --> three")), (["", ""], "", picture)]:
        assert ladder_problems(*bad), bad


def self_test():
    """Each planted fault is found, and what is right is not."""
    self_test_of_ladder()
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
    problems = problems_of(header, texts, read("docs/testing.md"))
    problems += ladder_problems([texts[path] for path in LADDER], *map(read, LADDER_PAGES))
    finish(problems, header.count("  RULE("))


main()
