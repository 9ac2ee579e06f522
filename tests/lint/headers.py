# SPDX-License-Identifier: MIT
"""Each header compiles alone, and custash.h as C11 too.

Arguments: compilers and flags, as `--c cc … --cpp c++ … --include FOLDER …`.
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

from source import PRODUCT, ROOT, files, finish


def arguments():
    groups, current = {"--c": [], "--cpp": [], "--include": []}, None
    for word in sys.argv[1:]:
        if word in groups:
            current = groups[word]
        else:
            current.append(word)
    return groups["--c"], groups["--cpp"], [f"-isystem{f}" for f in groups["--include"]]


def complaint(command, header):
    """The compiler's first error, or None."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp" if "c++" in command[-1] else ".c") as source:
        source.write(f'#include "{header}"\n')
        source.flush()
        done = subprocess.run([*command, "-fsyntax-only", "-Werror", f"-I{ROOT}", source.name],
                              capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr.strip()]
    return f"{header}: {errors[0]}" if done.returncode else None


def main():
    c, cpp, include = arguments()
    c = [*c, *include, "-Wall", "-Wextra", "-std=c11"]
    cpp = [*cpp, *include, "-Wall", "-D_GNU_SOURCE", "-std=c++20"]
    with tempfile.TemporaryDirectory() as folder:
        planted = os.path.join(folder, "planted.hpp")
        with open(planted, "w", encoding="utf-8") as file:
            file.write("#pragma once\nstd::string no_include_for_this();\n")
        assert complaint(cpp, planted), "a header that lacks an include is not seen"
    jobs = [(cpp, header) for header in files(*PRODUCT, "tests/sim", "tests/harness", ends=(".hpp", ".h"))]
    jobs += [(c, header) for header in files("interpose", ends=(".h",))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        problems = [p for p in pool.map(lambda job: complaint(*job), jobs) if p]
    finish(problems, len(jobs))


main()
