# SPDX-License-Identifier: MIT
"""The library that every process loads stays light: the lines of C++ linked into it, as tools/weight counts them in the build folder.

  weight.py BUILD COMPILER…
"""
import json
import os
import subprocess
import sys
import tempfile

from source import ROOT, finish

LIBRARY = "interpose/libcustash.so"
# Lower it whenever the library has become lighter. A change that needs more says in its message why fewer lines would not do.
LIMIT = 36_985

PLAN = """
rule compile
  command = {compiler} -fPIC -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
rule archive
  command = ar rcs $out $in
rule link
  command = {compiler} -shared -o $out $in
build core.o: compile ../src/core.cpp
build libcore.a: archive core.o {planted}
build entry.o: compile ../src/entry.cpp
build planted.o: compile ../src/planted.cpp
build other.o: compile ../src/other.cpp
build liball.so: link entry.o libcore.a || other.o
"""
SOURCES = {"core.cpp": '#include "shared.hpp"\n#include <cstddef>\nint core() { return 1; }\n',
           "entry.cpp": '#include "shared.hpp"\nint entry() { return core(); }\n',
           "shared.hpp": "#pragma once\n\nint core();\n",
           "planted.cpp": '#include "planted.hpp"\nint planted() { return kPlanted; }\n',
           "planted.hpp": "#pragma once\n#include \"shared.hpp\"\nconstexpr int kPlanted = 1;\n",
           "other.cpp": "int other;\n"}


def weigh(*words):
    done = subprocess.run([os.path.join(ROOT, "tools/weight"), "--json", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def problems_of(library, weight, limit):
    if weight["lines"] <= limit:
        return []
    return [f"{library}: {weight['lines']:,} lines of C++ in {weight['files']} files, the limit is {limit:,} (tests/lint/weight.py)"]


def planted(compiler):
    """A small library: what is linked into it counts, once, and one file more is too much."""
    with tempfile.TemporaryDirectory() as folder:
        build = os.path.join(folder, "build")
        for name, text in {f"src/{name}": text for name, text in SOURCES.items()}.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        os.makedirs(build)
        weights = []
        for more in ("", "planted.o"):
            with open(os.path.join(build, "build.ninja"), "w", encoding="utf-8") as file:
                file.write(PLAN.format(compiler=" ".join(compiler), planted=more))
            subprocess.run(["ninja", "-C", build], check=True, capture_output=True)
            weights.append(weigh("--build", build, "--root", folder, "liball.so")["liball.so"])
    limit = sum(SOURCES[name].count("\n") for name in ("core.cpp", "entry.cpp", "shared.hpp"))
    assert (weights[0]["lines"], weights[0]["files"]) == (limit, 3), weights
    assert not problems_of("liball.so", weights[0], limit), weights
    assert weights[1]["lines"] == limit + 5 and len(problems_of("liball.so", weights[1], limit)) == 1, "a planted file is not seen"


def main():
    build, *compiler = sys.argv[1:]
    planted(compiler)
    weight = weigh("--build", build, LIBRARY)[LIBRARY]
    print(f"{LIBRARY}: {weight['lines']:,} lines of C++ in {weight['files']} files, {weight['bytes']:,} bytes stripped")
    finish(problems_of(LIBRARY, weight, LIMIT), weight["files"])


main()
