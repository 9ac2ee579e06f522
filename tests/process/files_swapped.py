# SPDX-License-Identifier: MIT
"""Names and descriptors of custash's files that have become another file's: nothing of that file changes."""
import os
import shutil
import subprocess
import sys
import tempfile

import program as shared
from files_case import FilesCase, NOT_OURS
from program import PATHS, environment

# Python is the program: it calls the driver, then does what the test is about.
CUDA = """
import ctypes, os, sys
driver = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
def allocate(size):
    return driver.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size))
def begin():
    assert driver.cuInit(0) == 0 and driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0 and allocate(1 << 20) == 0
"""


class FilesSwapped(FilesCase):
    def python(self, code, *, shell=None, **env):
        words = [sys.executable, "-c", CUDA + code]
        if shell is not None:
            words = ["bash", "-c", shell, *words]
        done = subprocess.run(words, cwd=self.folder, env=environment(True, **{"CUSTASH_SIM": "devices=1,memory=64m", **env}),
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_a_recording_that_is_another_file_at_the_end(self):
        longer = NOT_OURS * 4096 + b"\0" * 100  # a recording's zeros are cut off
        for swap in ('ln -s "$PWD/victim"', 'ln "$PWD/victim"', "mkfifo"):
            with self.subTest(swap):
                self.make("victim", longer)
                script = f'"$0" quick; part=$(echo r.trace.*.part); rm "$part"; {swap} "$part"'
                said = self.end(self.start(
                    PATHS.command, "run", "--record", "r.trace", "--lib", PATHS.library, "--", "sh", "-c", script,
                    os.path.join(PATHS.programs, "record")), None)[1]
                self.assertEqual(self.read("victim"), longer)
                self.assertIn("left as it is", said)
                for name in self.there():
                    os.unlink(self.path(name))

    def test_a_folder_with_the_name_of_a_stale_run(self):
        space = os.stat("/proc/self/ns/pid").st_ino
        for name, stays in (("project.c", True), ("0-0", False)):
            folder = self.path(f"custash-run.4194303.1.{space}.abcdef")
            os.mkdir(folder, 0o700)
            self.make(f"{os.path.basename(folder)}/{name}")
            self.custash("top", "--once", env={"TMPDIR": self.folder})
            self.assertEqual(os.path.exists(os.path.join(folder, name)), stays)
            shutil.rmtree(folder, ignore_errors=True)

    def test_a_file_with_the_number_of_a_removed_log(self):
        done = self.python("""
begin()
was = os.stat("x.log").st_ino
os.unlink("x.log")
os.closerange(3, 4096)
file = os.open("own", os.O_RDWR | os.O_CREAT)
os.write(file, b"data")
os.dup2(file, 512)
allocate(1 << 40)
print(os.stat("own").st_ino == was, os.pread(file, 100, 0))
""", CUSTASH_CONF="log:debug,log_file:x.log")
        self.assertIn(done.stdout, ("True b'data'\n", "False b'data'\n"))

    def test_a_file_with_the_number_of_standard_error(self):
        for conf in ("typo:1", "summary:true", "log:debug"):
            with self.subTest(conf):
                self.python("""
file = os.open("own", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
assert file == 2
begin()
allocate(1 << 40)
""", shell='exec "$0" "$@" 2>&-', CUSTASH_CONF=conf)
                self.assertEqual(self.read("own"), b"")

    def test_closed_standard_streams_get_no_file_of_custash(self):
        for conf in ("record:x.trace", "log:debug,log_file:x.log", "history:10,snapshot:x.json"):
            with self.subTest(conf):
                self.python("""
import time
begin()
def own(n):
    try:
        return "/x." in os.readlink(f"/proc/self/fd/{n}") or "socket:" in os.readlink(f"/proc/self/fd/{n}")
    except FileNotFoundError:  # custash's thread had a file there, and has moved or closed it
        return False
for _ in range(100):  # such a file has the number for the time between two calls
    if not any(map(own, range(3))):
        break
    time.sleep(0.05)
else:
    sys.exit(1)
""", shell='ulimit -n 30; exec "$0" "$@" 0<&- 1>&- 2>&-', CUSTASH_CONF=conf)

    def test_a_message_of_the_command_is_in_no_recording(self):
        script = f'"{PATHS.command}" run --record r.trace --lib "{PATHS.library}" -- "{PATHS.programs}/record" quick 0>&1 2>&-'
        self.end(self.start("sh", "-c", script), None)
        self.is_recording("r.trace")

    def test_a_page_with_a_second_name_is_nobody_s(self):
        if self.user is not None:
            self.skipTest("the same as root")
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as victim:
            group = os.path.basename(victim.name).replace("_", "")
            here = {"CUSTASH_CONF": f"limit_all:32m,limit_group:{group}", "CUSTASH_SIM": f"devices=1,machine={group}"}
            self.assertEqual(self.python("begin()", **here).stderr, "")
            folder = "/dev/shm"
            [page] = [name for name in os.listdir(folder) if name.startswith(f"custash-limit.{os.geteuid()}.{group}.")]
            os.unlink(f"{folder}/{page}")
            os.link(victim.name, f"{folder}/{page}")
            self.addCleanup(os.unlink, f"{folder}/{page}")
            self.python("begin()", **here)
            self.assertEqual(os.stat(victim.name).st_size, 0)


shared.main()
