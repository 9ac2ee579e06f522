#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lines of Python of threads without the interpreter's lock, in each Python from 3.11 on that this machine has."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import program
from program import PATHS, Case, must_load_the_library

# Ways to a call, each noted as Python itself sees it. A second thread keeps the interpreter's lock for as long as it may.
PROGRAM = r"""
import ctypes, json, sys, threading, traceback
custash = ctypes.CDLL(None)
truth = {}
def allocate(size):
    out = ctypes.c_void_p()
    assert custash.custash_malloc_async(ctypes.byref(out), 0, ctypes.c_size_t(size), None) == 0; stack = traceback.extract_stack()
    truth[out.value] = [[each.name, each.lineno] for each in reversed(stack)]
def nested(depth):
    return nested(depth - 1) if depth else allocate(600)
def generate():
    for i in range(2):
        yield allocate(700 + i)
class Ends:
    def __del__(self):
        allocate(512)
def key(x):
    allocate(x)
    return x
def all_ways():
    allocate(512), allocate(512)
    allocate(
        512)
    nested(1); nested(30)
    [each for each in generate()]
    sorted([3, 1, 2], key=key)
    list(map(lambda x: (allocate(x),
                        allocate(x)), [1]))
    exec(MADE)
    Ends()
    try:
        raise ValueError
    except ValueError:
        allocate(5)
def ways(times):
    for _ in range(times):
        all_ways()
MADE = compile("allocate(3)\n\nallocate(4)", "<string>", "exec")
over = False
def busy():
    while not over:
        sum(range(1000))
other = threading.Thread(target=busy)
for before in (lambda: 0, other.start):  # the second time, all is known
    before()
    learned = len(truth)
    ways(20)
over = True
other.join()
assert custash.custash_snapshot((sys.argv[1] + "/snapshot.json").encode()) == 0
with open(sys.argv[1] + "/truth.json", "w") as file:
    json.dump([[str(address), lines] for address, lines in truth.items()][learned:], file)
"""
# The interpreter ends while a thread allocates.
ENDS = r"""
import ctypes, threading, time
custash = ctypes.CDLL(None)
def allocate():
    out = ctypes.c_void_p()
    while custash.custash_malloc_async(ctypes.byref(out), 0, ctypes.c_size_t(512), None) == 0:
        custash.custash_free_async(out, None)
for _ in range(2):
    threading.Thread(target=allocate, daemon=True).start()
time.sleep(0.05)
"""
# Once there is another interpreter, every thread seems to hold the lock.
OTHERS = r"""
import ctypes, sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
TEXT = "\n".join([
    "import ctypes", "out = ctypes.c_void_p()", "for _ in range(50):",
    "    assert ctypes.CDLL(None).custash_malloc_async(ctypes.byref(out), 0, ctypes.c_size_t(512), None) == 0"])
other = interpreters.create()
exec(TEXT)
if sys.version_info < (3, 12):  # later ones load no ctypes there
    interpreters.run_string(other, TEXT)
exec(TEXT)
"""
DEPTH = 16


def pythons():
    found = {}
    for name in (sys.executable, *(f"python3.{minor}" for minor in range(11, 15))):
        path = shutil.which(name)
        done = path and subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2])"],
                                       capture_output=True, text=True, check=False)
        if done and done.returncode == 0:
            found.setdefault(tuple(map(int, done.stdout.split())), path)
    return found


class PythonFrames(Case):
    def run_ways(self, python, preload=""):
        """Of the blocks allocated beside the busy thread: how many have all their lines, how many none."""
        must_load_the_library(python)
        with tempfile.TemporaryDirectory() as folder:
            self.succeed(python, "-c", PROGRAM, folder, CUSTASH_SIM="devices=1", CUSTASH_CONF=f"history:100000,history_depth:{DEPTH}",
                         LD_PRELOAD=" ".join(filter(None, [preload, PATHS.library])))
            with open(folder + "/snapshot.json", encoding="utf-8") as file:
                snapshot = json.load(file)
            with open(folder + "/truth.json", encoding="utf-8") as file:
                truth = json.load(file)
        stacks = {str(event[4]): event[7] for event in snapshot["history"]["events"] if event[1] == "alloc"}
        right = none = 0
        for address, lines in truth:
            frames = [snapshot["frames"][i] for i in snapshot["stacks"][stacks[address]]]
            shown = [[frame["name"], frame["line"]] for frame in frames if frame["file"] == "<string>"]
            if shown:
                self.assertEqual(shown, lines[:DEPTH])
            right += bool(shown)
            none += not shown
        return right, none

    def test_lines_beside_a_thread_that_keeps_the_lock(self):
        looked_at = [(version, path) for version, path in pythons().items() if (3, 11) <= version <= (3, 13)]
        if not looked_at:
            self.skipTest("no Python of 3.11 to 3.13")
        for version, path in looked_at:
            with self.subTest(version):
                right, none = self.run_ways(path)
                self.assertGreater(right, 50 * none, "the lock was waited for")

    def test_frames_that_are_not_as_expected_are_not_read(self):
        liar = os.path.join(PATHS.programs, "libpython_liar.so")
        for version, path in pythons().items():
            if version < (3, 11) or not self.lies(path, liar):
                continue
            with self.subTest(version):
                # What is shown is right. The lies are random: one run may show nothing.
                self.assertTrue(any(self.run_ways(path, liar)[0] for _ in range(5)))
                return
        self.skipTest("no Python here takes its functions from a library")

    def test_threads_that_outlive_the_interpreter(self):
        for _ in range(10):
            self.succeed(sys.executable, "-c", ENDS, CUSTASH_SIM="devices=1", CUSTASH_CONF="history:1000")

    def test_beside_another_interpreter(self):
        for path in pythons().values():
            self.succeed(path, "-c", OTHERS, CUSTASH_SIM="devices=1", CUSTASH_CONF="history:1000")

    def lies(self, python, liar):
        ask = "import ctypes; print(ctypes.cast(ctypes.CDLL(None).PyFrame_GetLasti, ctypes.c_void_p).value == " \
              f"ctypes.cast(ctypes.CDLL('{liar}').PyFrame_GetLasti, ctypes.c_void_p).value)"
        return self.succeed(python, "-c", ask, preload=False, LD_PRELOAD=liar) == "True\n"


program.main()
