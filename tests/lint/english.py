# SPDX-License-Identifier: MIT
"""Sentences that users read are short and plain: at most 25 words, no relative clause as the subject, no "be had".

Read are the pages, the comments of the public headers and the texts of the options. A piece of code, a path and the
quoted name of a test count as one word. Left out are code blocks, the table of rules and the other tables of
docs/testing.md, which programs read, docs/options.md and docs/api.md, which are made from what is read here, and the
released parts of the CHANGELOG, which are history.
"""
import re

from source import files, finish, read

MOST_WORDS = 25
OPENING = re.compile(r"(?:What|Who|Whoever|Of)\b.*[.:;]$")  # a heading and a question are no statements
PASSIVE = re.compile(r"\b(?:be|is|are|was|were|been) had\b", re.I)
END = re.compile(r"(?<=[.!?])[)\"*_]*\s+")
OPTIONS = "allocator/base/config.cpp"
GENERATED = ("docs/options.md", "docs/api.md")


def plain(text):
    """The text as it is read: a piece of code, a path and a quoted name are one word, links are their words."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"``?[^`]+``?", "`code`", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r'"[^"]*"', '"quoted"', text)
    text = re.sub(r"`code`(?:, (?:and |or )?`code`)+", "`code`", text)  # a list of names
    return re.sub(r"\b(e\.g|i\.e|etc|vs)\.", r"\1", text)


def sentences(paragraph):
    return [each.strip() for each in END.split(" ".join(plain(paragraph).split())) if each.strip()]


def problems_of(place, paragraph):
    problems = []
    for sentence in sentences(paragraph):
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > MOST_WORDS:
            problems.append(f"{place}: {len(words)} words: {sentence}")
        if OPENING.match(sentence):
            problems.append(f"{place}: begins with {sentence.split()[0]}: {sentence}")
        if PASSIVE.search(sentence):
            problems.append(f"{place}: {PASSIVE.search(sentence)[0]}: {sentence}")
    return problems


def paragraphs(page, tables=True):
    """(line, text) of each paragraph, item, heading and cell of a page; code blocks are skipped."""
    found, code = [], False
    begun = False
    for number, line in enumerate(page.splitlines(), 1):
        text = line.strip()
        if text.startswith("```"):
            code, begun = not code, False
        elif code or not text or text.startswith(("<", "---")):
            begun = False
        elif text.startswith("|"):
            begun = False
            if tables and not text.startswith("| ---"):
                found += [(number, cell) for cell in re.split(r" \| ", text.strip("| "))]
        elif begun and not re.match(r"[-*] |\d+\. |#", text):
            found[-1] = (found[-1][0], found[-1][1] + " " + text)
        else:
            found.append((number, re.sub(r"^(?:[-*]|\d+\.|#+) ", "", text)))
            begun = not text.startswith("#")
    return found


def comments(header):
    """(line, text) of each block of comments of a header; a blank comment line or an item divides."""
    found, begun = [], False
    for number, line in enumerate(header.splitlines(), 1):
        said = re.search(r"(?:^\s*(?:/\*\*?|\*/?|///?<?)|(?<=\s)(?:/\*\*?|///?<?)) ?(.*?)(?:\*/)?\s*$", line)
        text = said[1].strip() if said else ""
        if not text or text.startswith("SPDX") or re.match(r"\S+\s{3,}", text):
            begun = False
        elif begun and line.lstrip().startswith(("*", "//")) and not re.match(r"[-*] |@|\w+:$", text):
            found[-1] = (found[-1][0], found[-1][1] + " " + text)
        else:
            found.append((number, re.sub(r"^[-*] |^@\w+ ?", "", text)))
            begun = True
    return found


def option_texts(table):
    """(line, text) of the last string of each row."""
    found = []
    for row in re.finditer(r"Option\{\s*\{((?:[^\"{}]|\"(?:[^\"\\]|\\.)*\")*)\}", table):
        strings = re.findall(r'((?:"(?:[^"\\]|\\.)*"\s*)+)', row[1])
        text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings[-1]))
        found.append((table.count("\n", 0, row.end()) + 1, text))
    return found


def unreleased(changes):
    """The CHANGELOG up to its second version."""
    versions = [m.start() for m in re.finditer(r"^## ", changes, re.M)]
    return changes[:versions[1]] if len(versions) > 1 else changes


def self_test():
    """Each planted fault is found, and its harmless neighbour is not."""
    long = "word " * 26
    for bad in (long + ".", "What is freed waits.", "Of these one stays.", "A fence can be had.", f"Short. {long}end."):
        assert problems_of("x", bad), bad
    for good in ("word " * 25 + ".", "What is freed?", "What it costs", "A fence had been recorded.", "word " * 20 + ". " + "Word " * 20,
                 "Of" + "fer it.", f"See `{long}` and [a]({long})."):
        assert not problems_of("x", good), problems_of("x", good)
    page = f"# Head\n```\n{long}\n```\ntext\nmore\n- item\n\n| a | b |\n| --- | --- |\n| c | d `|` e |\n"
    assert [text for _, text in paragraphs(page)] == ["Head", "text more", "item", "a", "b", "c", "d `|` e"]
    assert len(paragraphs(page, tables=False)) == 3
    header = "// SPDX-License-Identifier: MIT\n/* One\n * two. */\nint a; // three\n"
    assert [text for _, text in comments(header)] == ["One two.", "three"], comments(header)
    assert option_texts('Option{{"a",\n "flag", "", "x|y",\n "One "\n "two."},\n [](Config& c) {}},') == [(4, "One two.")]
    assert unreleased("# C\n## 2\nnew\n## 1\nold\n") == "# C\n## 2\nnew\n"


def main():
    self_test()
    texts = []
    for page in files("docs", ends=(".md",)) + ["README.md", "CHANGELOG.md"]:
        if page not in GENERATED:
            text = unreleased(read(page)) if page == "CHANGELOG.md" else read(page)
            texts += [(page, *each) for each in paragraphs(text, tables=page != "docs/testing.md")]
    for header in files("interpose/api", ends=(".h", ".hpp")):
        texts += [(header, *each) for each in comments(read(header))]
    texts += [(OPTIONS, *each) for each in option_texts(read(OPTIONS))]
    finish([p for path, line, text in texts for p in problems_of(f"{path}:{line}", text)], len(texts))


main()
