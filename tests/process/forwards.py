# SPDX-License-Identifier: MIT
"""Every entry reaches the driver under its own name, with its arguments, and hands its code back."""
import os

import program
from program import Case


class Forwards(Case):
    def test_every_entry(self):
        program.PATHS.driver = os.path.join(program.PATHS.programs, "forwards")
        out = self.same_as_bare(os.path.join(program.PATHS.driver, "main"))
        self.assertRegex(out, r"^[2-9]\d\d entries, 0 wrong\n$")


program.main()
