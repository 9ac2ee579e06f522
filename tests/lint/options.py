# SPDX-License-Identifier: MIT
"""docs/options.md is what `custash options` prints, and lists few options. Argument: the command."""
import difflib
import subprocess
import sys

from source import finish, read


MOST = (24, 12)  # of those for everyone, and of the advanced ones


def too_many(printed):
    counts = [part.count("\n| `") for part in printed.split("\n## Advanced\n")]
    return [f"{counts} options of at most {MOST}: name the one that yours replaces"] \
        if len(counts) != len(MOST) or any(map(int.__gt__, counts, MOST)) else []


def problems_of(page, printed):
    return too_many(printed) + list(difflib.unified_diff(page.splitlines(), printed.splitlines(), "docs/options.md",
                                     "custash options", lineterm=""))


def main():
    printed = subprocess.run([sys.argv[1], "options"], check=True, capture_output=True, text=True).stdout
    assert problems_of(printed, printed.replace("| `summary`", "| `sumary`")), "a planted change is not seen"
    row = "\n| `one_more` |"
    assert too_many(printed.replace("\n| `decay`", row * 24)) and too_many(printed + row * 12), "planted options are not seen"
    finish(problems_of(read("docs/options.md"), printed), printed.count("\n| `"))


main()
