# SPDX-License-Identifier: MIT
"""Links of pages, their anchors, and sources that they name, are there. docs/README.md lists every page, a folder's own README.md
those of its folder. docs/ has at most PAGES pages. Every decision that the code cites exists. Pictures are as tools/pictures draws them."""
import functools
import os
import re
import subprocess

from source import ROOT, files, finish, read

# Beside the index, api.md, which a program writes, and the folders. A new page replaces another.
PAGES = 20
CITED = re.compile(r"\bdecisions? (\d\d)\b")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
NAMED = re.compile(r"`((?:allocator|pinned|interpose|tools|tests|docs)/[a-z0-9_./-]+[.]\w+)(?::\w+)?`")


def without_code(text):
    return re.sub(r"```.*?```", "", text, flags=re.S)


def anchors_of(text):
    """What GitHub makes of the headings, and the anchors that the page sets."""
    heads = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head) for head in re.findall(r"^#+ (.*)$", without_code(text), re.M)]
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads} | set(re.findall(r'(?:id|name)="([^"]+)"', text))


def problems_of(path, text, exists, content):
    folder = os.path.dirname(path)
    links = [link for link in LINK.findall(without_code(text)) if not re.match(r"[a-z]+:", link[0])]
    targets = [(link, os.path.normpath(os.path.join(folder, link)) if link else path, anchor) for link, anchor in links]
    targets += [(name, name, "") for name in NAMED.findall(text)]
    return ([f"{path}: {said} is not there" for said, target, _ in targets if not exists(target)] +
            [f"{path}: {target} has no #{anchor}" for _, target, anchor in targets
             if anchor and target.endswith(".md") and exists(target) and anchor not in anchors_of(content(target))])


def unlisted(pages, text):
    """A problem for each page below docs/ that no index lists."""
    problems = []
    for page in pages:
        folder = os.path.dirname(page)
        own = os.path.join(folder, "README.md")
        index = own if own in pages and page != own else "docs/README.md"
        name = os.path.relpath(page, os.path.dirname(index))
        if page.startswith("docs/") and page != "docs/README.md" and f"({name})" not in text(index):
            problems.append(f"{index} does not list {page}")
    return problems


def surplus(pages):
    counted = [page for page in pages if re.fullmatch(r"docs/[^/]+", page) and page not in ("docs/README.md", "docs/api.md")]
    return [f"docs/ has {len(counted)} pages, {PAGES} may be: merge two"] if len(counted) > PAGES else []


def uncited(path, text, decisions):
    """A problem for each decision that a source cites and that has no page."""
    return [f"{path}: decision {number} has no page in docs/decisions"
            for number in CITED.findall(text) if number not in decisions]


def self_test():
    index = {"docs/README.md": "(a.md) (d/README.md)", "docs/d/README.md": "(01-x.md)"}
    assert not unlisted([*index, "docs/a.md", "docs/d/01-x.md"], index.get)
    assert len(unlisted([*index, "docs/b.md", "docs/d/02-y.md", "docs/e/a.md"], index.get)) == 3
    assert unlisted(["docs/README.md", "docs/f/README.md"], index.get)
    full = ["docs/README.md", "docs/api.md", "docs/d/01-x.md", "README.md"] + [f"docs/{number}.md" for number in range(PAGES)]
    assert not surplus(full) and surplus([*full, "docs/more.md"])
    assert not uncited("a.hpp", "// decision 01", {"01"}) and uncited("a.hpp", "// decision 02", {"01"})
    there = {"docs/a.md", "README.md"}.__contains__
    problems_of = functools.partial(globals()["problems_of"], content={"docs/a.md": "# A `b`, c!\n", "README.md": "## z\n", "x.md": "# y"}.get)
    assert not problems_of("docs/b.md", "[x](a.md#a-b-c)", there) and problems_of("docs/b.md", "[x](a.md#b)", there)
    assert not problems_of("x.md", "[x](#y)", {"x.md"}.__contains__) and problems_of("x.md", "[x](#z)", {"x.md"}.__contains__)
    assert not problems_of("docs/b.md", "[x](a.md) [y](../README.md#z) [w](https://w) ```[q](q.md)```", there)
    assert not problems_of("docs/b.md", "`docs/a.md`, `docs/a.md:case`, `docs/NAME.md`, `b/x.md`", there)
    assert problems_of("docs/b.md", "`docs/c.md`", there)
    assert problems_of("docs/b.md", "[x](c.md)", there) and problems_of("README.md", "![x](a.md)", there)


def main():
    self_test()
    pages = files(ends=(".md",))
    problems = [p for path in pages
                for p in problems_of(path, read(path), lambda name: os.path.exists(os.path.join(ROOT, name)), read)]
    problems += unlisted(pages, read) + surplus(pages)
    decisions = {os.path.basename(page)[:2] for page in pages if page.startswith("docs/decisions/")}
    for path in files("allocator", "pinned", "interpose", "tests/sim", ends=(".cpp", ".hpp")):
        problems += uncited(path, read(path), decisions)
    drawn = subprocess.run([os.path.join(ROOT, "tools/pictures"), "--check"], capture_output=True, text=True, check=False)
    problems += (drawn.stdout + drawn.stderr).splitlines()
    finish(problems, len(pages))


main()
