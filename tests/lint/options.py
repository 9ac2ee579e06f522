# SPDX-License-Identifier: MIT
"""docs/options.md is what `custash options` prints. Argument: the command."""
import difflib
import subprocess
import sys

from source import finish, read


def problems_of(page, printed):
    return list(difflib.unified_diff(page.splitlines(), printed.splitlines(), "docs/options.md",
                                     "custash options", lineterm=""))


def main():
    printed = subprocess.run([sys.argv[1], "options"], check=True, capture_output=True, text=True).stdout
    assert problems_of(printed, printed.replace("| `summary`", "| `sumary`")), "a planted change is not seen"
    finish(problems_of(read("docs/options.md"), printed), printed.count("\n| `"))


main()
