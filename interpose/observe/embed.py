# SPDX-License-Identifier: MIT
"""A text file as a C++ string: embed.py FILE NAME, to standard output. In pieces, as compilers bound the
length of one."""
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
PIECE = 8000
print("// Made from " + sys.argv[1].rsplit("/", maxsplit=1)[-1])
print("static const char* const " + sys.argv[2] + "[] = {")
for begin in range(0, len(text), PIECE):
    print('R"~~~~(' + text[begin:begin + PIECE] + ')~~~~",')
print("};")
