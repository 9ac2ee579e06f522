# SPDX-License-Identifier: MIT
"""The picture in docs/layers.md is drawn from the includes as they are. `--write` draws it anew.

A room is a folder that the page names; tools/ is one room, and so are the public headers. An arrow has the number of
its includes. An arrow that a way through other rooms implies is left out.
"""
import os
import re
import sys
from collections import Counter

sys.dont_write_bytecode = True
from layers import INCLUDE, PUBLIC, Rules  # noqa: E402
from source import PRODUCT, ROOT, files, finish, read  # noqa: E402

PAGE = "docs/layers.md"
PICTURE = re.compile(r"(?<=```mermaid\n).*?(?=```)", re.S)
HEADERS = "custash.h"


def room_of(rules, path):
    if PUBLIC.fullmatch(path):
        return HEADERS
    return "tools" if path.startswith("tools/") else rules.folder_of(path)


def arrows_of(rules, texts):
    """How many includes go from each room to each other one."""
    arrows = Counter()
    for path, text in texts.items():
        for kind, target in INCLUDE.findall(text):
            rooms = room_of(rules, path), room_of(rules, target)
            if kind == '"' and target in texts and rooms[0] != rooms[1]:
                arrows[rooms] += 1
    return arrows


def reaches(arrows, start, end, left_out):
    """Whether a way goes from one room to another without that arrow."""
    seen, open_ends = set(), [start]
    while open_ends:
        room = open_ends.pop()
        for source, target in arrows:
            if source == room and (source, target) != left_out and target not in seen:
                seen.add(target)
                open_ends.append(target)
    return end in seen


def drawn(rules, texts):
    arrows = arrows_of(rules, texts)
    shown = {arrow: count for arrow, count in arrows.items() if not reaches(arrows, *arrow, left_out=arrow)}
    names = {room: re.sub(r"\W", "_", room) for room in {room_of(rules, path) for path in texts}}
    lines = ["flowchart TB"]
    for storey in ("tools", "interpose", "pinned", "allocator", "tests/sim", HEADERS):
        rooms = sorted(room for room in names if room == storey or room.startswith(storey + "/"))
        labels = {room: room.removeprefix(storey + "/") + "/" for room in rooms}
        if len(rooms) > 1:
            labels[storey] = "itself"
        labels[HEADERS] = "public headers"
        nodes = [f'  {names[room]}["{labels[room]}"]' for room in rooms]
        lines += nodes if len(rooms) < 2 else \
            [f'  subgraph in_{storey}["{storey}/"]', *("  " + node for node in nodes), "  end"]
    lines += [f"  {names[a]} -- {count} --> {names[b]}" for (a, b), count in sorted(shown.items())]
    return "\n".join(lines) + "\n"


def problems_of(page, picture):
    return [] if PICTURE.findall(page) == [picture] else [f"{PAGE}: stale picture; run python3 tests/lint/house.py --write"]


def self_test():
    """A picture that lacks an include is stale, and an implied arrow is not drawn."""
    rules = Rules("```folders\nallocator/base: nothing\nallocator/heap: allocator/base/\npinned: nothing\n```\n"
                  "```outside\n```\n")
    texts = {"allocator/base/a.hpp": "", "allocator/heap/b.hpp": '#include "allocator/base/a.hpp"',
             "pinned/c.cpp": '#include "allocator/heap/b.hpp"\n#include "allocator/base/a.hpp"', "tools/run/d.cpp": ""}
    picture = drawn(rules, texts)
    assert "allocator_heap -- 1 --> allocator_base" in picture and "pinned -- 1 --> allocator_heap" in picture, picture
    assert "pinned -- 1 --> allocator_base" not in picture, picture
    assert not problems_of(f"```mermaid\n{picture}```\n", picture)
    texts["pinned/c.cpp"] += '\n#include "allocator/heap/b.hpp"'
    assert problems_of(f"```mermaid\n{picture}```\n", drawn(rules, texts))


def main():
    self_test()
    page = read(PAGE)
    rules = Rules(page)
    texts = {path: read(path) for path in files(*PRODUCT, "tests/sim", ends=(".cpp", ".hpp", ".h", ".c"))
             if room_of(rules, path)}
    picture = drawn(rules, texts)
    if sys.argv[1:] == ["--write"]:
        page = PICTURE.sub(lambda _: picture, page, count=1)
        with open(os.path.join(ROOT, PAGE), "w", encoding="utf-8") as file:
            file.write(page)
    finish(problems_of(page, picture), len(texts))


main()
