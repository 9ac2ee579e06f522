# SPDX-License-Identifier: MIT
"""Every link of a page goes to a file that is there, docs/README.md lists every page, and pictures are as
tools/pictures draws them."""
import os
import re
import subprocess

from source import ROOT, files, finish, read

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def problems_of(path, text, exists):
    folder = os.path.dirname(path)
    return [f"{path}: {target} is not there" for target in LINK.findall(re.sub(r"```.*?```", "", text, flags=re.S))
            if not re.match(r"[a-z]+:", target) and not exists(os.path.normpath(os.path.join(folder, target)))]


def self_test():
    there = {"docs/a.md", "README.md"}.__contains__
    assert not problems_of("docs/b.md", "[x](a.md) [y](../README.md#z) [w](https://w) ```[q](q.md)```", there)
    assert problems_of("docs/b.md", "[x](c.md)", there) and problems_of("README.md", "![x](a.md)", there)


def main():
    self_test()
    pages = files(ends=(".md",))
    problems = [p for path in pages
                for p in problems_of(path, read(path), lambda name: os.path.exists(os.path.join(ROOT, name)))]
    index = read("docs/README.md")
    problems += [f"docs/README.md does not list {path}" for path in pages
                 if path.startswith("docs/") and path != "docs/README.md" and f"({path[5:]})" not in index]
    drawn = subprocess.run([os.path.join(ROOT, "tools/pictures"), "--check"], capture_output=True, text=True, check=False)
    problems += (drawn.stdout + drawn.stderr).splitlines()
    finish(problems, len(pages))


main()
