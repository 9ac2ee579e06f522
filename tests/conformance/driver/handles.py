# SPDX-License-Identifier: MIT
"""Handles that the program makes (cuMemCreate), counted and with option handle_cache kept: what it sees is as bare."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "process"))

import program  # noqa: E402
from program import Case, notes  # noqa: E402

KEPT = "handle_cache:1G"
ONE = "devices=1,memory=256m"


class Handles(Case):
    def kept(self, part, conf=KEPT, **more):
        """{when: whether the memory was one that the program had let go of}; what it says is the same without custash."""
        return dict(notes(self.same_as_bare("handles", *part.split(), CUSTASH_CONF=conf, **more)))

    def test_a_handle_serves_again_and_is_none_meanwhile(self):
        found = {"same": "1", "other_properties": "0", "again": "1", "no_more": "0"}
        self.assertEqual(self.kept("kept"), found)
        self.assertEqual(self.kept("kept", KEPT + ",backing:driver"), found)

    def test_nothing_is_kept_unless_asked(self):
        for conf in ("", "handle_cache:0", "handle_cache:1M", KEPT + ",caching:never"):
            self.assertEqual(set(self.kept("kept", conf).values()), {"0"}, conf)

    def test_a_mapped_handle_is_not_kept(self):
        self.assertEqual(self.kept("mapped"), {"mapped": "0"})

    def test_a_handle_with_another_reference_is_not_kept(self):
        self.assertEqual(self.kept("referenced"), {"referenced": "0", "once_retained": "0"})

    def test_a_handle_that_was_exported_is_not_kept(self):
        self.assertEqual(self.kept("elsewhere"), {"exported": "0"})

    def test_memory_that_others_know_by_its_address_is_not_kept(self):
        self.assertEqual(self.kept("by_address"), {"dma_buf": "0", "attribute": "0"})

    def test_a_handle_that_was_bound_to_multicast_is_not_kept(self):
        found = self.same_as_bare("handles", "multicast", CUSTASH_CONF=KEPT)
        for way in ("bound", "unbound", "by_address", "refused"):  # twice: what it makes next was not bound, and is kept
            self.assertEqual([which for name, which in notes(found) if name == way], ["0", "1"], way)

    def test_a_handle_that_was_mapped_into_an_array_is_not_kept(self):
        self.assertEqual(self.kept("sparse"), {"in_an_array": "0", "once_in_an_array": "0", "second_in_a_list": "0"})

    def test_each_call_that_names_a_kept_handle_fails(self):
        self.assertEqual(self.kept("named"), {})
        self.assertEqual(self.kept("named", ""), {})

    def test_a_handle_waits_for_the_work_before_its_release(self):
        self.assertEqual(self.kept("pending", CUSTASH_SIM="kernel_ns=50000000"), {"pending": "0", "query": "600", "over": "1"})

    def test_whoever_needs_memory_has_what_is_kept(self):
        for backing in ("backing:driver", "backing:vmm"):
            self.assertEqual(self.kept("needed", f"{KEPT},{backing}", CUSTASH_SIM=ONE), {})

    def test_what_is_kept_is_given_back(self):
        self.assertEqual(self.kept("given_back"),
                         {"trimmed": "0", "emptied": "0", "idle_once": "1", "idle_twice": "0", "reset": "0"})

    def test_random_programs(self):
        for seed in (1, 1001):
            self.assertEqual(self.kept(f"random 20 {seed}"), {"at_the_end": "1"})
            self.assertEqual(self.kept(f"random 5 {seed}", ""), {"at_the_end": "0"})
        self.assertEqual(self.kept("random 10 2001", "handle_cache:6M", CUSTASH_SIM=ONE), {"at_the_end": "1"})


program.main()
