# SPDX-License-Identifier: MIT
"""The table of docs/testing.md names each case of the conformance suite, and no other."""
import glob
import os
import re

from source import ROOT, finish, read

PAGE = "docs/testing.md"


def cases():
    files = glob.glob(os.path.join(ROOT, "tests/conformance/*.cpp"))
    return {name for file in files for name in re.findall(r"^CASE\((\w+)\)", read(os.path.relpath(file, ROOT)), re.M)}


def told(page):
    """In the second cell of a row `group_…` begins the names after it; another one stands for itself."""
    names = set()
    table = page.split("| group | cases | asks |", 1)[1].split("\n\n", 1)[0]
    for row in table.splitlines()[2:]:
        prefix = ""
        for name in re.findall(r"`(\w+…?)`", row.split(" | ")[1]):
            if name.endswith("…"):
                prefix = name[:-1]
            else:
                names.add(prefix + name)
    return names


def problems_of(all_cases, page):
    said = told(page)
    return ([f"{PAGE} lacks the case {name}" for name in sorted(all_cases - said)] +
            [f"{PAGE} names {name}, which is no case" for name in sorted(said - all_cases)])


def main():
    all_cases, page = cases(), read(PAGE)
    assert len(all_cases) > 100, all_cases
    assert problems_of(all_cases | {"pitched_planted"}, page), "a lack is not seen"
    assert problems_of(all_cases - {"pitched_work"}, page), "a case that is gone is not seen"
    finish(problems_of(all_cases, page), len(all_cases))


main()
