# SPDX-License-Identifier: MIT
"""What launches' parameters tell: whether a kernel reaches host memory, in every way to pass an address."""
import os

import program
from program import Case, run, said

WAITED = "0"
DID_NOT = "600"


class Parameters(Case):
    def ways(self, *arguments, preload=True, conf="", **more):
        """Each way that the program names, and what the stream said after a free of something else."""
        kernels = os.path.join(program.PATHS.programs, "libparameters_kernels.so")
        out = self.succeed("parameters", *arguments, preload=preload, CUSTASH_SIM_KERNELS=kernels,
                           CUSTASH_CONF=conf, **more)
        return [tuple(line.split()) for line in said(out).splitlines()]

    def test_bare_every_free_has_waited(self):
        for part in (["launches"], ["reload"], ["unreadable"], ["narrow"], ["graph", "add"]):
            for way, answer in self.ways(*part, preload=False):
                if way != "handle":
                    self.assertEqual((way, answer), (way, WAITED))

    def test_a_launch_counts_where_a_parameter_holds_an_address_of_pinned_memory(self):
        apart = {"device", "by_value_device", "large_device", "extra_device", "unregistered"}
        found = self.ways("launches")
        self.assertEqual(len(found), 15)
        for way, answer in found:
            self.assertEqual((way, answer), (way, DID_NOT if way in apart else WAITED))

    def test_without_a_cache_of_pinned_memory_too(self):
        found = dict(self.ways("launches", conf="pinned:false"))
        self.assertEqual((found["device"], found["inside"]), (DID_NOT, WAITED))

    def test_a_handle_that_is_given_again_has_its_own_layout(self):
        self.assertEqual(self.ways("reload"), [
            ("numbers", DID_NOT), ("handle", "again"), ("reloaded", WAITED),
            ("numbers", DID_NOT), ("handle", "again"), ("reloaded", WAITED)])

    def test_what_cannot_be_read_counts_as_every_kernel_does(self):
        self.assertEqual(self.ways("unreadable"), [("before", DID_NOT), ("after", WAITED)])

    def test_kernels_are_asked_for_as_kernels(self):
        kernels = os.path.join(program.PATHS.programs, "libparameters_kernels.so")
        done = run("parameters", "kernel", CUSTASH_SIM="report=stderr", CUSTASH_SIM_KERNELS=kernels)
        self.assertEqual(said(done.stdout), "kernel 0\n")
        self.assertIn("cuKernelGetParamInfo", done.stderr)
        self.assertNotIn("cuFuncGetParamInfo", done.stderr)

    def test_a_layout_is_read_once(self):
        kernels = os.path.join(program.PATHS.programs, "libparameters_kernels.so")
        done = run("parameters", "launches", CUSTASH_SIM="report=stderr", CUSTASH_SIM_KERNELS=kernels)
        calls = next(line for line in done.stderr.splitlines() if "cuFuncGetParamInfo" in line)
        # One call more than there are parameters: "one" twice (its library's, too), by_value, large.
        self.assertIn("9", calls.split(), calls)

    def test_pageable_memory_counts_where_kernels_reach_it(self):
        reached = ["heap", "large", "mapped", "stack", "by_value"]
        others = ["device", "pool", "numbers", "unmapped"]
        self.assertEqual(self.ways("pageable", preload=False), [(way, WAITED) for way in reached + others])
        self.assertEqual(self.ways("pageable"), [(way, DID_NOT) for way in reached + others])
        for sim in ("devices=1,pageable=1", "devices=2,pageable=1"):
            self.assertEqual(self.ways("pageable", CUSTASH_SIM=sim),
                             [(way, WAITED) for way in reached] + [(way, DID_NOT) for way in others])
        self.assertEqual(self.ways("pageable", CUSTASH_SIM="pageable=1,hmm=1"), [(way, DID_NOT) for way in reached + others])
        self.assertEqual(self.ways("pageable", CUSTASH_SIM="pageable=1", conf="free:never"),
                         [(way, DID_NOT) for way in reached + others])

    def test_a_kernel_that_may_be_handed_memory_begins_in_order(self):
        for how in ("device", "host"):
            self.assertEqual(self.ways("early", how, preload=False, CUSTASH_SIM="detector=1"), [("early", "yes")])
        self.assertEqual(self.ways("early", "device", CUSTASH_SIM="detector=1"), [("early", "yes")])
        self.assertEqual(self.ways("early", "host", CUSTASH_SIM="detector=1"), [("early", "no")])

    def test_free_parameters_counts_no_other_kernels(self):
        self.assertEqual(self.ways("narrow", conf="free:parameters"), [
            ("device", DID_NOT), ("managed", WAITED), ("unknown", WAITED), ("freed", DID_NOT),
            ("variable", WAITED)])
        self.assertEqual({answer for _, answer in self.ways("narrow")}, {WAITED})

    def test_work_before_the_first_shared_memory_counts_never(self):
        """And mapped memory counts for the kernels that it is given to, until the program asks for a pointer to it."""
        for how, others in (("mapped", DID_NOT), ("managed", WAITED), ("registered", WAITED), ("asked", WAITED)):
            ways = ("submitted_before", "not_given", "given", "given_before")
            self.assertEqual(self.ways("before", how, preload=False), [(way, WAITED) for way in ways])
            self.assertEqual(self.ways("before", how), list(zip(ways, (DID_NOT, others, WAITED, others))), how)
            self.assertEqual(self.ways("before", how, conf="free:parameters"),
                             list(zip(ways, (DID_NOT, DID_NOT, WAITED, DID_NOT))), how)
            self.assertEqual(self.ways("before", how, conf="free:strict"), [(way, WAITED) for way in ways])

    def test_kernels_in_graphs(self):
        for how in ("captured", "add", "node", "set", "set_exec"):
            self.assertEqual(self.ways("graph", how), [(how, DID_NOT), (how, WAITED)])

    def test_a_running_kernel_is_handed_memory_that_nobody_writes(self):
        for how in ("launch", "graph"):
            for conf in ("", "run_ahead:0", "run_ahead:0,backing:driver"):
                right = [("serves", "yes"), ("kept", "yes")]
                self.assertEqual(self.ways("mailbox", how, preload=False), right)
                self.assertEqual(self.ways("mailbox", how, conf=conf), right, (how, conf))


if __name__ == "__main__":
    program.main()
