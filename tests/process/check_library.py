# SPDX-License-Identifier: MIT
"""libcustash-check.so: it must lie beside libcustash.so, of the same build, and is opened only when it is needed. Without it a
program runs as usual and stays awake, and one line says that nothing was checked or reported. Programs with custash linked in need
libcustash-check.a for the checks."""
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import actor
import program
import room
from program import PATHS, InFolder, custash, environment, must_load_the_library

CHECKS = ("guard:all,guard_report:-", "check_streams:true,guard_report:-")
REPORTS = ("history:1000", "summary:true", "leaks:true", "snapshot:x.json", "record:x.trace", "stats:detailed", "snapshot_signal:10", "nvtx:true")
SLEEP = ("sleep_after:1", "deep_trim_after:1", "yield_after:1")
STEPS = ("alloc 1000", "fill 0 7", "free 0", "free 0")
LOADED = "c = ctypes.CDLL(None)\nloaded = lambda: 'libcustash-check' in open('/proc/self/maps').read()\n"
NAMES = ("libcustash.so", "libcustash-check.so")
BEGIN = ("c = ctypes.c_void_p()\n"
         "assert not d.cuInit(0) and not d.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0) and not d.cuCtxSetCurrent(c)\n")


class CheckLibrary(InFolder):
    def setUp(self):
        super().setUp()
        self.copy, self.checks = map(self.path, NAMES)
        shutil.copy(PATHS.library, self.copy)

    def copy_checks(self):
        shutil.copy(os.path.join(os.path.dirname(PATHS.library), NAMES[1]), self.checks)

    def say(self, conf, name="actor", library=None):
        """What a program prints on standard error, which frees a block twice."""
        with tempfile.TemporaryFile("w+") as file:
            more = {"LD_PRELOAD": library} if library else {"preload": False}
            with actor.Actor(name=name, stderr=file, CUSTASH_CONF=conf, **more) as process:
                codes = [process.code(step) for step in STEPS]
                self.assertEqual(process.quit(), 0)
            self.assertEqual([bool(code) for code in codes], [False, False, False, True], codes)
            file.seek(0)
            return file.read()

    def test_the_copies_check(self):
        self.copy_checks()
        self.assertRegex(self.say(CHECKS[0], library=self.copy), "1 found; 1 allocation was guarded\n$")

    def test_a_missing_library(self):
        for conf in CHECKS:
            self.assertRegex(self.say(conf, library=self.copy),
                             f"^custash: guard: nothing was checked: {self.checks}: cannot open .*\n$")
        self.assertEqual(self.say("guard:off", library=self.copy), "")

    def test_a_missing_library_and_a_report(self):
        for conf in REPORTS:
            self.assertRegex(self.say(conf, library=self.copy),
                             f"^custash: {self.checks}: cannot open .*; nothing is recorded or reported\n$")
        for conf in SLEEP:
            self.assertRegex(self.say(conf, library=self.copy),
                             f"^custash: {self.checks}: cannot open .*; no memory goes to sleep or is trimmed deeply\n$")
        with actor.Actor(LD_PRELOAD=self.copy, CUSTASH_CONF="snapshot_signal:10") as process:
            self.assertFalse(process.code("alloc 1000"))
            os.kill(process.pid, signal.SIGUSR1)
            self.assertFalse(process.code("free 0"))
            self.assertEqual(process.quit(), 0)
        with self.subTest("from C"):
            code = ("c = ctypes.CDLL(None); c.custash_last_error_message.restype = ctypes.c_char_p\n"
                    "for call in (lambda: c.custash_history_start(100, 4), lambda: c.custash_snapshot(b'/x.json'),\n"
                    "             lambda: c.custash_leaks_text(None, ctypes.byref(ctypes.c_size_t())),\n"
                    "             lambda: c.custash_sleep(0), lambda: c.custash_trim_deep(0)):\n"
                    "    assert call() == 7 and b'libcustash-check.so: cannot open' in c.custash_last_error_message()\n"
                    "assert c.custash_history_stop() == 0 and c.custash_wake(0) == 0")
            self.assertEqual(self.python(code, self.copy, ""), "")
        with self.subTest("the command"), actor.Actor(LD_PRELOAD=self.copy) as process:
            self.assertFalse(process.code("alloc 1000"))
            for command in (("snapshot", str(process.pid)), ("snapshot", "--history", str(process.pid)), ("leaks", str(process.pid)),
                            ("sleep", str(process.pid)), ("trim", "--deep", str(process.pid))):
                done = custash(*command)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("libcustash-check.so: cannot open", done.stderr)
            self.assertEqual(process.quit(), 0)
        for option in (("--leaks",), ("--summary",), ("--check-memory",), ("--check-streams",), ("--record", "x"), ("--record-history", "x.html")):
            done = custash("run", "--lib", self.copy, *option, "--", "true")
            self.assertEqual((done.returncode, done.stderr),
                             (125, f"custash: libcustash-check.so, which checks, records and reports, is not beside {self.copy}\n"))

    def test_a_process_without_it_makes_no_room_for_others(self):
        with actor.Actor(LD_PRELOAD=self.copy, CUSTASH_CONF="yield_after:1", stderr=subprocess.DEVNULL) as process:
            process.ok("alloc 1000")
            time.sleep(room.IDLE)
            with actor.connect(actor.services(process.pid)[0]) as link:
                self.assertEqual(actor.ask(link, "yield 1")[0], actor.REFUSED)
            process.ok("alloc 1000")
            self.assertEqual(process.quit(), 0)

    def test_it_is_opened_only_when_it_is_needed(self):
        """By the API at the first call that needs it."""
        code = (LOADED +
                "assert not d.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1000)) and not d.cuMemFree_v2(p)\n"
                "assert not c.custash_stats_text(0, 0, None, ctypes.byref(ctypes.c_size_t())) and not c.custash_history_stop()\n"
                "assert not loaded(), 'too early'\n"
                "assert not c.custash_history_start(100, 4) and loaded()")
        self.assertEqual(self.python(code, PATHS.library, ""), "")
        for call in ("sleep", "trim_deep"):
            code = (LOADED +
                    "assert not d.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1000)) and not c.custash_wake(0) and not loaded()\n"
                    f"assert not c.custash_{call}(0) and loaded()\n"
                    "assert not d.cuMemsetD8_v2(p, 7, ctypes.c_size_t(1000)) and not d.cuMemFree_v2(p)")
            self.assertEqual(self.python(code, PATHS.library, ""), "")
        for conf in SLEEP:
            code = LOADED + "assert not d.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1000)) and loaded(), 'not at the start'"
            self.assertEqual(self.python(code, PATHS.library, conf), "")

    def test_a_library_of_another_build(self):
        self.copy_checks()
        with open(self.checks, "r+b") as file, mmap.mmap(file.fileno(), 0) as whole:
            digests = [found.start() for found in re.finditer(rb"(?<![0-9a-f])[0-9a-f]{64}\0", whole)]
            self.assertEqual(len(digests), 1)
            whole[digests[0]] = ord("g")
        self.assertEqual(self.say(CHECKS[0], library=self.copy),
                         "custash: guard: nothing was checked: libcustash-check is of another build of custash\n")
        self.assertEqual(self.say("leaks:true", library=self.copy),
                         "custash: libcustash-check is of another build of custash; nothing is recorded or reported\n")

    def test_a_library_of_something_else(self):
        shutil.copy(os.path.join(PATHS.driver, "libcuda.so.1"), self.checks)
        self.assertRegex(self.say(CHECKS[0], library=self.copy), "nothing was checked: libcustash-check.so is no library of custash")

    def python(self, code, preload, conf="guard:all,guard_report:-", **more):
        """What CUDA's driver, by ctypes as `d`, was asked. `p` is a place for an address."""
        begin = "import ctypes, os, sys; os.chdir('/'); d = ctypes.CDLL('libcuda.so.1'); p = ctypes.c_uint64()\n"
        return self.run_python(begin + BEGIN + code, preload, conf, **more)

    def run_python(self, code, preload, conf, **more):
        """What a Python program prints on standard error."""
        must_load_the_library(sys.executable)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False,
                              env=environment(False, LD_PRELOAD=preload, CUSTASH_CONF=conf), **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_a_relative_path_and_a_link(self):
        """The program's folder changes before CUDA begins."""
        self.copy_checks()
        folder = os.path.dirname(self.copy)
        link = os.path.join(folder, "elsewhere")
        os.mkdir(link)
        os.symlink(self.copy, os.path.join(link, NAMES[0]))
        code = "assert not d.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1000)) and not d.cuMemFree_v2(p)"
        for preload in (f"./{NAMES[0]}", os.path.join(link, NAMES[0])):
            self.assertEqual(self.python(code, preload, cwd=folder), "custash: guard: nothing found; 1 allocation was guarded\n")

    def fail_mallocs(self, numbers, count, conf, code):
        """The code in a process for each number of the first malloc of custash's that fails: the first exception makes the
        unwinder ready."""
        loop = ("import ctypes, os, sys; os.chdir('/'); api = ctypes.CDLL(None)\n"
                "fail, size, p = api.fail_mallocs_of_custash, ctypes.c_size_t(4 << 20), ctypes.c_uint64()\n"
                f"for which in map(ctypes.c_long, {list(numbers)}):\n"
                "    if os.fork() == 0:\n"
                "        d = ctypes.CDLL('libcuda.so.1')\n"
                f"        exec({BEGIN + code!r}, globals())\n"
                "        sys.exit()\n"
                "    assert os.wait()[1] == 0, which")
        self.run_python(loop.replace("COUNT", f"ctypes.c_long({count})"), f"{PATHS.library}:{PATHS.programs}/libno_memory.so", conf)

    def test_host_memory_runs_out(self):
        """Whichever malloc fails in either library, no exception of one ends the process in the other."""
        code = ("kept = [ctypes.c_uint64(), ctypes.c_uint64()]\n"
                "for each in kept: assert not d.cuMemAlloc_v2(ctypes.byref(each), ctypes.c_size_t(5000))\n"
                "fail(which, COUNT)\n"
                "codes = [d.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1000))]\n"
                "if not codes[0]: codes += [d.cuMemsetD8_v2(p, 7, ctypes.c_size_t(1000)), d.cuCtxSynchronize(), d.cuMemFree_v2(p)]\n"
                "calls = fail(ctypes.c_long(-1), COUNT)\n"
                # Before the end of the process, where custash rests while work runs, and the simulator's clock with it.
                "for each in kept: d.cuMemFree_v2(each)\n"
                "d.cuCtxSynchronize()\n"
                "assert set(codes) <= {0, 2} and calls, (codes, calls)")
        for conf in ("guard:all,guard_report:-", "history:100"):
            self.fail_mallocs(range(40), 1, conf, code)
        code = ("host = (ctypes.c_ubyte * 3)()\n"
                "assert not d.cuMemAlloc_v2(ctypes.byref(p), size) and not d.cuMemsetD8_v2(p, 7, size)\n"
                "assert not api.custash_trim_deep(0)\n"  # opens it
                "fail(which, COUNT)\n"
                "code = api.custash_sleep(0)\n"
                "failed = d.cuMemcpyDtoH_v2(host, p, ctypes.c_size_t(3)) and d.cuMemcpyDtoH_v2(host, p, ctypes.c_size_t(3))\n"
                "calls = fail(ctypes.c_long(-1), COUNT)\n"
                "assert code in (0, 2, 7, 8) and calls and not failed and list(host) == [7, 7, 7], (code, calls, failed)")
        self.fail_mallocs([*range(0, 48, 5), *range(48, 66)], 1, "", code)
        self.fail_mallocs(range(0, 66, 3), 5, "", code)  # none is left for the exception

    def test_programs_with_custash_linked_in(self):
        self.assertEqual(self.say(CHECKS[0], name="actor_custash"), "custash: guard: nothing was checked: "
                         "the program is not linked with libcustash-check.a\n")
        self.assertRegex(self.say(CHECKS[0], name="actor_checked"), "1 found; 1 allocation was guarded\n$")
        with actor.Actor(name="actor_custash", preload=False) as process:
            for step in ("alloc 1000", "fill 0 7"):
                self.assertFalse(process.code(step))
            done = custash("sleep", process.pid)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(process.ok("check 0 7"), ["0"])
            self.assertEqual(process.quit(), 0)


if __name__ == "__main__":
    program.main()
