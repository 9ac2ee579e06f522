# SPDX-License-Identifier: MIT
"""docs/glossary.md has at most 100 rows, none twice, and none for a type that no header of allocator/, pinned/ or
interpose/ defines."""
import re

from source import files, finish, read

PAGE = "docs/glossary.md"
# clang-format indents nothing for a namespace: only what stands in one begins a line.
DEFINED = re.compile(r"^(?:class|struct|union|enum(?: class)?) "
                     r"(?:(?:alignas|CAPABILITY)\([^)]*\) |[A-Z_]{5,} |\[\[[^\n]*?\]\] )*"
                     r"(\w[\w:]*)(?: final)?(?: : [^;{]*)? \{", re.M)
LINE = re.compile(r"^\| ([^|]*)\|", re.M)
TYPE = re.compile(r"`([A-Z]\w*)`")
MOST = 100  # rows


def types_of(text):
    return DEFINED.findall(text)


def problems_of(types, page):
    rows = [cell for cell in LINE.findall(page) if cell.strip() not in ("word", "---")]
    names = [name for cell in rows for name in TYPE.findall(cell)]
    return ([f"{PAGE} has a row for {name}, which no header defines" for name in names if name not in types] +
            [f"{PAGE} has two rows for {name}" for name in sorted(set(names)) if names.count(name) > 1] +
            [f"{PAGE} has {len(rows)} rows; at most {MOST}"] * (len(rows) > MOST))


def self_test():
    header = ("class Ahead;\nenum class Kind { A, B };\nclass CAPABILITY(\"mutex\") Lock {\n  struct Inner {\n"
              "struct alignas(64) Block {\nclass SCOPED_CAPABILITY Scope {\ntemplate <typename T>\nclass Field {\n"
              "enum class State : std::uint8_t {\nstruct Owner::Part {\nclass Heir final : public Kind {\n"
              "inline struct Block of(int) {\n")
    found = types_of(header)
    assert found == ["Kind", "Lock", "Block", "Scope", "Field", "State", "Owner::Part", "Heir"], found
    fine = "| word | meaning |\n| --- | --- |\n| kind, `Kind` | see `Other` |\n"
    assert not problems_of(["Kind"], fine), problems_of(["Kind"], fine)
    for planted in [fine + "| `Gone` | … |\n", fine + "| `Kind` | … |\n", fine + "| more | … |\n" * MOST]:
        assert len(problems_of(["Kind"], planted)) == 1, planted


def main():
    self_test()
    types = {name for path in files("allocator", "pinned", "interpose", ends=(".hpp",)) for name in types_of(read(path))}
    finish(problems_of(types, read(PAGE)), len(types))


main()
