# SPDX-License-Identifier: MIT
"""Every source is as clang-format 14 writes it by .clang-format; other versions write otherwise. Skipped
where that version is missing."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

from source import ROOT, files, finish

VERSION = "14"
ENDS = (".cpp", ".hpp", ".h", ".c", ".cu", ".cuh", ".js")
AT_ONCE = 40


def formatter():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        found = shutil.which(name)
        if found is None:
            continue
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        if re.search(rf"version {VERSION}[.]", said):
            return found
    return None


def complaints(command, paths):
    done = subprocess.run([command, "--dry-run", *paths], cwd=ROOT, capture_output=True, text=True, check=False)
    wrong = dict.fromkeys(re.findall(r"^([^\s:]+):\d+:\d+: warning", done.stderr, re.M))
    return [f"{path}: clang-format -i would change it" for path in wrong]


def self_test(command):
    done = subprocess.run([command, "--dry-run", "--assume-filename=a.cpp"], cwd=ROOT, input="int  x ;\n",
                          capture_output=True, text=True, check=False)
    assert "warning" in done.stderr, done.stderr


def main():
    command = formatter()
    if command is None:
        print(f"skip: no clang-format {VERSION}")
        sys.exit(77)
    self_test(command)
    sources = files("allocator", "pinned", "interpose", "tools", "tests", ends=ENDS)
    parts = [sources[i:i + AT_ONCE] for i in range(0, len(sources), AT_ONCE)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [p for found in pool.map(lambda part: complaints(command, part), parts) for p in found]
    finish(problems, len(sources))


main()
