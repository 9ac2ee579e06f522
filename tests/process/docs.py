# SPDX-License-Identifier: MIT
"""Runs every command of README.md and docs/ over the simulated driver, in a folder of its own.

A block ```sh is run line by line; ```console also has what each command prints, in which sizes, times, addresses and
units may differ and … stands for anything. A command ends with 0, unless its comment says `exits with N`. A block whose head
says ```sh needs: REASON is not run. PID is a process under custash.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import program
from program import PATHS, Case

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATED = ("api.md", "options.md")
BLOCK = re.compile(r"^( *)```(sh|console)([^\n]*)\n(.*?)^ *```$", re.M | re.S)
NUMBER = re.compile(r"0x[0-9a-f]+|\d{4}-\d\d-\d\d|\d+(?:\.\d+)+|\d+(?= (?:KB|MiB)\b)")  # those that differ from run to run
UNIT = re.compile(r"\b(?:[KMG]i?B|B|bytes|ns|µs|ms|s)\b")
SECONDS = 100

TRAIN = """
import ctypes
driver, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), driver.cuCtxSetCurrent(context)
for step in range(3):
    assert driver.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 20)) == 0
    driver.cuMemFree_v2(block)
    print("step: 1.0 ms")
"""


def pages():
    return [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name not in GENERATED)]


def blocks(text):
    """(line, kind, reason not to run it, commands with what they print)."""
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        body = re.sub(rf"^{found[1]}", "", found[4], flags=re.M).replace("\\\n", " ")
        commands = []
        for each in body.splitlines():
            if found[2] == "sh" and each.strip() and not each.startswith("#"):
                commands.append((each, []))
            elif each.startswith("$ "):
                commands.append((each[2:], []))
            elif found[2] == "console":
                commands[-1][1].append(each)
        yield line, found[2], found[3].strip(), commands


def shape(text):
    """A line without what may differ."""
    return " ".join(UNIT.sub("U", NUMBER.sub("N", text)).split())


def missing(expected, printed):
    """The first expected line that does not follow in what was printed."""
    lines = iter([shape(line) for line in printed.splitlines()])
    for each in filter(str.strip, expected):
        pattern = ".*".join(map(re.escape, shape(each).split("…")))
        if not any(re.fullmatch(pattern, line) for line in lines):
            return each
    return None


class Docs(Case):
    @classmethod
    def setUpClass(cls):
        if program.emulated():
            raise unittest.SkipTest("the commands of the docs are for this processor")
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        self = cls()
        build = pathlib.Path(PATHS.build)
        for name, target in {"build": build, "tools": ROOT / "tools", "tests": ROOT / "tests"}.items():
            (self.folder / name).symlink_to(target)
        shutil.copy(ROOT / "tests/process/app.cpp", self.folder)
        (self.folder / "train.py").write_text(TRAIN)
        cuda = subprocess.run([ROOT / "tools/find-cuda"], capture_output=True, text=True, check=True).stdout.strip()
        cls.environment = {**program.environment(False), "PATH": f"{build}/tools:{os.environ['PATH']}", "CUDA_HOME": cuda,
                            "CUSTASH_SIM": "devices=1,memory=2g", "HOME": str(self.folder), "NO_COLOR": "1"}
        self.run_line(f"g++ -std=c++20 -g app.cpp -I{cuda}/include -L{PATHS.runtime} -lcudart -o app && ln app server && ln app your_app")
        for file in ("app.json", "before.json", "after.json", "snapshot.pickle"):
            self.run_line(f"custash run --record-history {file} -- ./app leak")
        self.run_line("custash run --check-memory --json found.json -- ./app wrong")
        cls.number = cls.actor()

    @classmethod
    def actor(cls):
        """A process under custash that holds memory until the tests end."""
        actor = subprocess.Popen(["custash", "run", "--", f"{PATHS.programs}/actor"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True, cwd=cls.folder, env=cls.environment)
        for clean in (actor.wait, actor.stdout.close, actor.stdin.close, actor.kill):
            cls.addClassCleanup(clean)
        for words in ("device 0", "alloc 3000000"):
            actor.stdin.write(words + "\n")
            actor.stdin.flush()
            if not actor.stdout.readline().startswith("0"):
                raise RuntimeError(words)
        return actor.pid

    def run_line(self, line, expected=0):
        done = subprocess.run(["bash", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, expected, f"{line}\n{done.stdout}{done.stderr}")
        return (done.stdout + done.stderr).replace(f"{self.folder}/", "")

    def check(self, page):
        exports = ""
        for line, _, reason, commands in blocks(page.read_text(encoding="utf-8")):
            if reason:
                self.assertRegex(reason, r"^needs: \w", f"{page.name}:{line}")
                continue
            for command, printed in commands:
                with self.subTest(f"{page.name}:{line}: {command}"):
                    number = re.search(r"# .*exits with (\d+)", command)
                    said = self.run_line(exports + re.sub(r"\bPID2?\b", str(self.number), command), int(number[1]) if number else 0)
                    self.assertIsNone(missing(printed, said), said)
                if command.startswith("export "):
                    exports += command + "\n"
            exports = ""

    def test_what_is_missing_is_seen(self):
        self.assertIsNone(missing(["a 12 MiB", "b … d"], "x\na 3.5 KiB\nb c d\n"))
        self.assertIsNone(missing(["a (9.5 - 9.6) at 0x12"], "a (1.25 - 1.5) at 0xff\n"))
        self.assertEqual(missing(["12 blocks"], "13 blocks\n"), "12 blocks")
        self.assertEqual(missing(["a 1.5", "b"], "b\na 2.5\n"), "b")
        (found,) = blocks("x\n```console\n$ a   # exits with 9\nb\n```\n")
        self.assertEqual(found, (2, "console", "", [("a   # exits with 9", ["b"])]))
        with self.assertRaises(AssertionError):
            self.run_line("custash top --nonsense")

    def test_commands_are_there(self):
        self.assertGreater(sum(len(commands) for page in pages() for *_, commands in blocks(page.read_text())), 100)


def add(page):
    setattr(Docs, "test_" + page.stem.replace("-", "_").lower() + ("_of_docs" if page.parent != ROOT else ""), lambda self: self.check(page))


for each in pages():
    add(each)

if __name__ == "__main__":
    if not program.alone():  # `custash sleep --all` must reach no process of anybody else
        sys.exit(77)
    program.main()
