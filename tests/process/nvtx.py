# SPDX-License-Identifier: MIT
"""What NVIDIA's tools see with nvtx:true: ranges and counters. A small library stands in for the tool (nvtx_tool.c)."""
import os
import sys
import tempfile
import time

import actor
import program
from program import PATHS, Case, read

MIB = 1 << 20


class Nvtx(Case):
    def seen(self, steps, tool=None, **more):
        """The tool's notes of a program that takes these steps, with a pause after each that lets counters be sampled."""
        with tempfile.TemporaryDirectory() as folder:
            notes = os.path.join(folder, "notes")
            tool = tool or os.path.join(PATHS.programs, "libnvtx_tool.so")
            with actor.Actor(NVTX_INJECTION64_PATH=tool, NVTX_NOTES=notes, **{"CUSTASH_CONF": "nvtx:true", **more}) as process:
                last = ""
                for step in steps:
                    last = (process.ok(step.replace("LAST", last)) or [last])[0]
                    time.sleep(0.001)
                self.assertEqual(process.quit(), 0)
            if not os.path.exists(notes):
                return []
            return read(notes).splitlines()

    def test_calls_are_ranges_and_those_of_the_driver_lie_inside(self):
        notes = [each for each in self.seen([f"alloc {64 * MIB}", "free LAST"]) if each.split()[0] in ("push", "pop", "domain")]
        self.assertEqual(notes.count("domain custash"), 1)
        depth, names = 0, []
        for each in notes:
            depth += each.startswith("push") - each.startswith("pop")
            self.assertIn(depth, (0, 1, 2), notes)
            names.append((depth, each))
        self.assertEqual(depth, 0)
        # The first call starts custash, so that the second is the first range.
        self.assertIn((1, "push cuMemFree_v2 0"), names)

    def test_bytes(self):
        notes = self.seen([f"alloc {2 * MIB}", f"alloc {64 * MIB}", "alloc_async 1000000", "free LAST"])
        self.assertIn(f"push cuMemAlloc_v2 {64 * MIB}", notes)
        self.assertIn("push cuMemAllocAsync 1000000", notes)
        inside = notes[notes.index(f"push cuMemAlloc_v2 {64 * MIB}") + 1:]
        self.assertTrue(inside[0].startswith("push cuMem") and inside[1] == "pop", notes)

    def test_counters_follow_the_memory(self):
        steps = [f"alloc {2 * MIB}", f"alloc {64 * MIB}", f"alloc {32 * MIB}", "free LAST", f"alloc {MIB}", "empty"]
        notes = self.seen(steps)
        self.assertIn("counter 1 device 0: in use", notes)
        self.assertIn("counter 2 device 0: held", notes)
        values = {which: [int(each.split()[2]) for each in notes if each.startswith(f"sample {which} ")] for which in (1, 2)}
        for more in (66, 98, 66, 67):
            self.assertIn(more * MIB, values[1])
        self.assertTrue(all(held >= used for used, held in zip(values[1], values[2])), values)
        self.assertLess(values[2][-1], max(values[2]))  # after empty_cache

    def test_nothing_is_told_unless_asked(self):
        self.assertEqual(self.seen([f"alloc {64 * MIB}", "free LAST"], CUSTASH_CONF=""), [])

    def test_a_tool_that_is_missing_or_no_library_changes_nothing(self):
        for tool in ("/nonexistent/tool.so", sys.executable):
            self.assertEqual(self.seen([f"alloc {64 * MIB}", f"alloc {64 * MIB}", "free LAST"], tool=tool), [])

    def test_a_tool_may_allocate_while_it_starts(self):
        notes = self.seen([f"alloc {2 * MIB}", f"alloc {64 * MIB}"], NVTX_TOOL_ALLOCATES="1")
        self.assertIn("allocated", notes)
        self.assertIn(f"push cuMemAlloc_v2 {64 * MIB}", notes)


if __name__ == "__main__":
    program.main()
