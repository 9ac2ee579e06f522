# SPDX-License-Identifier: MIT
"""Clang compiles the product with -Wthread-safety -Werror. Argument: the build folder (its compile
commands say which files and flags). Skipped where there is no Clang."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

from compile_commands import commands_of, flags_of
from source import PRODUCT, ROOT, files, finish, read

CLANG = shutil.which("clang++")
CCACHE = [path for path in [shutil.which("ccache")] if path]
MUTEX = "allocator/base/mutex.hpp"  # defines the annotations
PLANTED = """#include "allocator/base/mutex.hpp"
struct Guarded {
  custash::Mutex mutex{custash::LockRank::Registry};
  int value GUARDED_BY(mutex) = 0;
  int peek() { return value; }
};
"""


def complaint(source, flags, folder, into):
    """ccache, where it is installed, answers for a unit in which no file has changed."""
    out = os.path.join(into, os.path.relpath(source, ROOT).replace("/", "-") + ".o")
    command = [*CCACHE, CLANG, "-Wthread-safety", "-Werror", "-O0", "-emit-llvm", *flags, "-c", source, "-o", out]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else None


def reaches_mutex(source):
    """Where the annotations are not defined, nothing is guarded."""
    known, left = {source}, [source]
    while left and MUTEX not in known:
        path = left.pop()
        for name in re.findall(r'#\s*include\s*"([^"]+)"', read(path)):
            for found in (name, os.path.normpath(os.path.join(os.path.dirname(path), name))):
                if found not in known and os.path.isfile(os.path.join(ROOT, found)):
                    known.add(found)
                    left.append(found)
    return MUTEX in known


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        planted = os.path.join(folder, "planted.cpp")
        flags = [f"-I{ROOT}", "-std=c++20"]
        for text, seen in ((PLANTED.replace("return value", "custash::Lock lock(mutex); return value"), False),
                           (PLANTED, True)):
            with open(planted, "w", encoding="utf-8") as file:
                file.write(text)
            found = complaint(planted, flags, folder, folder)
            assert ("requires holding mutex" in (found or "")) == seen, found or "an unguarded access is not seen"


def main():
    if CLANG is None:
        print("no clang++")
        sys.exit(77)
    build = os.path.abspath(sys.argv[1])
    self_test()
    into = os.path.join(build, "tests/lint/thread_safety")
    os.makedirs(into, exist_ok=True)
    commands = commands_of(build)
    sources = [s for s in files(*PRODUCT, ends=(".cpp",)) if s in commands and reaches_mutex(s)]
    assert "allocator/order/timeline.cpp" in sources, "the core is not among what would be looked at"
    units = dict(commands[source] for source in sources)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(pool.map(
            lambda unit: complaint(unit, flags_of(units[unit]["command"]), units[unit]["directory"], into),
            units))
    finish([p for p in problems if p], len(sources))


main()
