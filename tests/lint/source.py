# SPDX-License-Identifier: MIT
"""What every lint test needs: the repository's own files, and one way to end."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PRODUCT = ("allocator", "pinned", "interpose", "tools")


def files(*folders, ends=("",)):
    """Paths relative to the root, sorted; build folders and hidden ones left out (.git may be a file)."""
    found = []
    for top in folders or (".",):
        for folder, subfolders, names in os.walk(os.path.join(ROOT, top)):
            subfolders[:] = [s for s in subfolders
                             if not s.startswith("build") and s not in (".git", "__pycache__", ".cache")]
            for name in names:
                if name.endswith(tuple(ends)) and not name.endswith(".pyc") and name != ".git":
                    found.append(os.path.relpath(os.path.join(folder, name), ROOT))
    return sorted(found)


def read(path):
    """Text of a file, or None when it is not text."""
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        return None


def finish(problems, checked):
    """Ends the test: one line a problem. Nothing checked is a failure too."""
    for problem in problems:
        print(problem)
    print(f"{checked} checked, {len(problems)} problems")
    sys.exit(1 if problems or not checked else 0)
