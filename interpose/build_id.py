#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes build_id.hpp: a digest of the C++ sources that libcustash.so and libcustash-check.so are built from, and of the compiler.

  build_id.py OUTPUT ROOT WORD...
  build_id.py --list ROOT

--list prints the names of the sources.
"""
import hashlib
import pathlib
import sys

FOLDERS = ("allocator", "pinned", "interpose")
ENDINGS = {".cpp", ".hpp", ".h", ".def", ".S"}


def sources(root):
    return sorted(path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in ENDINGS)


def main():
    output, root, *words = sys.argv[1:]
    found = sources(pathlib.Path(root))
    if output == "--list":
        print(*found, sep="\n")
        return
    digest = hashlib.sha256(" ".join(words).encode())
    for path in found:
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    with open(output, "w", encoding="utf-8") as file:
        file.write("// SPDX-License-Identifier: MIT\n// Written by build_id.py.\n#pragma once\n\nnamespace custash {\n\n"
                   f'inline constexpr const char* kBuild = "{digest.hexdigest()}";\n\n}}  // namespace custash\n')


main()
