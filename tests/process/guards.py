# SPDX-License-Identifier: MIT
"""What a program with guarded blocks says of a write beside one (docs/guard.md)."""
import os
import re
import tempfile

import actor
import program
from program import Case

SIZE = 1000


class Guards(Case):
    def log(self, fills, conf):
        """The log of a program that allocates two blocks, fills them from an offset on, and frees them."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log")
            with actor.Actor(CUSTASH_CONF=f"{conf},log_file:{path}") as process:
                for number, offset in enumerate(fills):
                    process.ok(f"alloc {SIZE}")
                    process.ok(f"fill {number} 7 {offset}")
                for number in range(len(fills)):
                    process.ok(f"free {number}")
                for _ in range(3):
                    process.ok("sync")
                    process.ok("empty")
                self.assertEqual(process.quit(), 0)
            if not os.path.exists(path):
                return []
            with open(path, encoding="utf-8") as file:
                return re.findall("event=guard_overwritten address=0x[0-9a-f]+ (.*)", file.read())

    def test_a_write_past_the_end_is_logged(self):
        self.assertEqual(self.log([0, 3], "guard:all"), [f"bytes={SIZE} byte=1 past its end"])

    def test_programs_that_are_right_log_nothing(self):
        self.assertEqual(self.log([0, 0, 0], "guard:all"), [])

    def test_without_the_option_nobody_looks(self):
        self.assertEqual(self.log([0, 3], "log:error"), [])


if __name__ == "__main__":
    program.main()
