# SPDX-License-Identifier: MIT
"""Includes go strictly downward, as docs/layers.md says."""
import os
import re

from source import PRODUCT, files, finish, read

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
PUBLIC = re.compile(r"(interpose/)?custash(_\w+)?[.]h(pp)?")
FORBIDDEN_IN_CORE = re.compile(r'\bgetenv\s*\(|\bdlsym\s*\(|extern\s*"C"')


class Rules:
    """The fenced blocks of docs/layers.md."""

    def __init__(self, text):
        blocks = dict(re.findall(r"```(\w+)\n(.*?)```", text, re.S))
        self.ranks = {}
        self.order = {}  # where a name stands in the whole list
        for line in blocks["ranks"].splitlines():
            head, names = line.split(":")
            folder, rank = head.split()
            for name in names.split():
                self.ranks[f"{folder}/{name}"] = int(rank)
                self.order[f"{folder}/{name}"] = len(self.order)
        self.folders = {k: v.split() for k, v in (l.split(":") for l in blocks["folders"].splitlines())}
        self.outside = {k: v.split() for k, v in (l.split(":") for l in blocks["outside"].splitlines())}

    def ranked_name(self, path):
        """allocator/timeline_fences.cpp belongs to allocator/timeline."""
        stem = os.path.splitext(path)[0]
        while stem not in self.ranks and "_" in os.path.basename(stem):
            stem = stem[:stem.rindex("_")]
        return stem if stem in self.ranks else None

    def folder_of(self, path):
        fitting = [f for f in self.folders if path.startswith(f + "/")]
        return max(fitting, key=len) if fitting else None

    def allows(self, folder, target):
        for word, following in zip(self.folders[folder], self.folders[folder][1:] + [""]):
            if word == "anything" or word == os.path.splitext(target)[0]:
                return True
            limits = re.fullmatch(r"(\d+)-(\d+)", following)
            name = self.ranked_name(target)
            if limits and name and name.startswith(word + "/"):
                if int(limits[1]) <= self.ranks[name] <= int(limits[2]):
                    return True
        return False


def own_include_problem(rules, path, target):
    """Why `path` may not include our header `target`, or None."""
    if "/" not in target:
        # The public headers lie beside each other where they are installed.
        return None if PUBLIC.fullmatch(path) and PUBLIC.fullmatch(target) else "include from the repository root"
    folder = rules.folder_of(path)
    if folder is None:
        return "its folder is not in docs/layers.md"
    if os.path.dirname(target) == os.path.dirname(path) or target.startswith(folder + "/"):
        if folder not in {name.split("/")[0] for name in rules.ranks}:
            return None
        mine, other = rules.ranked_name(path), rules.ranked_name(target)
        if mine is None or other is None:
            return None  # said once, of the file itself
        if rules.ranks[other] == rules.ranks[mine] and path.endswith(".cpp"):
            return None
        if rules.order[other] > rules.order[mine]:
            return f"{other} stands after {mine} in docs/layers.md"
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
    if path.startswith("allocator/"):
        rank = re.search(r"\bRank (\d)\b", text)
        name = rules.ranked_name(path)
        if name is None:
            problems.append(f"{path}: has no rank in docs/layers.md")
        elif rank and int(rank[1]) != rules.ranks[name]:
            problems.append(f"{path}: says rank {rank[1]}, docs/layers.md says {rules.ranks[name]}")
        code = re.sub(r"//[^\n]*", "", text)
        for found in FORBIDDEN_IN_CORE.findall(code):
            problems.append(f"{path}: {found.strip()} does not belong in allocator/")
    return problems


def self_test():
    """Each planted fault is found, and its harmless neighbour is not."""
    rules = Rules("```ranks\nallocator 0: units\nallocator 1: config\nallocator 2: block map\n```\n"
                  "```folders\nallocator: nothing\ninterpose: allocator/config\ntests/sim: allocator 0-1\n"
                  "tests: anything\n```\n```outside\nspdlog: allocator/log.cpp\ncuda: interpose\n```\n")
    bad = [("allocator/units.hpp", '#include "allocator/config.hpp"'),
           ("allocator/config.cpp", '#include "interpose/doors.hpp"'),
           ("allocator/config.cpp", '#include "units.hpp"'),
           ("allocator/config.cpp", "#include <spdlog/spdlog.h>"),
           ("allocator/config.cpp", "#include <cuda.h>"),
           ("allocator/config.cpp", 'x = getenv("A");'),
           ("allocator/block.hpp", '#include "allocator/map.hpp"'),
           ("allocator/config.cpp", "// Rank 2, pure."),
           ("allocator/unknown.cpp", "int x;"),
           ("interpose/a.cpp", '#include "allocator/block.hpp"'),
           ("interpose/a.cpp", '#include "tests/sim/sim.hpp"'),
           ("tests/sim/a.cpp", '#include "allocator/block.hpp"')]
    good = [("allocator/block.cpp", '#include "allocator/block.hpp"\n#include "allocator/units.hpp"\n#include <map>'),
            ("allocator/block.cpp", '#include "allocator/map.hpp"'),
            ("allocator/map.hpp", '#include "allocator/block.hpp"'),
            ("allocator/block_extra.cpp", '#include "allocator/block.hpp"'),
            ("interpose/a.cpp", '#include "interpose/b.hpp"\n#include "allocator/config.hpp"\n#include <cuda.h>'),
            ("tests/sim/a.cpp", '#include "allocator/units.hpp"'),
            ("tests/unit/a.cpp", '#include "allocator/block.hpp"')]
    for path, text in bad:
        assert problems_of(rules, path, text), (path, text)
    for path, text in good:
        assert not problems_of(rules, path, text), problems_of(rules, path, text)


def main():
    self_test()
    rules = Rules(read("docs/layers.md"))
    sources = files(*PRODUCT, "tests", ends=(".cpp", ".hpp", ".h", ".c", ".cu"))
    problems = [p for path in sources for p in problems_of(rules, path, read(path))]
    finish(problems, len(sources))


main()
