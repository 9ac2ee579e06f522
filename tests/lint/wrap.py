# SPDX-License-Identifier: MIT
"""Prose of the pages wraps at 100 columns; tables, code blocks and headings are left alone. `--write` wraps it.

Pages and parts of pages (`<!-- name -->` to `<!-- end of name -->`) that a program writes are left out.
"""
import os
import re
import sys

from source import ROOT, files, finish, read

COLUMNS = 100
GENERATED = ("docs/options.md", "docs/api.md", "docs/evidence.md")
ITEM = re.compile(r"( *(?:[-*]|\d+\.) +)(.*)")
# A word that would begin an item, a heading, a quotation or a table stays on its line.
MARK = re.compile(r"(?:[-*+>|]|\d+[.)]|#+|---.*|\|.*)$")
WORDS = re.compile(r"(?:`[^`]*`|[^\s`]|`)+")


def filled(text, first, rest):
    """The words of a paragraph in lines; a piece of code stays whole."""
    lines, line = [], first
    for word in WORDS.findall(text):
        if line.strip() and line not in (first, rest) and len(line) + 1 + len(word) > COLUMNS and not MARK.match(word):
            lines.append(line)
            line = rest
        line += word if line in (first, rest) else " " + word
    return lines + [line]


def wrapped(page):
    out, block, first, rest, code, made = [], [], "", "", "", False

    def end():
        nonlocal block
        if block:
            out.extend(filled(" ".join(block), first, rest))
        block = []

    for line in page.splitlines():
        fence = re.match(r" *(```|~~~)", line)
        item = ITEM.match(line)
        part = re.match(r"<!-- (end of )?[\w ]+ -->$", line)
        if part:
            made = not part[1]
        if code or fence or made or part:
            end()
            out.append(line)
            if fence and not made and (not code or fence[1] == code):
                code = "" if code else fence[1]
        elif not line.strip() or re.match(r" *(?:[|<#]|!\[)|---| {4}", line) and not (block and line.startswith(rest) and rest):
            end()
            out.append(line)
        elif item:
            end()
            first, rest, block = item[1], " " * len(item[1]), [item[2]]
        elif block:
            block.append(line.strip())
        else:
            first = rest = re.match(r" *", line)[0]
            block = [line.strip()]
    end()
    return "\n".join(out) + "\n"


def problems_of(path, text):
    there, right = text.splitlines(), wrapped(text).splitlines()
    at = next((n for n, pair in enumerate(zip(there + [""], right + [""]), 1) if pair[0] != pair[1]), 0)
    return [f"{path}:{at}: not wrapped at {COLUMNS} columns (tests/lint/wrap.py --write)"] if at else []


def self_test():
    word = "word " * 30
    for bad in (word, f"- {word}", "a\nb", "1. a\nb"):
        assert problems_of("x", bad + "\n"), bad
    for good in (f"| {word} |\n", f"```\n{word}\n```\n", f"# {word}\n", "a\n\nb\n", "- a\n- b\n", f"    {word}\n",
                 f"<!-- a b -->\n{word}\n<!-- end of a b -->\n"):
        assert not problems_of("x", good), good
    assert max(map(len, wrapped(word).splitlines())) <= COLUMNS
    assert wrapped("x" * 97 + " - y") == "x" * 97 + " -\ny\n"
    assert wrapped("x" * 100 + " - y") == "x" * 100 + " -\ny\n"
    assert wrapped("y " * 45 + "`" + "a b " * 5 + "`").splitlines()[1] == "`" + "a b " * 5 + "`"
    assert wrapped(wrapped(f"- {word}\n  {word}")) == wrapped(f"- {word}\n  {word}")


def main():
    self_test()
    pages = [page for page in files("docs", ends=(".md",)) + ["README.md", "CHANGELOG.md"] if page not in GENERATED]
    problems = [p for page in pages for p in problems_of(page, read(page))]
    if "--write" in sys.argv:
        for page in pages:
            text = wrapped(read(page))
            with open(os.path.join(ROOT, page), "w", encoding="utf-8") as file:
                file.write(text)
        return
    finish(problems, len(pages))


main()
