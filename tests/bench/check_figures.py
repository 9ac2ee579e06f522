# SPDX-License-Identifier: MIT
"""tools/bench --figures over the simulator, and what docs/ and the README have of docs/figures.json.

  check_figures.py BUILD
"""
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

import figures
import figures_plot
import suite

BUILD = sys.argv.pop()
ROOT = figures.ROOT
FOUND = json.loads((ROOT / "docs/figures.json").read_text())


def differ(found):
    """What the documentation has otherwise than these figures."""
    page = (ROOT / "docs/measurements.md").read_text()
    wrong = [name for name, drawn in figures_plot.pictures(found).items()
             if (ROOT / f"docs/pictures/{name}.svg").read_text() != drawn]
    return wrong + ([] if f"<!-- figures -->\n{figures_plot.tables(found)}<!-- end of figures -->" in page else ["tables"])


class Measured(unittest.TestCase):
    def test_each_way_once_a_round(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "json")
            subprocess.run([sys.executable, figures.__file__, "--sim", "--quick", "--rounds", "2", "--build", BUILD, "--json", path],
                           check=True, capture_output=True)
            found = json.loads(path.read_text())
        self.assertEqual({row["picture"] for row in found["rows"]}, {"threads", "pinned"})
        for row in found["rows"]:
            self.assertEqual(row["runs"], 2)
            self.assertTrue(0 < row["low"] <= row["median"] <= row["high"], row)
        for picture, ways in (("threads", 4), ("pinned", 2)):
            rows = figures_plot.of(found, picture)
            self.assertEqual(len({row["who"] for row in rows}), ways)
            self.assertEqual(len(rows), ways * len({row["at"] for row in rows}))

    def test_numbers_that_measure_nothing_are_refused(self):
        for words in (["--rounds", "0"], ["--minutes", "0"], ["--minutes", "nan"], ["--steps", "-1"]):
            done = subprocess.run([sys.executable, figures.__file__, "--sim", *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"invalid {'minutes' if words[0] == '--minutes' else 'count'} value: '{words[1]}'", done.stderr)

    def test_the_simulator_does_not_go_into_the_documentation(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "json")
            path.write_text(json.dumps({**FOUND, "machine": figures.runs.SIMULATED}))
            done = subprocess.run([sys.executable, figures.__file__, "--from", path, "--docs"], capture_output=True, text=True,
                                  check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("do not go into the documentation", done.stderr)


class Documentation(unittest.TestCase):
    def test_pictures_and_tables_are_of_the_figures(self):
        self.assertEqual(differ(FOUND), [])

    def test_another_figure_is_noticed(self):
        for picture in figures_plot.TITLES:
            other = copy.deepcopy(FOUND)
            row = figures_plot.of(other, picture)[0]
            row["median"] = row["high"] = 2 * row["high"]
            self.assertEqual(differ(other), [picture, "tables"])

    def test_a_picture_shows_each_row_and_its_range(self):
        for name, drawn in figures_plot.pictures(FOUND).items():
            xml.dom.minidom.parseString(drawn)
            rows = figures_plot.of(FOUND, name)
            legend = len({row["who"] for row in rows}) if name != "training" else 0
            self.assertEqual(drawn.count("<circle"), len(rows) + legend)
            self.assertEqual(drawn.count('stroke-width="4"'), len(rows))

    def test_the_page_says_what_was_measured(self):
        page = " ".join((ROOT / "docs/performance.md").read_text().split())

        def row(picture, who, at):
            return next(each for each in FOUND["rows"] if (each["picture"], each["who"], each["at"]) == (picture, who, at))

        ways = ("no cache, with custash", "PyTorch's own cache", "expandable segments", "no cache, without custash")
        steps = [row("training", who, "a step")["median"] for who in ways]
        self.assertIn("A step took {:.1f} ms under custash, {:.1f} with PyTorch's cache, {:.1f} with expandable segments, and {:.0f} with "
                      "no cache and no custash".format(*steps), page)
        memory = [row("training", who, "memory")["median"] / 1024 for who in ways[:3]]
        self.assertIn("the job held {:.1f} GiB in place of {:.1f}; expandable segments held {:.1f}.".format(*memory), page)
        held = {each["at"]: each for each in figures_plot.of(FOUND, "held") if each["who"] == "custash"}
        more = {at: [round(100 * each[key] - 100) for key in ("median", "low", "high")] for at, each in held.items()}
        streams, server, others = more.pop("streams"), more.pop("serving"), sorted(each[0] for each in more.values())
        self.assertIn(f"It is {others[0]} to {others[-1]} % for six of eight programs. A server held {server[0]} % more than it used, and a "
                      f"program with four streams {streams[0]} % ({streams[1]} to {streams[2]} in four runs).", page)

    def test_the_tables_of_the_suite_are_of_its_figures(self):
        page = (ROOT / "docs/measurements.md").read_text()
        found = json.loads((ROOT / "docs/suite.json").read_text())
        self.assertIn(f"<!-- suite -->\n{suite.tables(found)}\n<!-- end of suite -->", page)
        found["rows"][0]["held_mib"] = [2 * mib for mib in found["rows"][0]["held_mib"]]
        self.assertNotIn(suite.tables(found), page)

    def test_the_readme_says_what_was_measured(self):
        page = (ROOT / "README.md").read_text()

        def said(picture, who, at):
            return next(each for each in FOUND["rows"] if (each["picture"], each["who"], each["at"]) == (picture, who, at))

        frees, pairs = ([figures_plot.median(said(picture, f"{call}, {how} custash", at)) for how in ("without", "with")]
                        for picture, call, at in (("stall", "cudaFree", 1 << 20), ("threads", "cudaMalloc", 1)))
        self.assertIn("kernel runs | {} | {} |".format(*frees), page)
        self.assertIn("of 64 KiB | {} | {} |".format(*pairs), page)
        own, expandable, ours = [(said("training", who, "a step")["median"], said("training", who, "memory")["median"] / 1024)
                                 for who in ("PyTorch's own cache", "expandable segments", "no cache, with custash")]
        for theirs in (own, expandable):
            self.assertIn("memory | {:.1f} ms; {:.1f} GiB | {:.1f} ms; {:.1f} GiB |".format(*theirs, *ours), page)

    def test_the_readme_says_what_training_held(self):
        page = " ".join((ROOT / "README.md").read_text().split())
        lines = (ROOT / "docs/programs.md").read_text().splitlines()
        row = next(i for i, line in enumerate(lines) if line.startswith("| DDP, a step"))
        low, high = (round(100 * float(ratio) - 100) for ratio in re.findall(r"\(([\d.]+)\u2013([\d.]+)\)", lines[row + 1])[-1])
        own, segments, custash = re.findall(r"([\d.]+) GiB", lines[row + 2])
        self.assertIn(f"held {custash} GiB on each instead of {own}; its steps took {low} to {high} % longer. PyTorch's expandable segments "
                      f"hold {segments} and lose no time.", page)

    def test_the_readme_says_what_programs_gained(self):
        page = " ".join((ROOT / "README.md").read_text().split())
        table = (ROOT / "docs/programs.md").read_text()
        for sentence, row in (("Opacus is 2.96 times as fast", "Opacus: private training, no cache"), ("e3nn's product 2.52 times", "e3nn: tensor product, no cache"),
                              ("e3nn with PyTorch's cache 1.04 times", "e3nn: tensor product, PyTorch's own cache"),
                              ("took 0.137 ms instead", "an iteration beside other work")):
            self.assertIn(sentence, page)
            line = next(each for each in table.splitlines() if each.startswith(f"| {row}"))
            for number in re.findall(r"\d[\d.,]*\d", sentence.replace("e3nn", "")):
                self.assertIn(number, line)


unittest.main()
