# SPDX-License-Identifier: MIT
"""What check_streams says of small programs that are wrong in one way, and of their right counterparts (docs/checking.md)."""
import os
import tempfile

import program
from program import Case, load, run, said

SEEDS = 100
FREE, LATE, EARLY = "free_beside_use", "after_free", "before_allocation"

# The programs of streams/ that are wrong, and what is found. The others are right.
WRONG = {
    "free_beside_kernel": FREE, "free_beside_struct": FREE, "free_beside_neighbours": FREE, "free_beside_buffer": FREE, "free_beside_launch_ex": FREE,
    "free_beside_memset": FREE, "free_beside_copy": FREE, "free_beside_copy_to_pinned": FREE, "free_beside_rows": FREE,
    "free_of_plain_memory": FREE, "event_too_early": FREE, "event_of_another_stream": FREE, "event_recorded_anew": FREE,
    "one_of_two_streams": FREE, "default_beside_non_blocking": FREE, "per_thread_streams": FREE, "threads": FREE,
    "waited_too_early": FREE,
    "after_free_same_stream": LATE, "after_free_other_stream": LATE, "after_free_in_order": LATE, "after_free_memset": LATE,
    "after_free_copy": LATE, "after_free_inside": LATE, "after_plain_free": LATE,
    "allocation_not_ordered": EARLY, "allocation_after_event": EARLY, "allocation_beside_default": EARLY,
    "allocation_in_thread": EARLY,
    "copy_without_a_stream": EARLY, "reuse_in_a_pool": FREE, "reuse_in_a_pool_without_policies": FREE,
    "graph_free_beside_kernel": FREE, "graph_free_beside_copy": FREE, "graph_free_beside_rows": FREE, "graph_free_beside_memset": FREE,
    "graph_free_beside_child": FREE, "graph_free_beside_struct": FREE, "graph_after_free": LATE, "graph_before_allocation": EARLY,
    "graph_set_kernel": LATE, "graph_set_kernel_v2": LATE, "graph_set_copy": LATE, "graph_set_memset": LATE, "graph_set_any": LATE,
    "graph_set_child": LATE, "graph_updated": LATE, "graph_node_on": LATE,
}


class CheckStreams(Case):
    def report(self, name, conf="check_streams:true", more=()):
        """The findings of one program, and what it printed on standard error."""
        kernels = os.path.join(program.PATHS.programs, "libparameters_kernels.so")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "found.json")
            done = run("check_streams", name, *more, CUSTASH_SIM_KERNELS=kernels, CUSTASH_SIM="devices=2",
                       CUSTASH_CONF=f"{conf},guard_report:{path},log_file:{folder}/log")
            self.assertEqual((done.returncode, said(done.stdout)), (0, ""), f"{name}: {done.stderr}")
            return load(path)["findings"], done.stderr

    def names(self):
        return said(self.succeed("check_streams", "--list")).split()

    def test_each_planted_fault_is_found_once(self):
        for name, kind in WRONG.items():
            with self.subTest(program=name):
                found = [(f["source"], f["certain"], f["suspects"][0]["kind"]) for f in self.report(name)[0]]
                self.assertEqual(found, [("streams", True, kind)])

    def test_of_programs_that_are_right_nothing_is_said(self):
        right = [name for name in self.names() if name not in WRONG]
        self.assertGreater(len(right), 20)
        for name in right:
            with self.subTest(program=name):
                self.assertEqual(self.report(name)[0], [])

    def test_without_a_cache_the_same_is_found(self):
        conf = "check_streams:true,caching:never"
        for name in ("free_beside_struct", "after_free_copy", "allocation_not_ordered"):
            with self.subTest(program=name):
                self.assertEqual([f["suspects"][0]["kind"] for f in self.report(name, conf)[0]], [WRONG[name]])
        for name in ("right_event", "right_default_stream", "right_plain_free_waits"):
            with self.subTest(program=name):
                self.assertEqual(self.report(name, conf)[0], [])

    def test_a_finding_names_both_calls(self):
        found = self.report("free_beside_kernel")[0][0]
        suspect, use = found["suspects"][0], found["work"][0]
        self.assertEqual((use["name"], suspect["bytes"]), ("one", 100000))
        self.assertNotEqual(use["stream"], suspect["stream"])
        for stack in (found["found_in"], suspect["allocated_by"], suspect["freed_by"], use["by"]):
            self.assertRegex(found["frames"][stack[0]]["module"], "check_streams$")
        self.assertNotEqual(use["by"], suspect["freed_by"])
        found = self.report("after_free_memset")[0][0]
        self.assertEqual(found["work"][0]["name"], "cuMemsetD32Async")
        self.assertRegex(found["frames"][found["suspects"][0]["freed_by"][0]]["module"], "check_streams$")

    def test_random_programs_against_the_race_detector(self):
        """Bare, the detector of the simulator counts what was in no order; the check finds the same."""
        wrong = 0
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                bare = run("check_streams", "random", str(seed), preload=False, CUSTASH_SIM="detector=1")
                self.assertEqual(bare.returncode, 0, bare.stderr)
                frees, early = (int(word) for word in said(bare.stdout).split())
                found = [f["suspects"][0]["kind"] for f in self.report("random", more=[str(seed)])[0]]
                self.assertEqual((found.count(FREE), EARLY in found), (frees, early != 0))
                wrong += bool(found)
                if seed % 2 == 0:
                    self.assertEqual(found, [])
        self.assertGreater(wrong, SEEDS / 8)

    def test_the_text_tells_what_is_wrong(self):
        def shown_of(name):
            kernels = os.path.join(program.PATHS.programs, "libparameters_kernels.so")
            return run("check_streams", name, CUSTASH_SIM_KERNELS=kernels, CUSTASH_SIM="devices=2",
                       CUSTASH_CONF="check_streams:true,guard_report:-").stderr

        shown = shown_of("free_beside_kernel")
        self.assertIn("custash: guard: a block is freed while another stream may still use it\n", shown)
        self.assertIn("custash: guard:     one on stream 0x", shown)
        self.assertRegex(shown, r"custash: guard: 1 found; the order of \d uses? was checked\n$")
        self.assertRegex(shown_of("right_event"), r"^custash: guard: nothing found; the order of \d uses? was checked\n$")

    def test_without_the_option_nobody_looks(self):
        kernels = os.path.join(program.PATHS.programs, "libparameters_kernels.so")
        done = run("check_streams", "free_beside_kernel", CUSTASH_SIM_KERNELS=kernels, CUSTASH_CONF="guard_report:-")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_beside_guards_both_are_found(self):
        found = self.report("after_free_memset", "check_streams:true,guard:all")[0]
        self.assertEqual({f["source"] for f in found}, {"streams", "call"})


if __name__ == "__main__":
    program.main()
