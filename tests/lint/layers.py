# SPDX-License-Identifier: MIT
"""Includes go strictly downward between folders and in no circle within one, as docs/layers.md says."""
import os
import re

from source import PRODUCT, files, finish, read

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
PUBLIC = re.compile(r"(interpose/api/)?custash(_\w+)?[.]h(pp)?")
FORBIDDEN_IN_CORE = re.compile(r'\bgetenv\s*\(|\bdlsym\s*\(|extern\s*"C"')
# Each library has its own list of those that wait for an atomic: an inline function may notify those of the wrong one.
NOTIFIES = re.compile(r"\bnotify_(?:all|one)\s*\(")


class Rules:
    """The fenced blocks of docs/layers.md."""

    def __init__(self, text):
        blocks = dict(re.findall(r"```(\w+)\n(.*?)```", text, re.S))
        self.folders = {k: v.split() for k, v in (l.split(":") for l in blocks["folders"].splitlines())}
        self.outside = {k: v.split() for k, v in (l.split(":") for l in blocks["outside"].splitlines())}

    def folder_of(self, path):
        fitting = [f for f in self.folders if path.startswith(f + "/")]
        return max(fitting, key=len) if fitting else None

    def allows(self, folder, target):
        allowed = self.folders[folder]
        return "anything" in allowed or os.path.dirname(target) + "/" in allowed \
            or os.path.splitext(target)[0] in allowed


def own_include_problem(rules, path, target):
    """Why `path` may not include our header `target`, or None."""
    if "/" not in target:
        # The public headers lie beside each other where they are installed.
        return None if PUBLIC.fullmatch(path) and PUBLIC.fullmatch(target) else "include from the repository root"
    folder = rules.folder_of(path)
    if folder is None:
        return "its folder is not in docs/layers.md"
    # Below a folder of the page, in a subfolder that it does not name, is the same folder.
    if rules.folder_of(target) == folder:
        return None
    return None if rules.allows(folder, target) else f"{folder}/ may not include it"


def outside_problem(rules, path, target):
    """Why `path` may not include the foreign header `target`, or None."""
    for library, places in rules.outside.items():
        is_cuda = library == "cuda" and re.match(r"cuda\w*\.h|cuda_", target)
        if is_cuda or target.startswith(library + "/"):
            if not any(path == p or path.startswith(p + "/") for p in places):
                return f"{library} only in {' '.join(places)}"
    return None


def problems_of(rules, path, text):
    problems = []
    for kind, target in INCLUDE.findall(text):
        check = own_include_problem if kind == '"' else outside_problem
        if path.startswith("tests/") and kind == '"' and "/" not in target:
            continue  # a sample program's own or the toolkit's header
        why = check(rules, path, target)
        if why:
            problems.append(f"{path}: includes {target}: {why}")
    code = re.sub(r"//[^\n]*", "", text)
    if path.startswith("allocator/"):
        for found in FORBIDDEN_IN_CORE.findall(code):
            problems.append(f"{path}: {found.strip()} does not belong in allocator/")
    if path.startswith(PRODUCT) and path.endswith(".hpp") and NOTIFIES.search(code):
        problems.append(f"{path}: notifies in a header, which two libraries may contain")
    return problems


def order_problems(rules):
    """A folder may name a whole folder only where that stands above it on the page."""
    above, problems = set(), []
    for folder, allowed in rules.folders.items():
        problems += [f"docs/layers.md: {folder} may include {each}, which does not stand above it"
                     for each in allowed if each.endswith("/") and each[:-1] not in above]
        above.add(folder)
    return problems


def circle(headers):
    """The first circle among headers that include each other, as their names; or nothing."""
    done = set()

    def visit(name, above):
        if name in above:
            return [*above[above.index(name):], name]
        if name in done:
            return []
        for target in headers.get(name, ()):
            found = visit(target, [*above, name])
            if found:
                return found
        done.add(name)
        return []

    return next(filter(None, (visit(name, []) for name in headers)), [])


def circles_of(texts):
    headers = {path: [t for kind, t in INCLUDE.findall(text) if kind == '"' and t in texts]
               for path, text in texts.items()}
    found = circle(headers)
    return [f"headers in a circle: {' -> '.join(found)}"] if found else []


def self_test():
    """Each planted fault is found, and its harmless neighbour is not."""
    rules = Rules("```folders\nallocator/base: nothing\nallocator/heap: allocator/base/\n"
                  "allocator: allocator/base/ allocator/heap/\ninterpose: allocator/base/config\n"
                  "tests/sim: allocator/base/\ntests: anything\n```\n"
                  "```outside\nspdlog: allocator/base/log.cpp\ncuda: interpose\n```\n")
    bad = [("allocator/base/units.hpp", '#include "allocator/heap/block.hpp"'),
           ("allocator/heap/block.hpp", '#include "allocator/allocator.hpp"'),
           ("allocator/base/config.cpp", '#include "interpose/hooks/hook.hpp"'),
           ("allocator/base/config.cpp", '#include "units.hpp"'),
           ("allocator/base/config.cpp", "#include <spdlog/spdlog.h>"),
           ("allocator/base/config.cpp", "#include <cuda.h>"),
           ("allocator/base/config.cpp", 'x = getenv("A");'),
           ("allocator/base/a.hpp", "void f() { x.notify_all(); }"),
           ("interpose/a.cpp", '#include "allocator/heap/block.hpp"'),
           ("interpose/a.cpp", '#include "allocator/base/units.hpp"'),
           ("interpose/a.cpp", '#include "tests/sim/sim.hpp"'),
           ("tests/sim/a.cpp", '#include "allocator/heap/block.hpp"')]
    good = [("allocator/heap/block.cpp", '#include "allocator/heap/block.hpp"\n#include <map>'),
            ("allocator/heap/block.cpp", '#include "allocator/base/units.hpp"\nvoid f() { x.notify_all(); }'),
            ("allocator/allocator.cpp", '#include "allocator/heap/block.hpp"'),
            ("interpose/a.cpp", '#include "interpose/b.hpp"\n#include "allocator/base/config.hpp"\n#include <cuda.h>'),
            ("tests/sim/a.cpp", '#include "allocator/base/units.hpp"'),
            ("tests/unit/a.cpp", '#include "allocator/heap/block.hpp"')]
    for path, text in bad:
        assert problems_of(rules, path, text), (path, text)
    for path, text in good:
        assert not problems_of(rules, path, text), problems_of(rules, path, text)
    assert not order_problems(rules)
    assert order_problems(Rules("```folders\na: b/\nb: nothing\n```\n```outside\n```\n"))
    assert circles_of({"a.hpp": '#include "b.hpp"', "b.hpp": '#include "c.hpp"', "c.hpp": '#include "a.hpp"'})
    assert not circles_of({"a.hpp": '#include "b.hpp"\n#include "c.hpp"', "b.hpp": '#include "c.hpp"', "c.hpp": ""})


def main():
    self_test()
    rules = Rules(read("docs/layers.md"))
    sources = {path: read(path) for path in files(*PRODUCT, "tests", ends=(".cpp", ".hpp", ".h", ".c", ".cu"))}
    problems = [p for path, text in sources.items() for p in problems_of(rules, path, text)]
    problems += order_problems(rules)
    problems += circles_of({path: text for path, text in sources.items() if path.endswith((".hpp", ".h"))})
    finish(problems, len(sources))


if __name__ == "__main__":
    main()
