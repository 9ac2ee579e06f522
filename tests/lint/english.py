# SPDX-License-Identifier: MIT
"""What users read is free of the habits below, each with what a native engineer writes instead.

Read are the pages, the comments of the public headers, the texts of the options, and the help and messages in the
sources of the product. Code blocks, pieces of code, quoted names of tests and the tables of docs/testing.md, which
programs read, are left out. So are docs/options.md and docs/api.md, which are made from what is read here.
"""
import re

from source import files, finish, read

HABITS = [  # (pattern, instead)
    (r"\bso (?:many|much|long)\b(?! that\b)", "name the number: N, the configured time"),
    (r"^(?:And |But )?(?-i:Where) (?!.*\?$).*[.:;,]", "If X, Y"),
    (r"; where .*, ", "; if X, Y"),
    (r"\bnobody(?:'s)?\b|\bwhoever\b|\bwho (?:does|would|did) not\b", "unowned; a process that …"),
    (r"\b(?:is|are|was|were|be|been|being) (?:told|asked|looked at|had)\b", "name the actor: custash logs, queries, checks"),
    (r"\b(?:tells?|told)\b(?!.* (?:apart|from)\b)", "reports, shows, logs"),
    (r"\b(?:giv(?:e|es|en|ing)|gave|go|goes|going|gone|went|come|comes|came|coming)\b(?: (?!and\b|or\b)\w+){0,2} back\b",
     "returns, releases, restores"),
    (r"\b(?:do|does|did|doing|done) (?:so|likewise)\b|\b(?:do|does|did) that\b(?! \w)|\blikewise\b", "repeat the verb"),
    (r"\bbare\b(?! (?:Debian|machine|system|pointer))", "without custash"),
    (r"\b(?:calls?|functions?) of CUDA\b|\bof others\b(?!')|\blog of the (?:kernel|system)\b|\bof the program's own\b",
     "a compound noun: CUDA calls, third-party programs"),
    (r"\bstands? (?:in|on|at|after|before|beside|behind|here|there|above|below)\b(?! for)", "is"),
    (r"\bsome (?:\d|hundred\b|ten\b)(?!-)", "about"),
    (r"\bshall\b|\bwhereof\b|\bthereof\b|\bso it is\b", "say it plainly"),
]
OPENING = re.compile(r"(?:What|Who|Whoever|Of) .*[.:;]$")  # a heading and a question are no statements
PATTERNS = [(re.compile(pattern, re.I), instead) for pattern, instead in HABITS]
END = re.compile(r"(?<=[.!?;])[)\"*_]*\s+")
GENERATED = ("docs/options.md", "docs/api.md")
STRING = re.compile(r'((?:"(?:[^"\\\n]|\\.)*"\s*)+)|`([^`]*)`')


def plain(text):
    """The text as it is read: a piece of code, a path and a quoted name are one word, links are their words."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"``?[^`]+``?", "`code`", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r'"[^"]*"', '"quoted"', text)
    return re.sub(r"\b(e\.g|i\.e|etc|vs)\.", r"\1", text)


def sentences(paragraph):
    return [each.strip() for each in END.split(" ".join(plain(paragraph).split())) if each.strip()]


def problems_of(place, paragraph):
    problems = []
    for sentence in sentences(paragraph):
        for pattern, instead in PATTERNS:
            if found := pattern.search(sentence):
                said = found[0] if len(found[0]) < 30 else found[0][:30] + "…"
                problems.append(f"{place}: \"{said}\", better: {instead}: {sentence[:160]}")
        if OPENING.match(sentence):
            problems.append(f"{place}: begins with {sentence.split()[0]}: {sentence[:160]}")
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


def messages(source):
    """(line, text) of each string of a source that is a sentence or a part of one."""
    code = re.sub(r"^\s*(?://|#(?!define)).*$|(?<=\s)// .*$", "", source, flags=re.M)
    found = []
    for string in STRING.finditer(code):
        text = string[2] or "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', string[1] or "")).replace("\\n", " ").replace('\\"', "'")
        if text.count(" ") > 1:
            found.append((code.count("\n", 0, string.start()) + 1, text))
    return found


def self_test():
    """Each planted fault is found, and its harmless neighbour is not."""
    for bad in ("Where it fails, it waits.", "It waits so long.", "Nobody owns it.", "The driver is asked.", "It tells why.",
                "Memory is given back.", "It goes back to the driver.", "The other does so.", "Fails as bare.",
                "What is freed waits.", "Of these one stays.", "A fence can be had.", "It reads the log of the system.",
                "It takes some 100 ns.", "One call of CUDA fails."):
        assert problems_of("x", bad), bad
    for good in ("What is freed?", "What it costs", "It depends on where it fails.", "A row stands for its forms.", "Of" + "fer it.",
                 "See `nobody` and [a](so many).", "A bare machine.", "So many that it fails."):
        assert not problems_of("x", good), problems_of("x", good)
    page = "# Head\n```\nx\n```\ntext\nmore\n- item\n\n| a | b |\n| --- | --- |\n| c | d `|` e |\n"
    assert [text for _, text in paragraphs(page)] == ["Head", "text more", "item", "a", "b", "c", "d `|` e"]
    assert len(paragraphs(page, tables=False)) == 3
    header = "// SPDX-License-Identifier: MIT\n/* One\n * two. */\nint a; // three\n"
    assert [text for _, text in comments(header)] == ["One two.", "three"], comments(header)
    assert messages('a("one"\n  " two three", "x"); // "a b c"\n') == [(1, "one two three")], messages('a("one"\n  " two three", "x");')


def main():
    self_test()
    texts = []
    for page in files("docs", ends=(".md",)) + ["README.md", "CHANGELOG.md"]:
        if page not in GENERATED:
            texts += [(page, *each) for each in paragraphs(read(page), tables=page != "docs/testing.md")]
    for header in files("interpose/api", ends=(".h", ".hpp")):
        texts += [(header, *each) for each in comments(read(header))]
    for source in files("allocator", "pinned", "interpose", "tools", ends=(".cpp", ".hpp", ".h", ".js")) + files("tools/python", ends=(".py",)):
        texts += [(source, *each) for each in messages(read(source))]
    finish([p for path, line, text in texts for p in problems_of(f"{path}:{line}", text)], len(texts))


main()
