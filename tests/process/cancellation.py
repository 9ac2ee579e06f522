# SPDX-License-Identifier: MIT
"""No wait of custash is a cancellation point: pthread_cancel() of a thread inside a call takes effect after the call."""
import os
import subprocess
import sys
import tempfile

import program
from actor import Actor
from program import PATHS, Case, read

MIB = 1 << 20
# Calls a cancellation point from a library whose name begins as custash's does.
CONTROL = "import ctypes; ctypes.CDLL(r'{library}').rests()"
PYTHON = """
import ctypes
process = ctypes.CDLL(None)
memory = ctypes.c_void_p()
for size in (5000, 5 << 20, 1 << 40):
    if process.custash_malloc(ctypes.byref(memory), 0, ctypes.c_size_t(size)) == 0:
        process.custash_free(memory)
    if process.custash_host_malloc(ctypes.byref(memory), ctypes.c_size_t(min(size, 1 << 28)), 0) == 0:
        process.custash_host_free(memory)
assert process.custash_malloc(ctypes.byref(memory), 0, 5 << 20) == 0
assert process.custash_snapshot(rb"{folder}/s.html") == 0
assert process.custash_sleep(0) == 0
assert process.custash_wake(0) == 0
process.custash_empty_cache()
"""


class Cancelled(Case):
    def test_a_thread_that_is_cancelled_in_a_call(self):
        for what in ("allocation", "work", "copy"):
            with self.subTest(what):
                self.same_as_bare("cancels", what, CUSTASH_SIM="devices=1,memory=64m")


class Watched(Case):
    """Each call of a cancellation point on a thread of the program, seen by cancel_watch."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.found = os.path.join(self.folder, "found")
        self.preload = {"LD_PRELOAD": f"{PATHS.programs}/libcancel_watch.so:{PATHS.library}", "CANCEL_WATCH": self.found}

    def seen(self):
        if not os.path.exists(self.found):
            return []
        return sorted(set(read(self.found).splitlines()))

    def actor(self, conf, sim="devices=2,memory=256m"):
        actor = Actor(CUSTASH_CONF=conf, CUSTASH_SIM=f"{sim},machine={self.folder}/machine", stderr=subprocess.DEVNULL, **self.preload)
        self.addCleanup(actor.__exit__)
        return actor

    def test_the_watch_finds_one(self):
        library = os.path.join(PATHS.programs, "libcustash_rests.so")
        program.run(sys.executable, "-c", CONTROL.format(library=library), **self.preload)
        self.assertEqual([line.split()[0] for line in self.seen()], ["nanosleep"])

    def test_processes_that_share_a_device(self):
        conf = f"backing:vmm,log:debug,log_file:{self.folder}/log,record:{self.folder}/trace,history:1000"
        first, second = self.actor(conf), self.actor(conf)
        for actor in (first, second):
            for number, size in enumerate((1000, 3 * MIB, 70 * MIB)):
                actor.ok(f"alloc {size}")
                actor.ok(f"fill {number} 7")
            actor.ok("pin 100000")
        second.ok(f"open {first.ok('export 1')[0]} {3 * MIB}")
        first.ok("free 1")
        first.ok("hold 1")
        first.ok("free 2")
        second.code(f"alloc {120 * MIB}")
        second.code(f"alloc {1024 * MIB}")
        second.code(f"alloc_managed {1024 * MIB}")
        for words in ("sleep", str(second.pid)), ("trim", "--deep", str(second.pid)):
            program.custash(*words)
        second.ok("check 0 7")
        second.ok("close 4")
        for actor in (first, second):
            actor.ok("fork")
            actor.ok("reap")
            self.assertEqual(actor.quit(), 0)
        self.assertEqual(self.seen(), [])

    def test_guards_checkers_and_no_cache(self):
        for conf in ("guard:all", "check_streams:true", "caching:never"):
            actor = self.actor(f"{conf},guard_report:{self.folder}/{conf[:5]}.json,log:info,log_file:{self.folder}/log,leaks:true")
            for number in range(3):
                actor.ok(f"alloc {5000 << number}")
                actor.ok(f"fill {number} 1")
            actor.ok("pin 5000")
            for number in range(3):
                actor.ok(f"free {number}")
            if "never" not in conf:
                actor.code("free 0")  # a second time: a finding
            actor.ok("sync")
            self.assertEqual(actor.quit(), 0)
        self.assertEqual(self.seen(), [])

    def test_the_c_interface(self):
        self.succeed(sys.executable, "-c", PYTHON.format(folder=self.folder), CUSTASH_CONF="history:1000,backing:vmm",
                     CUSTASH_SIM="devices=1,memory=1g", **self.preload)
        self.assertEqual(self.seen(), [])


if __name__ == "__main__":
    program.main()
