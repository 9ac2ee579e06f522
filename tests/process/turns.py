# SPDX-License-Identifier: MIT
"""Captures, graphs, pools, peers and the ends of contexts: the same codes as bare."""
import program
from program import Case, notes


class Turns(Case):
    def test_codes_are_the_same_as_bare(self):
        out = self.same_as_bare("turns")
        self.assertIn("0 wrong\n", out)
        self.assertEqual(notes(out), [["threshold", "1"], ["attribute", "0"]])

    def test_on_plain_driver_memory_too(self):
        self.assertIn("0 wrong\n", self.same_as_bare("turns", CUSTASH_CONF="backing:driver"))

    def test_on_a_device_that_cannot_map_pages(self):
        self.assertIn("0 wrong\n", self.same_as_bare("turns", CUSTASH_SIM="vmm=0"))


program.main()
