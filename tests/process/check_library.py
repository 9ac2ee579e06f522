# SPDX-License-Identifier: MIT
"""libcustash-check.so: it must lie beside libcustash.so, of the same build. Without it a program runs as usual, and is
told that nothing was checked. Programs with custash linked in need libcustash-check.a."""
import mmap
import os
import re
import shutil
import tempfile

import actor
import program
from program import PATHS, Case

CHECKS = ("guard:all,guard_show:true", "check_streams:true,guard_show:true")
STEPS = ("alloc 1000", "fill 0 7", "free 0", "free 0")
NAMES = ("libcustash.so", "libcustash-check.so")


class CheckLibrary(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.copy, self.checks = (os.path.join(folder.name, name) for name in NAMES)
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

    def test_a_library_of_another_build(self):
        self.copy_checks()
        with open(self.checks, "r+b") as file, mmap.mmap(file.fileno(), 0) as whole:
            digests = [found.start() for found in re.finditer(rb"(?<![0-9a-f])[0-9a-f]{64}\0", whole)]
            self.assertEqual(len(digests), 1)
            whole[digests[0]] = ord("g")
        self.assertEqual(self.say(CHECKS[0], library=self.copy),
                         "custash: guard: nothing was checked: libcustash-check is of another build of custash\n")

    def test_a_library_of_something_else(self):
        shutil.copy(os.path.join(PATHS.driver, "libcuda.so.1"), self.checks)
        self.assertRegex(self.say(CHECKS[0], library=self.copy), "nothing was checked: .*custash_open_checks")

    def test_programs_with_custash_linked_in(self):
        self.assertEqual(self.say(CHECKS[0], name="actor_custash"), "custash: guard: nothing was checked: "
                         "the program is not linked with libcustash-check.a\n")
        self.assertRegex(self.say(CHECKS[0], name="actor_checked"), "1 found; 1 allocation was guarded\n$")


if __name__ == "__main__":
    program.main()
