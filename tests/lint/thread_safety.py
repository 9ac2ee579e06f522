# SPDX-License-Identifier: MIT
"""Clang compiles the product with -Wthread-safety -Werror. Argument: the build folder (its compile
commands say which files and flags). Skipped where there is no Clang."""
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from source import PRODUCT, ROOT, files, finish

CLANG = shutil.which("clang++")
PLANTED = """#include "allocator/base/mutex.hpp"
struct Guarded {
  custash::Mutex mutex{custash::LockRank::Registry};
  int value GUARDED_BY(mutex) = 0;
  int peek() { return value; }
};
"""


def flags_of(command):
    """What decides the meaning of the source; GCC's own switches are left behind."""
    kept, words = [], shlex.split(command)
    for word, following in zip(words, words[1:] + [""]):
        if word.startswith(("-I", "-D", "-U", "-std=")):
            kept.append(word)
        elif word.startswith("-isystem"):
            kept += [word] if word != "-isystem" else [word, following]
    return kept


def complaint(source, flags, folder):
    command = [CLANG, "-fsyntax-only", "-Wthread-safety", "-Werror", *flags, source]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else None


def commands_of(build):
    """The command of each source; in a unity build that of the file which includes it, and seven others."""
    commands = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for command in json.load(file):
            path = os.path.join(command["directory"], command["file"])
            sources = [path]
            is_unity = re.search(r"-unity\d+\.cpp$", path) is not None
            if is_unity:
                with open(path, encoding="utf-8") as unit:
                    sources = re.findall(r'#include\s*[<"](.+?)[>"]', unit.read())
            for source in sources:
                name = os.path.relpath(os.path.join(command["directory"], source), ROOT)
                if is_unity or name not in commands:
                    commands[name] = (path, command)
    return commands


def main():
    if CLANG is None:
        print("no clang++")
        sys.exit(77)
    build = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        planted = os.path.join(folder, "planted.cpp")
        with open(planted, "w", encoding="utf-8") as file:
            file.write(PLANTED)
        found = complaint(planted, [f"-I{ROOT}", "-std=c++20"], folder)
        assert found and "requires holding mutex" in found, "an unguarded access is not seen"
    commands = commands_of(build)
    sources = [s for s in files(*PRODUCT, ends=(".cpp",)) if s in commands]
    assert "allocator/order/timeline.cpp" in sources, "the core is not among what would be looked at"
    units = dict(commands[source] for source in sources)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        problems = list(pool.map(
            lambda unit: complaint(unit, flags_of(units[unit]["command"]), units[unit]["directory"]), units))
    finish([p for p in problems if p], len(sources))


main()
