# SPDX-License-Identifier: MIT
"""Rules that hold for the text of files: licence line, sizes, no path of the author's machine; and where files lie."""
import os
import re

from source import PRODUCT, files, finish, read

LIMITS = {".cpp": 400, ".hpp": 200, ".h": 400, ".js": 200, ".css": 200}
CODE = (".cpp", ".hpp", ".h", ".c", ".cu", ".cuh", ".S", ".def", ".map", ".py", ".sh", ".build", ".js", ".css")
# Written in halves, so that this file does not hold what it looks for. `[.]library` only as a
# folder's name: a member may be called so.
MACHINE = re.compile("|".join(["/wo" + "rk/", "/fa" + "rm/", "/tmp/bash_" + "jobs", "[.][.]/sha" + "red",
                               r"(?:^|[\s\"'/])[.]lib" + r"rary\b", "/ro" + "ot/", "/ho" + r"me/\w"]), re.M)
TOP = {"allocator", "pinned", "interpose", "tests", "tools", "docs", "meson.build", "meson_options.txt", "pyproject.toml", "README.md",
       "CHANGELOG.md", "LICENSE"}
BLANKS = re.compile(r"[ \t]+$|\t", re.M)


def is_script(text):
    return text.startswith("#!")


def problems_of(path, text):
    problems = []
    lines = text.splitlines()
    ending = os.path.splitext(path)[1]
    if ending in CODE or is_script(text):
        at = 1 if is_script(text) else 0
        if len(lines) <= at or "SPDX-License-Identifier: MIT" not in lines[at]:
            problems.append(f"{path}:{at + 1}: SPDX-License-Identifier: MIT belongs here")
    limit = LIMITS.get(ending, len(lines))
    if path.split("/")[0] in PRODUCT and len(lines) > limit:
        problems.append(f"{path}: {len(lines)} lines, the limit is {limit}")
    for found in MACHINE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        problems.append(f"{path}:{line}: names a path of one machine: {found[0].strip()}")
    if ending in (".cpp", ".hpp") and BLANKS.search(text):
        line = text.count("\n", 0, BLANKS.search(text).start()) + 1
        problems.append(f"{path}:{line}: a tab or a blank at the end of a line")
    if ending in (".hpp", ".cuh") and "#pragma once" not in text:
        problems.append(f"{path}: no #pragma once")
    return problems


def misplaced(paths):
    top = sorted({path.split("/")[0] for path in paths})
    return [f"{name}: no such thing belongs at the top of the repository" for name in top
            if name not in TOP and not name.startswith((".", "build"))]


def self_test():
    """Each planted fault is found, and its harmless neighbour is not."""
    licence = "// SPDX-License-Identifier: MIT\n"
    for path, text in [("a.cpp", "int x;\n"), ("tools/a", "#!/bin/sh\necho\n"),
                       ("allocator/a.cpp", licence + "\n" * 400),
                       ("tools/a.hpp", licence + "#pragma once\n" * 200),
                       ("a.md", "see /wo" + "rk/x"), ("a.md", 'open("../sha' + 'red/x")'),
                       ("a.md", "in .lib" + "rary/x"), ("a.cpp", licence + "int x; \n"),
                       ("a.hpp", licence)]:
        assert problems_of(path, text), (path, text[:60])
    for path, text in [("a.cpp", licence), ("a.md", "plain\n"),
                       ("tools/a", "#!/bin/sh\n# SPDX-License-Identifier: MIT\n"),
                       ("tests/a.cpp", licence + "\n" * 500), ("a.cpp", licence + "options.library = 1;\n")]:
        assert not problems_of(path, text), problems_of(path, text)
    assert len(misplaced(["00c16973f847", "core/a.cpp", "docs/a.md", ".ci/run", "LICENSE"])) == 2


def main():
    self_test()
    everything = files()
    texts = [(path, read(path)) for path in everything]
    problems = [p for path, text in texts if text is not None for p in problems_of(path, text)] + misplaced(everything)
    finish(problems, len(everything))


main()
