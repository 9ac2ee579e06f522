# SPDX-License-Identifier: MIT
"""docs/observing.md has a line for each counter of device and pinned memory."""
import re

from source import finish, read

DEVICE, PINNED, PAGE = "interpose/counters/device_stats.cpp", "pinned/host_stats.cpp", "docs/observing.md"


def names_of(device, pinned):
    tables = device[device.index("kCounterMembers = {"):]
    names = re.findall(r"\b(?:POOLS|SINGLE|NUMBER)\((\w+)\)", tables)
    names += ["custash." + name for name in re.findall(r"\bOWN\((\w+)\)", tables)]
    return names, re.findall(r'(?:append\(&out, |out\.emplace_back\()"(\w+)"', pinned)


def problems_of(names, page):
    device, pinned = names
    chapter = page[page.find("## Pinned memory"):]
    said = set(re.findall(r"`([\w.]+)`", page)), set(re.findall(r"`([\w.]+)`", chapter.split("\n## ")[0]))
    return ([f"{PAGE} lacks {name}" for name in device if name not in said[0]] +
            [f"{PAGE}, Pinned memory, lacks {name}" for name in pinned if name not in said[1]])


def main():
    names = names_of(read(DEVICE), read(PINNED))
    page = read(PAGE)
    assert len(names[0]) > 20 and len(names[1]) > 10, names
    assert problems_of(names, page.replace("`num_ooms`", "")), "a lack is not seen"
    finish(problems_of(names, page), sum(map(len, names)))


main()
