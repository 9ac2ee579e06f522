# SPDX-License-Identifier: MIT
"""docs/glossary.md has one line for each class, struct and enum that headers of allocator/, pinned/ and interpose/ define
in a namespace, and no line for a type that is not there. Types of interpose/ are named with their namespace."""
import re

from source import files, finish, read

PAGE = "docs/glossary.md"
# clang-format indents nothing for a namespace: only what stands in one begins a line.
DEFINED = re.compile(r"^(?:class|struct|union|enum(?: class)?) "
                     r"(?:(?:alignas|CAPABILITY)\([^)]*\) |[A-Z_]{5,} |\[\[[^\n]*?\]\] )*"
                     r"(\w[\w:]*)(?: final)?(?: : [^;{]*)? \{", re.M)
LINE = re.compile(r"^\| ([^|]*)\|", re.M)
TYPE = re.compile(r"`((?:\w+::)?[A-Z]\w*|custash::\w+)`")
NAMESPACE = re.compile(r"^(?:namespace (?P<name>[\w:]+) \{|\}  // namespace (?P<end>[\w:]+))$", re.M)


def types_of(text):
    return DEFINED.findall(text)


def qualified_types_of(text):
    """As `history::Event`; a type of the namespace custash itself stands alone, with `custash::` where it begins small."""
    found, spaces = [], []
    for part in sorted([*NAMESPACE.finditer(text), *DEFINED.finditer(text)], key=lambda match: match.start()):
        if part.re is DEFINED:
            space = "::".join(spaces).removeprefix("custash").removeprefix("::")
            plain = f"{space}::{part[1]}" if space else part[1]
            found.append(plain if space or plain[0].isupper() else f"custash::{plain}")
        elif part["name"]:
            spaces.append(part["name"])
        else:
            spaces.pop()
    return found


def problems_of(types, page):
    """`types`: the header of each type."""
    lines = [name for cell in LINE.findall(page) for name in TYPE.findall(cell)]
    return ([f"{PAGE} has no line for {name} ({path})" for name, path in types.items() if name not in lines] +
            [f"{PAGE} has a line for {name}, which no header defines" for name in lines if name not in types] +
            [f"{PAGE} has two lines for {name}" for name in sorted(set(lines)) if lines.count(name) > 1])


def self_test():
    header = ("class Ahead;\nenum class Kind { A, B };\nclass CAPABILITY(\"mutex\") Lock {\n  struct Inner {\n"
              "struct alignas(64) Block {\nclass SCOPED_CAPABILITY Scope {\ntemplate <typename T>\nclass Field {\n"
              "enum class State : std::uint8_t {\nstruct Owner::Part {\nclass Heir final : public Kind {\n"
              "inline struct Block of(int) {\n")
    found = types_of(header)
    assert found == ["Kind", "Lock", "Block", "Scope", "Field", "State", "Owner::Part", "Heir"], found
    inner = ("namespace custash {\nclass a {\nstruct B {\nnamespace c {\nenum class D {\n}  // namespace c\nclass E {\n"
             "}  // namespace custash\nnamespace custash::f {\nstruct G {\n}  // namespace custash::f\n")
    assert qualified_types_of(inner) == ["custash::a", "B", "c::D", "E", "f::G"], qualified_types_of(inner)
    types = {"Kind": "a.hpp", "Owner::Part": "a.hpp"}
    fine = "| kind, `Kind` | see `Other` |\n| `Owner::Part` | … |\n"
    assert not problems_of(types, fine), problems_of(types, fine)
    for planted in [fine.replace("`Kind`", "Kind"), fine + "| `Gone` | … |\n", fine + "| `Kind` | … |\n"]:
        assert len(problems_of(types, planted)) == 1, planted


def main():
    self_test()
    types = {name: path for path in files("allocator", "pinned", ends=(".hpp",)) for name in types_of(read(path))}
    for path in files("interpose", ends=(".hpp",)):
        for name in qualified_types_of(read(path)):
            assert name not in types, f"{name} of {path} is a name of {types[name]}, too"
            types[name] = path
    page = read(PAGE)
    assert problems_of({**types, "Planted": "allocator/planted.hpp"}, page), "a missing line is not seen"
    finish(problems_of(types, page), len(types))


main()
