# SPDX-License-Identifier: MIT
"""What the process tests share: where things lie, running a program bare or with custash, and the command."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from emulated import leave_out

VERSION = tuple(map(int, re.search(r"version: '(\d+)\.(\d+)\.(\d+)'", (pathlib.Path(__file__).resolve().parents[2] / "meson.build").read_text()).groups()))
PATHS = argparse.Namespace(library="", programs="", driver="", runtime="", command="", build="", schema="")


def environment(preload, **more):
    """Nothing of the caller's CUDA, custash or debuginfod settings; the simulator where a driver is looked for.
    A rule that is left out (tests/mutants) stays so."""
    env = {k: v for k, v in os.environ.items()
           if k == "CUSTASH_WITHOUT_RULE" or not k.startswith(("CUSTASH", "CUDA", "DEBUGINFOD", "LD_"))}
    folders = [f for f in (PATHS.driver, PATHS.runtime) if f]
    if folders:
        env["LD_LIBRARY_PATH"] = ":".join(folders)
    if preload:
        env["LD_PRELOAD"] = PATHS.library
    env.update({k: v for k, v in more.items() if v is not None})
    return env


def machine_of(path):
    """The processor that a file is for; a script's is that of this Python."""
    with open(path, "rb") as file:
        begin = file.read(20)
    return begin[18:20] if begin[:4] == b"\x7fELF" else machine_of(sys.executable)


def emulated():
    """Whether the library is for another processor: then QEMU runs the programs that were built with it."""
    return machine_of(PATHS.library) != machine_of(sys.executable)


def must_load_the_library(program):
    """Skips a test whose program is this machine's, while the library is not."""
    path = shutil.which(program)
    if path is not None and machine_of(path) != machine_of(PATHS.library):
        raise unittest.SkipTest(f"{os.path.basename(program)} is for another processor than the library")


def run(*command, preload=True, timeout=60, cwd=None, user=None, input=None, **more):
    """A finished process; its output is text. The first word is a path, a name, or a test program's."""
    own = os.path.join(PATHS.programs, command[0])
    first = own if "/" not in command[0] and os.path.exists(own) else command[0]
    if preload or PATHS.library in more.get("LD_PRELOAD", ""):
        must_load_the_library(first)
    return subprocess.run([first, *command[1:]], env=environment(preload, **more), cwd=cwd, user=user, group=user, input=input,
                          capture_output=True, text=True, timeout=timeout, check=False)


def custash(*words, **options):
    """A finished run of the command."""
    return run(PATHS.command, *map(str, words), preload=False, **options)


def launch(*words, **options):
    """The same of `custash run`, with the library of the tests."""
    return custash("run", "--lib", PATHS.library, *words, **options)


def processes(**more):
    """{pid: process} of one look of `custash top`."""
    done = custash("top", "--once", "--json", "--delay", "0.05", **more)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return {each["pid"]: each for each in json.loads(done.stdout)["processes"]}


def within(seconds, condition):
    """The seconds until the condition holds, None where it does not."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        if condition():
            return time.monotonic() - begin
        time.sleep(0.02)
    return None


def said(output):
    """Without the lines that tell bare from preloaded."""
    return "".join(line for line in output.splitlines(True) if not line.startswith("#"))


def notes(output):
    """The lines that do, as lists of words."""
    return [line.split()[1:] for line in output.splitlines() if line.startswith("#")]


def read(path):
    """A file's text."""
    return pathlib.Path(path).read_text(encoding="utf-8")


def load(path):
    return json.loads(read(path))


def lines_marked(source):
    """{name: line} of the lines that end in `// @name`."""
    with open(source, encoding="utf-8") as file:
        return {found[1]: number for number, line in enumerate(file, 1) if (found := re.search(r"// @(\w+)", line))}


def render(folder):
    """Has the command make the forms that a program in this folder asked for: the library writes JSON."""
    for name in sorted(os.listdir(folder)):
        if re.search(r"\.(html|pickle|trace\.json)\.json$", name):
            path = os.path.join(folder, name)
            custash("report", path).check_returncode()
            os.unlink(path)


class Case(unittest.TestCase):
    maxDiff = None

    def succeed(self, *command, **options):
        """Runs, expects exit code 0 and silence on standard error; returns standard output."""
        done = run(*command, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"{command}: {done.stdout}")
        return done.stdout

    def same_as_bare(self, *command, **options):
        """The preloaded program says what it says bare. Returns all that it said preloaded."""
        bare = self.succeed(*command, preload=False, **options)
        preloaded = self.succeed(*command, **options)
        self.assertEqual(said(preloaded), said(bare))
        return preloaded


class Files(Case):
    """Has a folder. Its methods take names in there, and whole paths."""

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        return read(self.path(name))

    def read_bytes(self, name):
        return pathlib.Path(self.path(name)).read_bytes()

    def load(self, name):
        return json.loads(self.read(name))

    def write(self, name, text):
        pathlib.Path(self.path(name)).write_text(text, encoding="utf-8")


class InFolder(Files):
    """Each test has a folder of its own."""

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())


class InOneFolder(Files):
    """All tests of a class share a folder."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())


def alone():
    """Starts the test again in a network namespace, where processes of no other test can ask its own anything. False if there is none."""
    if "CUSTASH_ISOLATED" in os.environ:
        return True
    words = ["unshare", "--net", *(["--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*words, "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        return False
    os.execvpe(words[0], [*words, sys.executable, *sys.argv], {**os.environ, "CUSTASH_ISOLATED": "1"})


def main():
    parser = argparse.ArgumentParser()
    for name in [*vars(PATHS), "only"]:
        parser.add_argument("--" + name, default="")
    parser.parse_known_args(namespace=PATHS)
    # Meson may name what it has built from its own folder; tests work in others.
    for name, path in vars(PATHS).items():
        if os.path.exists(path):
            setattr(PATHS, name, os.path.abspath(path))
    if emulated():
        leave_out(sys.modules["__main__"])
    unittest.main(argv=["process", *filter(None, [PATHS.only])], verbosity=2)
