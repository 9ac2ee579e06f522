# SPDX-License-Identifier: MIT
"""Files are made, replaced and renamed in two places (interpose/process/output_file.cpp and output_text.cpp), which look at what is there."""
import re

from source import PRODUCT, files, finish, read

# The second makes a file without a name, which nobody else sees.
PLACES = {"interpose/process/output_file.cpp", "interpose/process/output_text.cpp", "pinned/sleep_file.cpp"}
MAKES = re.compile(r"\b(?:std::)?(?:w?ofstream|w?fstream|basic_ofstream|freopen|mkstemp\w*|creat|rename(?:at2?)?|link(?:at)?"
                   r"|symlink|copy_file|create_director\w+|mkdir|tmpfile)\s*[({]"
                   r"|\b(?:std::)?w?o?fstream\s+\w+\s*[({]|\bO_(?:CREAT|TRUNC|TMPFILE)\b"
                   r"|\bfopen\s*\([^;]*,\s*\"[wa]|\bfopen\s*\([^;]*,\s*\"r[^\"]*\+")


def problems_of(path, text):
    if path in PLACES:
        return []
    code = re.sub(r"//[^\n]*", "", text)
    if path == "interpose/reports/launcher.cpp":  # a ledger in the launcher's own folder gets its last name
        code = re.sub(r"\brename\(", "(", code)
    return [f"{path}: {' '.join(found[0].split())} makes a file: use interpose/process/output_file.hpp or tools/output_file.hpp"
            for found in MAKES.finditer(code)]


def self_test():
    """Each planted fault is found, and its harmless neighbour is not."""
    for text in ("std::ofstream file(path);", "std::fstream file{path};", "open(path, O_WRONLY | O_CREAT, 0600)",
                 "open(path, O_WRONLY | O_TRUNC)", 'std::fopen(path.c_str(), "we")', 'fopen(path, "r+")', "fs::rename(a, b);",
                 "::rename(a, b)", "std::filesystem::create_directories(p)", "mkstemp(name)", "::link(a, b)"):
        assert problems_of("tools/a.cpp", text), text
        assert not problems_of("interpose/process/output_file.cpp", text), text
    for text in ("std::ifstream file(path);", "open(path, O_RDONLY)", 'std::fopen("/proc/self/maps", "re")', "unlink(next);",
                 "// rename(a, b)", "move_to_free(a, b)"):
        assert not problems_of("tools/a.cpp", text), text


def main():
    self_test()
    sources = files(*PRODUCT, ends=(".cpp", ".hpp", ".h", ".c"))
    finish([p for path in sources for p in problems_of(path, read(path))], len(sources))


main()
