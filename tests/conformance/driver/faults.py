# SPDX-License-Identifier: MIT
"""Every driver call made to fail in turn, custash's own among them: pitched memory, and handles that the program makes."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "process"))

import program  # noqa: E402
from program import Case, notes  # noqa: E402


class Faults(Case):
    def runs(self, part, conf):
        """So many programs, each with another call that failed; what is said is the same without custash."""
        out = self.same_as_bare("faults", part, CUSTASH_CONF=f"neighbours:false,patience:0,{conf}", CUSTASH_SIM="devices=1,kernel_ns=2000000,granularity=64k")
        return int(dict(notes(out))["runs"])

    def test_pitched_memory(self):
        for backing in ("backing:vmm", "backing:driver"):
            self.assertGreater(self.runs("pitched", backing), 200)

    def test_handles(self):
        self.assertGreater(self.runs("handles", ""), 200)


program.main()
