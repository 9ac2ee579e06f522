# SPDX-License-Identifier: MIT
"""Each header compiles alone, and custash.h as C11 too.

Arguments: a folder for what is compiled, compilers and flags, as `FOLDER --c cc … --cpp c++ … --include FOLDER …`.
A compiler that Meson calls through ccache compiles a unit again when a file in it has changed, and only then.
"""
import concurrent.futures
import functools
import os
import re
import subprocess
import sys
import tempfile

from source import PRODUCT, ROOT, files, finish, read

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)')
NO_CODE = re.compile(r"\s*(?://.*)?$|\s*#\s*(?:include|pragma)\b")


def arguments():
    groups, current = {"--c": [], "--cpp": [], "--include": []}, None
    for word in sys.argv[2:]:
        if word in groups:
            current = groups[word]
        else:
            current.append(word)
    return groups["--c"], groups["--cpp"], [f"-isystem{f}" for f in groups["--include"]]


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def complaint(command, headers, folder):
    """The compiler's first error about a unit that includes these headers, or None."""
    path = os.path.join(folder, headers[-1].replace("/", "-") + (".cpp" if "-std=c++20" in command else ".c"))
    write(path, "".join(f'#include "{header}"\n' for header in headers))
    done = subprocess.run([*command, "-O0", "-Werror", f"-I{ROOT}", "-c", path, "-o", path + ".o"],
                          capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr.strip()]
    return f"{headers[-1]}: {errors[0]}" if done.returncode else None


def includes_of(path, text):
    """(all that the header includes, what it includes before any code and unconditionally)."""
    every, first, leading = set(), set(), True
    for line in text.splitlines():
        leading = leading and NO_CODE.match(line) is not None
        found = INCLUDE.match(line)
        if found:
            beside = os.path.normpath(os.path.join(os.path.dirname(path), found[2]))
            name = beside if found[1] == '"' and os.path.exists(os.path.join(ROOT, beside)) else found[2]
            every.add(name)
            if leading:
                first.add(name)
    return every, first


def chains_of(texts):
    """Lists of headers. What stands before a header in its list, that header includes too, with all that comes by it:
    so the header compiles there only if it compiles alone. One unit for each list then does for all of it."""
    found = {path: includes_of(path, text) for path, text in texts.items()}

    @functools.cache
    def reached(path, which):
        return frozenset({path}).union(*[reached(name, which) for name in found.get(path, ((), ()))[which]])

    chains = []
    for path in sorted(texts, key=lambda path: (len(reached(path, 1)), path)):
        fitting = [c for c in chains if all(reached(before, 0) <= reached(path, 1) for before in c)]
        if fitting:
            max(fitting, key=lambda chain: len(reached(chain[-1], 0))).append(path)
        else:
            chains.append([path])
    return chains


def complaints(command, chain, folder):
    """In a list some headers may not follow others, though each compiles alone."""
    if complaint(command, chain, folder) is None:
        return []
    return [c for c in (complaint(command, [header], folder) for header in chain) if c]


def self_test(command):
    with tempfile.TemporaryDirectory() as folder:
        texts = {"fine.hpp": "#include <string>\nusing Text = std::string;\n",
                 "user.hpp": '#include "fine.hpp"\nText f();\n',
                 "lacks.hpp": "std::string f();\n", "late.hpp": "std::string f();\n#include <string>\n",
                 "perhaps.hpp": "#ifdef NEVER\n#include <string>\n#endif\nstd::string f();\n"}
        for name, text in texts.items():
            write(os.path.join(folder, name), "#pragma once\n" + text)
        chains = chains_of(texts)
        assert ["fine.hpp", "user.hpp"] in chains, chains
        command = [*command, f"-I{folder}"]
        wrong = [p for chain in chains for p in complaints(command, chain, folder)]
        assert sorted(p.split(":")[0] for p in wrong) == ["lacks.hpp", "late.hpp", "perhaps.hpp"], wrong
        write(os.path.join(folder, "fine.hpp"), "#pragma once\n#include <string>\n")
        assert complaint(command, ["fine.hpp", "user.hpp"], folder), "an unit that was fine hides a fault in it"


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    c, cpp, include = arguments()
    c = [*c, *include, "-Wall", "-Wextra", "-std=c11"]
    cpp = [*cpp, *include, "-Wall", "-D_GNU_SOURCE", "-std=c++20"]
    self_test(cpp)
    headers = {path: read(path) for path in files(*PRODUCT, "tests/sim", "tests/harness", ends=(".hpp", ".h"))}
    jobs = [(cpp, chain, folder) for chain in chains_of(headers)]
    jobs += [(c, [header], folder) for header in files("interpose", ends=(".h",))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [p for found in pool.map(lambda job: complaints(*job), jobs) for p in found]
    finish(problems, len(headers))


main()
