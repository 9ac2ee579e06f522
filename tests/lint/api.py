# SPDX-License-Identifier: MIT
"""Every function of the public header has a comment above it, and every header builds as C11 too."""
import re

from source import finish, read

HEADER = "interpose/api/custash.h"
FUNCTION = re.compile(r"\b(custash_\w+)\s*\(")


def problems_of(text):
    """(problems, functions). A declaration starts at the line after a comment, a blank or a `;`."""
    problems, functions = [], []
    lines = text.splitlines()
    in_comment = False
    statement_start = None
    for number, line in enumerate(lines):
        code = line.strip()
        if in_comment or code.startswith("/*"):
            in_comment = "*/" not in code
            continue
        if not code or code.startswith(("//", "#")) or code.endswith("\\"):
            continue
        code = re.sub(r"/\*.*?\*/|//.*", "", code).strip()
        if statement_start is None:
            statement_start = number
        found = FUNCTION.search(code)
        if found and found[1] not in functions and "typedef" not in code:
            functions.append(found[1])
            above = lines[statement_start - 1].strip() if statement_start else ""
            if not (above.startswith(("//", "*")) or above.endswith("*/")):
                problems.append(f"{HEADER}:{number + 1}: {found[1]} has no comment above it")
        if code.endswith((";", "{", "}")):
            statement_start = None
    return problems, functions


def self_test():
    good = "/* Doc. */\nint custash_a(int x,\n              int y);\n\n// Doc.\nCUSTASH_API\nint custash_b(void);\n"
    problems, functions = problems_of(good)
    assert not problems and functions == ["custash_a", "custash_b"], (problems, functions)
    assert problems_of(good + "int custash_c(void);\n")[0], "a function without a comment is not seen"
    assert problems_of("\nint custash_c(void);\n")[0], "a function without a comment is not seen"


def main():
    self_test()
    problems, functions = problems_of(read(HEADER))
    finish(problems, len(functions))


main()
