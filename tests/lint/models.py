# SPDX-License-Identifier: MIT
"""Each function that a model of tests/models stands for is in the file that the model names; the file names the model."""
import re

from source import files, finish, read

ROW = re.compile(r"^//   (\S+[.][ch]pp): (.+)$", re.M)


def stands_for(text):
    """(file, name) of each function or class that a model lists below `Stands for:`."""
    head = text.split("// Stands for:\n", 1)[-1].split("\n//\n", 1)[0]
    return [(path, name) for path, names in ROW.findall(head) for name in names.split()]


def is_there(name, code):
    """A function defined or declared, or a class."""
    last = re.escape(name)
    return re.search(rf"\b(?:class|struct) {last}\b", code) or re.search(rf"(?<![.>])\b{last}\(", code)


def problems_of(model, text, source):
    rows = stands_for(text)
    problems = [] if rows else [f"{model}: it names no function that it stands for"]
    for path, name in rows:
        code = source(path)
        if code is None:
            problems.append(f"{model}: there is no {path}")
        elif not is_there(name, code):
            problems.append(f"{model}: {path} has no {name}")
    problems += [f"{path}: it does not name {model}" for path in sorted({path for path, _ in rows})
                 if source(path) is not None and model not in source(path)]
    return problems


def self_test():
    """Planted faults are found: a function that is gone, or only called, a file that is gone, no citation, no rows."""
    model = "// x\n//\n// Stands for:\n//   a/b.cpp: A::f g C\n//\n// Safety: a/z.cpp: h\n"
    sound = "// Proved: m.pml.\nvoid A::f() {}\nint g(int) {}\nclass C {};\n"
    assert not problems_of("m.pml", model, lambda path: sound)
    for faulty in (sound.replace("A::f", "A::e"), sound.replace("int g(", "x.g("), sound.replace("class C", "class D"),
                   sound.replace("m.pml", "n.pml"), None):
        assert problems_of("m.pml", model, lambda path, faulty=faulty: faulty), faulty
    assert problems_of("m.pml", "// nothing\n", lambda path: sound)


def read_or_none(path):
    try:
        return read(path)
    except FileNotFoundError:
        return None


def main():
    self_test()
    models = files("tests/models", ends=(".pml",))
    finish([p for model in models for p in problems_of(model, read(model), read_or_none)], len(models))


main()
