# SPDX-License-Identifier: MIT
"""docs/semantics.md has each entry point in one row, and the tests that its rows name exist.

Rows of entry points are those of tables that begin with a column `entry`; the last column names
tests: `a file of tests/`, `a file:a name in it`, or "a test case".
"""
import re

from source import files, finish, read

PAGE = "docs/semantics.md"
CASE = re.compile(r'\bTEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')


def rows_of(page):
    """Cells of each row of a table that begins with `entry`."""
    rows = []
    entries = False
    for line in page.splitlines():
        if not line.startswith("|"):
            entries = False
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0] == "entry":
            entries = True
        elif entries and not line.startswith("| ---"):
            rows.append(cells)
    return rows


def cases_of(text):
    """Names of Catch2 test cases; one may be written in pieces."""
    return {"".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found)) for found in CASE.findall(text)}


def names_of(definition, header):
    """What needs a row: entry_points.def without the forms, and the functions of custash.h."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.S)
    return set(re.findall(r"^[A-Z]+\((cu\w+)", definition, re.M)) | set(
        re.findall(r"\bCUSTASH_API\s[^;(]*?\b(custash_\w+)\s*\(", code))


def test_problems(cell, texts, cases):
    """What is wrong with the tests that a last cell names."""
    references = [r for r in re.findall(r"`([^`]+)`", cell) if "/" in r]
    quoted = re.findall(r'"([^"]+)"', cell)
    problems = [] if references or quoted else ["names no test"]
    for reference in references:
        path, _, name = reference.partition(":")
        if path not in texts:
            problems.append(f"{path} is no file of tests/")
        elif name and not re.search(rf"\b{re.escape(name)}\b", texts[path]):
            problems.append(f"{name} is not in {path}")
    return problems + [f'no test case "{name}"' for name in quoted if name not in cases]


def problems_of(page, names, texts, cases):
    problems = []
    rows_with = {}
    for row in rows_of(page):
        for name in re.findall(r"`(\w+)`", row[0]):
            rows_with[name] = rows_with.get(name, 0) + 1
        problems += [f"{PAGE}: {row[0][:60]}: {p}" for p in test_problems(row[-1], texts, cases)]
    problems += [f"{PAGE}: {name} has no row" for name in sorted(names - set(rows_with))]
    problems += [f"{PAGE}: {name} has {count} rows" for name, count in sorted(rows_with.items()) if count > 1]
    problems += [f"{PAGE}: {name} is no entry point" for name in sorted(set(rows_with) - names)]
    return problems


def self_test():
    """Each planted fault is found, and its harmless neighbour is not."""
    texts = {"tests/a.c": "void plain(void);"}
    cases = cases_of('TEST_CASE("one "\n  "two", "[tag]") {}\n  TEST_CASE("three") {')
    assert cases == {"one two", "three"}, cases
    names = names_of("A(cuOne, One)\n// B(cuNot, One)\nB(cuTwo, Ptsz)\n",
                     "/* custash_not(x) */\nCUSTASH_API int custash_a(void);\n")
    assert names == {"cuOne", "cuTwo", "custash_a"}, names
    page = ('| entry | test |\n| --- | --- |\n| `cuOne`, `cuTwo` | `tests/a.c:plain`, "three" |\n'
            "| `custash_a` | `tests/a.c` |\n\n| call | test |\n| --- | --- |\n| `cuThree` | none |\n")
    assert not problems_of(page, names, texts, cases), problems_of(page, names, texts, cases)
    for good, bad in [("`cuOne`, ", ""), ("`cuTwo`", "`cuTwo`, `custash_a`"), ("`cuTwo`", "`cuTwo`, `cuFour`"),
                      ("`tests/a.c:plain`, \"three\"", "form only"), ("a.c:plain", "b.c"), ("a.c:plain", "a.c:plai"),
                      ('"three"', '"four"'), ("| call |", "| entry |")]:
        assert good in page and problems_of(page.replace(good, bad, 1), names, texts, cases), (good, bad)


def main():
    self_test()
    names = names_of(read("interpose/entry_points.def"), read("interpose/custash.h"))
    texts = {path: read(path) or "" for path in files("tests")}
    cases = {name for path, text in texts.items() if path.endswith(".cpp") for name in cases_of(text)}
    finish(problems_of(read(PAGE), names, texts, cases), len(names))


main()
