# SPDX-License-Identifier: MIT
"""What docs/semantics.md promises of entries that few programs call, and of the C API's limits."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "process"))

import program  # noqa: E402
from program import Case, notes, run, said  # noqa: E402

MOST = 160 << 20


class Entries(Case):
    def test_the_cache_makes_room_for_calls_that_allocate_for_themselves(self):
        """On a device where the request and what custash keeps do not fit together."""
        out = self.same_as_bare("entries", "relief", CUSTASH_SIM="devices=1,memory=256m", CUSTASH_CONF="pools:default")
        kinds = {kind: (int(before), int(after)) for kind, before, after in notes(out)}
        self.assertEqual(sorted(kinds), ["create", "managed", "pitch", "pool"])
        for kind, (before, after) in kinds.items():
            self.assertGreaterEqual(before, MOST, kind)
            self.assertLess(after, MOST, kind)
        self.assertNotRegex(said(out), r"(?m)^[1-9]")

    def test_pitched_memory_has_the_drivers_pitch(self):
        """Whatever that is: here also one that no rounding to 512 gives, and a last row that is cut."""
        for sim in ("", "pitch=512", "pitch=768", "pitch=2k", "whole_last_row=0", "pitch=768,whole_last_row=0"):
            for backing in ("backing:driver", "backing:vmm"):
                out = self.same_as_bare("entries", "pitched_rows", CUSTASH_SIM=sim, CUSTASH_CONF=backing)
                self.assertEqual(notes(out), [["served", "0"], ["served", "1"], ["served", "1"]] * 4, (sim, backing))

    def test_pitched_memory_without_a_cache_is_the_drivers(self):
        out = self.same_as_bare("entries", "pitched_rows", CUSTASH_CONF="caching:never")
        self.assertEqual(notes(out), [["served", "0"]] * 12)

    def test_pitched_memory_on_a_full_device(self):
        for backing in ("backing:driver", "backing:vmm"):
            out = self.same_as_bare("entries", "pitched_full", CUSTASH_SIM="devices=1,memory=256m",
                                    CUSTASH_CONF=backing)
            self.assertEqual([note for note in notes(out) if note[0] == "served"], [["served", "0"], ["served", "1"]])

    def test_a_device_may_be_given_another_pool(self):
        for conf, own in (("pools:auto", "1"), ("pools:default", "0")):
            out = self.same_as_bare("entries", "set_pool", CUSTASH_CONF=conf)
            self.assertEqual(notes(out), [["default", "1"], ["own", own], ["again", "1"]])

    def served(self, what, **more):
        """Of each kind of pool whether custash serves it; the same for small blocks and large ones."""
        kinds = {}
        for kind, is_served in notes(self.same_as_bare("entries", what, **more)):
            self.assertEqual(kinds.setdefault(kind, is_served), is_served, kind)
        return {kind for kind, is_served in kinds.items() if is_served == "1"}, set(kinds)

    def test_pools_of_the_programs_own_are_served_where_what_is_asked_of_them_is_kept(self):
        for backing in ("backing:driver", "backing:vmm"):
            served, kinds = self.served("own_pools", CUSTASH_CONF=backing)
            self.assertEqual(served, {"plain", "asked", "bounded", "decompressed", "itself", "current"}, backing)
            self.assertEqual(kinds - served, {"policy", "exportable", "unknown", "elsewhere", "others", "context"})

    def test_memory_for_a_decompression_engine_is_the_drivers(self):
        served = self.served("own_pools", CUSTASH_SIM="devices=2,decompress=1")[0]
        self.assertEqual(served, {"plain", "asked", "bounded", "itself", "current"})

    def test_a_default_pool_is_served_until_a_policy_changes(self):
        self.assertEqual(self.served("reuse_policies"), ({"allowed"}, {"allowed", "forbidden"}))

    def test_pools_of_the_programs_own_are_the_drivers_where_asked(self):
        for conf in ("pools:default", "pools:driver", "caching:never"):
            self.assertEqual(self.served("own_pools", CUSTASH_CONF=conf)[0], set(), conf)

    def test_the_option_pools_says_who_serves_the_default_pool(self):
        for conf, served in (("pools:auto", {"default"}), ("pools:default", {"default"}), ("pools:driver", set())):
            self.assertEqual(self.served("default_pool", CUSTASH_CONF=conf)[0], served, conf)

    def test_a_call_may_name_the_default_pool(self):
        for conf, served in (("", {"here"}), ("pools:default", {"here"}), ("pools:driver", set())):
            self.assertEqual(self.served("default_pool_named", CUSTASH_CONF=conf, CUSTASH_SIM="devices=2"),
                             (served, {"here", "elsewhere"}), conf)

    def test_more_pools_than_can_be_counted(self):
        served, kinds = self.served("many_pools")
        self.assertEqual((served, kinds - served), ({"first", "again"}, {"last"}))

    def share(self, what, conf=""):
        """What the summary says of calls that the driver served; empty where it says nothing."""
        done = run("entries", what, CUSTASH_CONF=",".join(filter(None, ["summary:true", conf])))
        bare = run("entries", what, preload=False)
        self.assertEqual((done.returncode, said(done.stdout)), (0, said(bare.stdout)))
        found = re.findall(r"^custash: served (.*)$", done.stderr, re.M)
        self.assertLessEqual(len(found), 1)
        return found[0] if found else ""

    def test_the_summary_says_what_the_driver_served(self):
        self.assertEqual(self.share("default_pool"), "")
        self.assertEqual(self.share("default_pool", "pools:driver"),
                         "0 of 1 allocations (0.0 %) and 0.0 % of their bytes; by the driver: stream-ordered 1 (64.0 MiB)")
        self.assertEqual(self.share("beside_a_capture", "pools:driver"),
                         "0 of 1 allocations (0.0 %) and 0.0 % of their bytes; by the driver: stream-ordered 1 (64.0 MiB)")
        self.assertEqual(self.share("handles"), "0 of 0 allocations (100.0 %) and 100.0 % of their bytes; by the driver: "
                                                "handles 4 (8.0 MiB, 2 live: 4.0 MiB)")
        self.assertRegex(self.share("own_pools", "pools:default"), r"^0 of 26 allocations .*: stream-ordered 1 \(64\.0 MiB\), from own pools 25 \(")
        self.assertRegex(self.share("own_pools"), r"^14 of 26 allocations .*: from own pools 12 ")
        self.assertRegex(self.share("pitched_rows"), r"^8 of 12 allocations \(66\.7 %\) .*: pitched 4 \(")

    def test_a_default_pool_whose_access_is_set_is_the_drivers(self):
        out = self.same_as_bare("entries", "pool_access")
        self.assertEqual(notes(out), [["before", "1"], ["after", "0"]])

    def test_a_default_pool_is_served_whatever_becomes_of_another_device_s(self):
        served, kinds = self.served("pool_elsewhere", CUSTASH_SIM="devices=2")
        self.assertEqual((served, kinds - served), ({"elsewhere"}, {"policy", "access"}))

    def test_a_default_pool_that_is_trimmed_keeps_no_more_than_it_may(self):
        for backing in ("backing:driver", "backing:vmm"):
            out = self.same_as_bare("entries", "trimmed_pool", CUSTASH_CONF=backing)
            self.assertEqual(notes(out), [["much", "128"], ["none", "64"]], backing)

    def test_the_primary_context_ends_by_either_form(self):
        for backing in ("backing:driver", "backing:vmm"):
            self.same_as_bare("entries", "primary_context", CUSTASH_CONF=backing)

    def test_fills_and_copies_do_what_they_do_bare(self):
        for backing in ("backing:driver", "backing:vmm"):
            out = self.same_as_bare("work", CUSTASH_CONF=backing)
            self.assertNotRegex(out, r'(?m)^[1-9]\d* call')
            self.assertIn("9 *last\n", out)
            self.assertEqual(notes(out), [["settled", "600", "0"]])
            self.assertEqual(len(set(re.findall(r": (\d+)\n", out))), 6)


class Random(Case):
    """Plain and pitched memory and pools of the program's own, in random order."""

    def served(self, seed, conf, **more):
        """How many of the allocations custash served, program by program; the contents are right and all is as bare."""
        out = self.same_as_bare("random_calls", "4", str(seed), CUSTASH_CONF=conf, **more)
        self.assertEqual(len(re.findall(r"^sum \d+ wrong 0$", out, re.M)), 4)
        return [int(count) for _, count in notes(out)]

    def test_what_pools_and_pitches_say_and_hold(self):
        for seed, sim, backing in ((1, "", "backing:vmm"), (101, "pitch=768", "backing:driver"),
                                   (201, "pitch=768,whole_last_row=0", "backing:vmm")):
            few = self.served(seed, f"{backing},pools:default", CUSTASH_SIM=sim)
            many = self.served(seed, backing, CUSTASH_SIM=sim)
            self.assertTrue(all(0 < one < more for one, more in zip(few, many)), (seed, backing, few, many))


class Holes(Case):
    """Kernels take 50 ms, and only a call that waits for one sees its end."""
    SIM = "kernel_ns=50000000"

    def test_memory_that_leaves_the_streams_sight_is_quiet(self):
        for backing in ("backing:driver", "backing:vmm"):
            out = self.same_as_bare("holes", "sight", CUSTASH_SIM=self.SIM, CUSTASH_CONF=backing)
            self.assertEqual(notes(out), [["at_free", "600"]] * 3, backing)

    def test_memory_of_a_context_with_sync_memops_is_quiet(self):
        for backing in ("backing:driver", "backing:vmm"):
            for how in ("set", "primary", "created", "earlier"):
                out = self.same_as_bare("holes", "flags", how, CUSTASH_SIM=self.SIM, CUSTASH_CONF=backing)
                late = [["at_free", "600"]] if how in ("set", "primary") else []
                self.assertEqual(notes(out), late, (backing, how))

    def test_memory_can_be_registered_with_a_card(self):
        for backing in ("backing:whole", "backing:driver"):
            self.same_as_bare("holes", "ranges", CUSTASH_SIM="memory=80g", CUSTASH_CONF=backing)

    def test_a_programmatic_launch_begins_behind_the_last_owner(self):
        kernels = os.path.join(program.PATHS.programs, "libhole_kernels.so")
        self.same_as_bare("holes", "early", CUSTASH_SIM=self.SIM + ",detector=1", CUSTASH_SIM_KERNELS=kernels)

    def check_kept(self, part, expected):
        """By way: whether the memory was had again while a graph lived that may use it, and afterwards."""
        kernels = os.path.join(program.PATHS.programs, "libhole_kernels.so")
        for backing in ("backing:driver", "backing:vmm"):
            told = notes(self.same_as_bare("graph_memory", part, CUSTASH_SIM_KERNELS=kernels, CUSTASH_CONF=backing))
            self.assertEqual({way: tuple(more) for way, *more in told if way != "free"}, expected, backing)
            self.assertEqual({tuple(more) for way, *more in told if way == "free"}, {("0",)}, backing)

    def test_a_captured_call_keeps_the_memory_that_it_may_name(self):
        had, kept = ("1", "1"), ("0", "1")
        self.check_kept("calls", {
            "beside": had, "fill": kept, "copy": kept, "unified": kept, "table": kept, "kernel": kept,
            "other_kernel": had, "unread": kept, "callback": kept})

    def test_what_is_made_of_a_graph_keeps_its_memory_too(self):
        had, kept = ("1", "1"), ("0", "1")
        self.check_kept("graphs", {
            "beside_others": ("1", "0"), "executable": kept, "clone": kept, "parent": kept, "new_child": kept,
            "updated": had, "update": kept})

    def test_stream_ordered_memory_is_told_as_the_default_pools(self):
        for backing in ("backing:driver", "backing:vmm"):
            self.same_as_bare("holes", "answers", CUSTASH_CONF=backing)

    def test_a_free_waits_for_kernels_that_may_write_what_the_host_reads(self):
        for door, at_free in (("attribute", "0"), ("attributes", "0"), ("none", "600")):
            out = self.same_as_bare("holes", "host", door, CUSTASH_SIM=self.SIM)
            self.assertEqual(notes(out), [["at_free", at_free]], door)

    def test_a_free_waits_for_copies_out_of_pinned_memory_where_asked(self):
        for source in ("pinned", "unified", "plane", "pageable"):
            for mode, waits in (("auto", False), ("copies", source != "pageable"), ("strict", True), ("never", False)):
                out = self.same_as_bare("holes", "refill", source, CUSTASH_SIM=self.SIM, CUSTASH_CONF=f"free:{mode}")
                self.assertEqual(notes(out), [["at_free", "0" if waits else "600"]], (source, mode))


class Controls(Case):
    def test_limits_trimming_callbacks_and_pinned_memory(self):
        for conf in ("backing:driver", "backing:vmm"):
            self.assertEqual(self.succeed("controls", CUSTASH_CONF=conf), "all right\n")


program.main()
