# SPDX-License-Identifier: MIT
"""Libraries for video and rays (NVENC, NVDEC, OptiX), of which a stub stands here: custash acts on the first work, not
on loading or looking up."""
import os
import shutil
import tempfile

import program
from program import Case, notes

SLEPT, REFUSED = "0", "8"  # CUSTASH_SUCCESS, CUSTASH_ERROR_REFUSED


class Engines(Case):
    def slept(self, *words, command="engines", stub=None):
        stub = stub or os.path.join(program.PATHS.programs, "libengine_stub.so")
        return notes(self.same_as_bare(command, stub, *words))[0][1]

    def test_a_library_that_is_loaded_and_looked_up_changes_nothing(self):
        for engine in ("NVDEC", "NVENC", "OptiX"):
            self.assertEqual(self.slept(engine, "looked up"), SLEPT)
        self.assertEqual(self.slept("NVDEC", "linked", command="engines_linked"), SLEPT)

    def test_a_beginning_in_the_programs_scope(self):
        for engine in ("NVDEC", "NVENC", "OptiX"):
            self.assertEqual(self.slept(engine, "begun in the program's scope"), REFUSED)

    def test_a_probe_that_has_closed_the_library(self):
        with tempfile.TemporaryDirectory() as folder:
            stub = shutil.copy(os.path.join(program.PATHS.programs, "libengine_stub.so"), folder)
            self.assertEqual(self.slept("NVDEC", "begun after a probe", command="engines_linked", stub=stub), REFUSED)

    def test_a_process_with_work_that_custash_does_not_see_stays_awake(self):
        for engine in ("NVDEC", "NVENC", "OptiX"):
            for early in ((), ("early",)):
                self.assertEqual(self.slept(engine, "begun", *early), REFUSED)
        for engine in ("NVDEC", "NVENC"):
            self.assertEqual(self.slept(engine, "begun", command="engines_linked"), REFUSED)


program.main()
