# SPDX-License-Identifier: MIT
"""docs/api.md is what tools/api-page makes of custash.h, and has every function of it."""
import difflib
import os
import re
import subprocess

from source import ROOT, finish, read


def problems_of(page, printed, header):
    problems = list(difflib.unified_diff(page.splitlines(), printed.splitlines(), "docs/api.md", "tools/api-page",
                                         lineterm=""))
    for name in re.findall(r"^CUSTASH_API\s[^;(]*?\b(custash_\w+)\s*\(", header, re.M):
        if f"\n### `{name}`\n" not in page:
            problems.append(f"docs/api.md lacks {name}")
    return problems


def main():
    printed = subprocess.run([os.path.join(ROOT, "tools/api-page")], check=True, capture_output=True, text=True).stdout
    header, page = read("interpose/api/custash.h"), read("docs/api.md")
    assert problems_of(printed.replace("never waits", "waits", 1) + "x", printed, header), "a change is not seen"
    assert problems_of(printed, printed, header + "\nCUSTASH_API int custash_not_there(void);\n"), "a lack is not seen"
    finish(problems_of(page, printed, header), printed.count("\n### "))


main()
