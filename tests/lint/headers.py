# SPDX-License-Identifier: MIT
"""Each header compiles alone, and custash.h as C11 too.

Arguments: a folder for what is compiled, compilers and flags, as `FOLDER --c cc … --cpp c++ … --include FOLDER …`.
A compiler that Meson calls through ccache compiles a header again when a file in it has changed, and only then.
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

from source import PRODUCT, ROOT, files, finish


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


def complaint(command, header, folder):
    """The compiler's first error about a unit that includes the header alone, or None."""
    path = os.path.join(folder, header.replace("/", "-") + (".cpp" if "-std=c++20" in command else ".c"))
    write(path, f'#include "{header}"\n')
    done = subprocess.run([*command, "-O0", "-Werror", f"-I{ROOT}", "-c", path, "-o", path + ".o"],
                          capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr.strip()]
    return f"{header}: {errors[0]}" if done.returncode else None


def self_test(command):
    with tempfile.TemporaryDirectory() as folder:
        texts = {"fine.hpp": "#include <string>\nusing Text = std::string;\n", "user.hpp": '#include "fine.hpp"\nText f();\n',
                 "lacks.hpp": "std::string f();\n", "late.hpp": "std::string f();\n#include <string>\n"}
        for name, text in texts.items():
            write(os.path.join(folder, name), "#pragma once\n" + text)
        wrong = [name for name in texts if complaint([*command, f"-I{folder}"], name, folder)]
        assert wrong == ["lacks.hpp", "late.hpp"], wrong


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    c, cpp, include = arguments()
    c = [*c, *include, "-Wall", "-Wextra", "-std=c11"]
    cpp = [*cpp, *include, "-Wall", "-D_GNU_SOURCE", "-std=c++20"]
    self_test(cpp)
    jobs = [(cpp, header) for header in files(*PRODUCT, "tests/sim", "tests/harness", ends=(".hpp", ".h"))]
    jobs += [(c, header) for header in files("interpose", ends=(".h",))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(filter(None, pool.map(lambda job: complaint(*job, folder), jobs)))
    finish(problems, len(jobs))


main()
