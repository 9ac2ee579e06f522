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

import report
import runs

BUILD = sys.argv.pop()


class Written(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            names = {each: pathlib.Path(folder, each) for each in ("json", "table", "plot")}
            subprocess.run([sys.executable, runs.__file__, "--sim", "--quick", "--build", BUILD,
                            *(word for k, v in names.items() for word in (f"--{k}", str(v)))],
                           check=True, stdout=subprocess.DEVNULL)
            cls.rows = json.loads(names["json"].read_text())["rows"]
            cls.table, cls.plot = names["table"].read_text(), names["plot"].read_text()

    def test_every_case_bare_and_preloaded(self):
        for case in runs.CASES:
            runtimes = ["shared", *(["double"] if case in runs.BOTH_RUNTIMES else [])]
            peers = ["cudaMallocHost"] if case == "pinned" else ["cudaMalloc", "cudaMallocAsync"]
            for runtime in runtimes:
                for peer in peers:
                    found = {how: {r["where"] for r in self.rows if (
                        r["case"], r["runtime"], r["peer"], r["how"]) == (case, runtime, peer, how)}
                        for how in ("bare", "custash")}
                    self.assertTrue(found["bare"], (case, runtime, peer))
                    self.assertEqual(found["bare"], found["custash"], (case, runtime, peer))

    def test_the_plot_is_xml(self):
        xml.dom.minidom.parseString(self.plot)


class Report(unittest.TestCase):
    ROWS = [{"case": "size", "where": "512", "runtime": "shared", "how": how, "peer": "cudaMalloc", "ns": ns}
            for how, ns in (("bare", 2500.0), ("custash", 50.0))]

    def test_a_ratio_is_bare_over_custash(self):
        self.assertIn("| 512 | 2,500 | 50.0 | 50.0 × |", report.table(self.ROWS))

    def test_a_case_without_its_other_half_has_no_ratio(self):
        self.assertNotIn("ratio", report.table(self.ROWS[:1]))

    def test_a_plot_of_one_size(self):
        xml.dom.minidom.parseString(report.plot(self.ROWS))


unittest.main()
