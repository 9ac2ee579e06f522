# SPDX-License-Identifier: MIT
"""The entry points for frameworks: from C++ preloaded, and in a library that is opened late."""
import program
from program import PATHS, Case


class Entry(Case):
    def test_from_cpp(self):
        for conf in ("", "backing:driver"):
            self.assertIn("all right\n", self.succeed("entry", CUSTASH_CONF=conf))

    def test_opened_late_nothing_is_seen_and_all_is_ordered(self):
        for mode in ("timed", "seeded"):
            for words in ((), ("plain",)):
                out = self.succeed("late", PATHS.library, *words, preload=False,
                                   CUSTASH_SIM=f"devices=1,memory=1g,detector=1,mode={mode}")
                self.assertEqual(out, "all right\n", (mode, words))


program.main()
