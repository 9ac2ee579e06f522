# SPDX-License-Identifier: MIT
"""docs/api.md is what tools/api-page makes of custash.h. It has every function, each with a comment."""
import difflib
import os
import re
import subprocess

from source import ROOT, finish, read

SECTION = re.compile(r"^### `(custash_\w+)`\n\n```c\n.*?^```\n(.*?)(?=^##|\Z)", re.S | re.M)


def problems_of(page, printed, header):
    problems = list(difflib.unified_diff(page.splitlines(), printed.splitlines(), "docs/api.md", "tools/api-page",
                                         lineterm=""))
    said = {name: text.strip() for name, text in SECTION.findall(page)}
    for name in re.findall(r"^CUSTASH_API\s[^;(]*?\b(custash_\w+)\s*\(", header, re.M):
        if not said.get(name):
            problems.append(f"docs/api.md lacks {name}, or custash.h a comment above it")
    return problems


def main():
    printed = subprocess.run([os.path.join(ROOT, "tools/api-page")], check=True, capture_output=True, text=True).stdout
    header, page = read("interpose/api/custash.h"), read("docs/api.md")
    assert problems_of(printed.replace("never waits", "waits", 1) + "x", printed, header), "a change is not seen"
    assert problems_of(printed, printed, header + "\nCUSTASH_API int custash_not_there(void);\n"), "a lack is not seen"
    silent = printed + "\n### `custash_silent`\n\n```c\nint custash_silent(void);\n```\n"
    assert problems_of(silent, silent, header + "\nCUSTASH_API int custash_silent(void);\n"), "a lack of words is not seen"
    finish(problems_of(page, printed, header), printed.count("\n### "))


main()
