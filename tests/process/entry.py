# SPDX-License-Identifier: MIT
"""The entry points for frameworks: from C++ preloaded, and in a library that is opened late."""
import os

import program
from program import PATHS, Case


def beside(name):
    return os.path.join(os.path.dirname(PATHS.library), name)


class Entry(Case):
    def test_from_cpp(self):
        for conf in ("", "backing:driver"):
            self.assertIn("all right\n", self.succeed("entry", CUSTASH_CONF=conf))

    def test_pytorch_s_private_pools(self):
        for conf in ("", "backing:driver"):
            for sim in ("mode=timed", "mode=seeded,seed=3"):
                self.assertEqual(self.succeed("torch_pools", beside("libcustash-torch.so"), CUSTASH_CONF=conf, CUSTASH_SIM=f"devices=1,{sim}"), "all right\n")

    def test_a_pool_s_block_waits_for_the_streams_that_were_recorded(self):
        """Without record_stream the other stream's work comes too late: the test above can fail."""
        self.assertEqual(self.succeed("torch_pools", beside("libcustash-torch.so"), "careless", CUSTASH_SIM="devices=1,mode=timed"), "too late 1\n")

    def test_opened_late_nothing_is_seen_and_all_is_ordered(self):
        for mode in ("timed", "seeded"):
            for words in ((), ("plain",)):
                out = self.succeed("late", PATHS.library, *words, preload=False,
                                   CUSTASH_SIM=f"devices=1,memory=1g,detector=1,mode={mode}")
                self.assertEqual(out, "all right\n", (mode, words))


program.main()
