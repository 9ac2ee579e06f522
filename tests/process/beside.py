# SPDX-License-Identifier: MIT
"""Other interposers beside custash, programs that the loader keeps it out of, and chosen devices."""
import ctypes.util
import glob
import os
import pwd
import shutil
import stat
import unittest

import program
from program import InFolder, notes, run, said


def jemalloc():
    """As the loader would find it; None where it is not installed (package libjemalloc2)."""
    if ctypes.util.find_library("jemalloc") is None:
        return None
    found = glob.glob("/usr/lib/*/libjemalloc.so.2") + glob.glob("/usr/lib*/libjemalloc.so.2")
    return found[0] if found else None


class Beside(InFolder):
    @unittest.skipIf(jemalloc() is None, "jemalloc is not installed")
    def test_jemalloc_before_and_behind(self):
        bare = self.succeed("runtime_shared", preload=False)
        for order in ([jemalloc(), program.PATHS.library], [program.PATHS.library, jemalloc()]):
            done = run("runtime_shared", preload=False, LD_PRELOAD=":".join(order))
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.assertEqual(said(done.stdout), said(bare))
            self.assertGreaterEqual(int(notes(done.stdout)[-1][0]), 1000)

    def test_another_preload_that_hooks_malloc(self):
        """It calls dlsym from inside malloc, before and behind custash."""
        hook = os.path.join(program.PATHS.programs, "libmalloc_hook.so")
        bare = self.succeed("runtime_shared", preload=False)
        for order in ([hook, program.PATHS.library], [program.PATHS.library, hook]):
            done = run("runtime_shared", preload=False, LD_PRELOAD=":".join(order))
            self.assertEqual((done.returncode, said(done.stdout)), (0, said(bare)), done.stderr)

    def test_a_chosen_device(self):
        """CUDA_VISIBLE_DEVICES: one device, the other one, and both turned round."""
        for devices in ("0", "1", "1,0"):
            out = self.same_as_bare("runtime_shared", CUDA_VISIBLE_DEVICES=devices)
            self.assertGreaterEqual(int(notes(out)[-1][0]), 1000, devices)

    @unittest.skipIf(os.geteuid() != 0, "only root can make a program of another user's")
    def test_secure_execution_leaves_custash_out(self):
        """The loader ignores a preload with a slash in a program that changes its user; so all is bare there."""
        os.chmod(self.folder, 0o755)
        path = self.path("orphan")
        shutil.copy(os.path.join(program.PATHS.programs, "orphan"), path)
        self.assertEqual(run(path).stdout, "302 302\n")  # custash answers in it
        nobody = pwd.getpwnam("nobody")
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
        os.chmod(path, 0o755 | stat.S_ISUID)
        self.assertEqual((run(path).stdout, run(path).returncode), ("none\n", 0))


program.main()
