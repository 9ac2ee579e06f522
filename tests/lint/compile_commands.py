# SPDX-License-Identifier: MIT
"""How a build folder compiles each source, for the lint tests that run Clang's tools over the product."""
import json
import os
import re
import shlex

from source import ROOT


def flags_of(command):
    """What decides the meaning of the source; GCC's own switches are left behind."""
    kept, words = [], shlex.split(command)
    for word, following in zip(words, words[1:] + [""]):
        if word.startswith(("-I", "-D", "-U", "-std=")):
            kept.append(word)
        elif word.startswith("-isystem"):
            kept += [word] if word != "-isystem" else [word, following]
    return kept


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
