# SPDX-License-Identifier: MIT
"""Runs the benchmarks on the simulator, briefly, and looks at what they write: every case, every peer, both ways.

  check.py BUILD
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

import overlap
import report
import runs
import shapes
import suite

BUILD = sys.argv.pop()


class Written(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "json")
            subprocess.run([sys.executable, runs.__file__, "--sim", "--quick", "--build", BUILD, "--json", path], check=True,
                           stdout=subprocess.DEVNULL)
            cls.rows = json.loads(path.read_text())["rows"]

    def test_every_case_bare_and_preloaded(self):
        beside = {(r["peer"], r["where"]) for r in self.rows if r["case"] == "processes"}
        self.assertEqual(len(beside), 2 * 5)
        self.assertEqual(len({r["where"] for r in self.rows if r["peer"] == "one_line_a_block"}), 3)
        for case in (c for c in runs.CASES if c not in ("processes", "overlap")):
            runtimes = ["shared", *(["double"] if case in runs.BOTH_RUNTIMES else [])]
            peers = ["cudaMallocHost"] if case == "pinned" else ["cudaMalloc", "cudaMallocAsync"]
            for runtime in runtimes:
                for peer in peers:
                    found = {how: {r["where"] for r in self.rows if (
                        r["case"], r["runtime"], r["peer"], r["how"]) == (case, runtime, peer, how)}
                        for how in ("bare", "custash")}
                    self.assertTrue(found["bare"], (case, runtime, peer))
                    self.assertEqual(found["bare"], found["custash"], (case, runtime, peer))

    def test_tails_are_sorted_and_beside_the_machines_own(self):
        tails = {}
        for row in (r for r in self.rows if r["case"] == "tails" and r["runtime"] == "shared"):
            threads, share = row["where"].split()
            tails.setdefault((row["peer"], row["how"], threads), {})[share] = row["ns"]
        self.assertEqual({key[0] for key in tails}, {"cudaMalloc", "cudaMallocAsync", "nothing", "event_record"})
        self.assertEqual({key[2] for key in tails}, {"threads:1", "threads:4", "threads:16"})
        for each in tails.values():
            self.assertEqual(list(each), ["p50", "p99", "p99.99", "p99.999"])
            self.assertEqual(list(each.values()), sorted(each.values()))


class Overlap(unittest.TestCase):
    """By the modelled clock, which does not vary."""

    @classmethod
    def setUpClass(cls):
        cls.rows = cls.measured("backing:driver")
        cls.mapped = cls.measured("backing:vmm")

    @staticmethod
    def measured(conf):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "json")
            done = subprocess.run([sys.executable, runs.__file__, "--sim", "--only", "overlap", "--build", BUILD, "--json",
                                   str(path), "--conf", conf], capture_output=True, text=True, check=False)
            if "without overlap" in done.stderr:
                raise unittest.SkipTest("overlap is not built: no nvcc")
            assert done.returncode == 0, done.stderr
            return json.loads(path.read_text())["overlap"]

    def row(self, pattern, streams, way, rows=None):
        return next(r for r in rows or self.rows if (r["pattern"], r["streams"], r["way"]) == (pattern, streams, way))

    def test_bare_nothing_overlaps(self):
        for pattern in overlap.PATTERNS:
            for streams in overlap.STREAMS:
                self.assertLess(self.row(pattern, streams, "without custash")["overlap"], 1)

    def test_even_kernels_overlap_as_far_as_the_memory_in_flight_allows(self):
        for streams in overlap.STREAMS:
            for budget in overlap.BUDGETS:
                row = self.row("even", streams, f"run_ahead:{budget}")
                # With no budget there is the floor: one block beside the one in use.
                self.assertGreater(row["overlap"], 0.93 * min(streams, 2 if budget == 0 else streams))

    def test_more_memory_never_costs_overlap(self):
        for pattern in overlap.PATTERNS:
            for streams in overlap.STREAMS:
                ways = [f"run_ahead:{b}" for b in overlap.BUDGETS]
                kept = [self.row(pattern, streams, way)["overlap"] for way in ways]
                self.assertEqual(kept, sorted(kept))
                kept = [self.row(pattern, streams, way, self.mapped)["overlap"] for way in ways]
                for less, more in zip(kept, kept[1:]):  # mapping takes modelled time
                    self.assertGreater(more, 0.98 * less)
        self.assertGreater(self.row("uneven", 4, "run_ahead:10")["overlap"], 2.3)
        self.assertGreater(self.row("uneven", 4, "run_ahead:50")["overlap"], 3.1)

    def test_what_is_held_stays_within_the_budget(self):
        for row in self.rows:
            percent = 0 if row["way"] == "without custash" else int(row["way"].split(":")[1])
            in_use, floor = 1024 + 32, 32
            self.assertLessEqual(row["held_mib"], in_use * (100 + percent) / 100 + floor)

    def test_table_and_picture(self):
        self.assertIn("| 4 streams, even | 0.9", overlap.table(self.rows))
        picture = overlap.plot(self.rows)
        xml.dom.minidom.parseString(picture)
        self.assertEqual(picture.count("<rect"), 1 + 4 * 16 * (1 + len(overlap.BUDGETS)))


class Report(unittest.TestCase):
    ROWS = [{"case": "size", "where": "512", "runtime": "shared", "how": how, "peer": "cudaMalloc", "ns": ns}
            for how, ns in (("bare", 2500.0), ("custash", 50.0))]

    def test_a_ratio_is_bare_over_custash(self):
        self.assertIn("| 512 | 2,500 | 50.0 | 50.0 × |", report.table(self.ROWS))

    def test_a_case_without_its_other_half_has_no_ratio(self):
        self.assertNotIn("ratio", report.table(self.ROWS[:1]))

    def test_a_page_keeps_what_stands_around_its_tables(self):
        page = "a\n<!-- x -->\nold\n<!-- end of x -->\nb\n"
        self.assertEqual(report.between(page, "x", "new\n"), "a\n<!-- x -->\nnew\n<!-- end of x -->\nb\n")
        with self.assertRaises(ValueError):
            report.between(page, "y", "new")


class Suite(unittest.TestCase):
    TRACES = ["frames", "one_survivor_a_cycle", "uneven_chunks"]

    def start(self, *words):
        return subprocess.run([sys.executable, suite.__file__, "--sim", "--rounds", "1", "--no-build", "--build", BUILD, *words],
                              capture_output=True, text=True, check=False)

    def test_every_trace_by_every_way(self):
        with tempfile.TemporaryDirectory() as folder:
            path, page = pathlib.Path(folder, "json"), pathlib.Path(folder, "page.md")
            done = self.start("--json", path, "--page", page, "--only", *self.TRACES)
            self.assertEqual(done.returncode, 0, done.stderr)
            found, text = json.loads(path.read_text()), page.read_text()
            self.assertEqual(self.start("--from", path, "--docs").returncode, 1)
        ways = [who for who, _, peer, _ in suite.WAYS if peer.startswith("cuda")]
        self.assertEqual({(row["trace"], row["who"]) for row in found["rows"]}, {(name, who) for name in self.TRACES for who in ways})
        # The patterns add up: 100 blocks of 2 MiB and two at one time, and two chunks.
        survivors = next(row for row in found["rows"] if row["trace"] == "one_survivor_a_cycle")
        self.assertEqual(survivors["in_use_mib"], [99 * 2 + 91 + 45.5 + 2])
        for row in found["rows"]:
            self.assertGreater(row["ns"][0], 0)
            self.assertTrue(1 <= row["held_mib"][0] / row["in_use_mib"][0] < 1.6 or row["who"] == "cudaMallocAsync", row)
        self.assertIn("## Method", text)
        self.assertIn(suite.tables(found), text)

    def test_a_trace_that_is_not_there(self):
        done = self.start("--only", "frames", "no_such")
        self.assertEqual((done.returncode, done.stderr.strip()), (1, "tools/bench: no such trace: no_such"))

    def test_the_patterns_are_the_same_each_time_and_free_all(self):
        with tempfile.TemporaryDirectory() as folder:
            first = {name: path.read_text() for name, path in shapes.write(pathlib.Path(folder)).items()}
            self.assertEqual(first, {name: path.read_text() for name, path in shapes.write(pathlib.Path(folder)).items()})
        for text in first.values():
            events = [line.split()[2] for line in text.splitlines()[1:]]
            self.assertEqual(events.count("a"), events.count("f"))


unittest.main()
