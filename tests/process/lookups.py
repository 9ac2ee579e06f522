# SPDX-License-Identifier: MIT
"""Look-ups by handle, RTLD_NEXT, RTLD_DEFAULT, our own name; their messages; cuGetProcAddress."""
import os

import program
from program import Case


class Lookups(Case):
    def test_look_ups_are_right_bare_and_preloaded(self):
        driver = os.path.join(program.PATHS.driver, "libcuda.so.1")
        self.assertEqual(self.same_as_bare("lookups", driver), "all right\n")

    def test_look_ups_of_a_linked_program(self):
        driver = os.path.join(program.PATHS.driver, "libcuda.so.1")
        self.assertEqual(self.succeed("lookups_custash", driver, preload=False), "all right\n")


program.main()
