# SPDX-License-Identifier: MIT
"""Handles that the program makes (cuMemCreate): what it sees of them is the same without and with custash, which counts them."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "process"))

import program  # noqa: E402
from program import Case  # noqa: E402

ONE = "devices=1,memory=256m"


class Handles(Case):
    def same(self, part, **more):
        said = self.same_as_bare("handles", *part.split(), **more)
        self.assertTrue(said.startswith('0 call("cuInit"'), said[:80])

    def test_a_released_handle_is_gone(self):
        self.same("released")
        self.same("released", CUSTASH_CONF="backing:driver")

    def test_a_mapped_handle(self):
        self.same("mapped")

    def test_a_handle_with_another_reference(self):
        self.same("referenced")

    def test_a_handle_that_was_exported(self):
        self.same("elsewhere")

    def test_memory_that_others_know_by_its_address(self):
        self.same("by_address")

    def test_a_handle_that_was_bound_to_multicast(self):
        self.same("multicast")

    def test_a_handle_that_was_mapped_into_an_array(self):
        self.same("sparse")

    def test_each_call_that_names_a_released_handle_fails(self):
        self.same("named")

    def test_a_handle_released_before_its_work_is_over(self):
        self.same("pending", CUSTASH_SIM="kernel_ns=50000000")

    def test_any_call_can_have_released_memory(self):
        for backing in ("backing:driver", "backing:vmm"):
            self.same("needed", CUSTASH_CONF=backing, CUSTASH_SIM=ONE)

    def test_handles_after_a_reset(self):
        self.same("reset")

    def test_random_programs(self):
        for seed in (1, 1001):
            self.same(f"random 20 {seed}")
        self.same("random 10 2001", CUSTASH_SIM=ONE)


program.main()
