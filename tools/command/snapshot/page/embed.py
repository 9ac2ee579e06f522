# SPDX-License-Identifier: MIT
"""The report's page as a C++ string: embed.py NAME PAGE STYLE SCRIPT..., to standard output.

The page names the one script that it may run by its hash, so that nothing else in it ever runs. Comments and indents
are left out. The string comes in pieces, as compilers bound the length of one."""
import base64
import hashlib
import re
import sys

PIECE = 8000


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def short(text):
    """Without comments that have lines of their own, indents and empty lines. Strings span no lines here."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith(("// ", "/* ")))


def page(skeleton, style, scripts):
    script = "\n" + short('"use strict";\n' + "\n".join(scripts)) + "\n"
    assert "</script" not in script and "<!--" not in script and "@DATA@" not in script
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {"@HASH@": "sha256-" + digest, "@STYLE@": short(style), "\n@SCRIPT@\n": script}
    return re.sub("|".join(parts), lambda found: parts[found[0]], skeleton)


def main():
    name, skeleton, style, *scripts = sys.argv[1:]
    text = page(read(skeleton), read(style), [read(path) for path in scripts])
    print("// Made from tools/command/snapshot/page/")
    print("static const char* const " + name + "[] = {")
    for begin in range(0, len(text), PIECE):
        print('R"~~~~(' + text[begin:begin + PIECE] + ')~~~~",')
    print("};")


main()
