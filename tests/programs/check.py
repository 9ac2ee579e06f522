# SPDX-License-Identifier: MIT
"""The runner of tools/bench --programs: descriptions, fetching, the table; whole runs with a stand-in for the command.

  check.py BUILD
"""
import contextlib
import dataclasses
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock
import xml.dom.minidom

import compare
import data
import description
import fetch
import table
import wall
import wheels

BUILD = pathlib.Path(sys.argv.pop()).resolve()
CONTENT = b"print('hello')\n"
# Prints what custash compare would of a program that is twice as fast with custash.
STAND_IN = """#!/usr/bin/env python3
import json, os, sys
words = sys.argv[sys.argv.index("--") + 1:]
options = sys.argv[1:sys.argv.index("--")]
with open(os.environ["NOTES"], "a") as notes:
    print(json.dumps([options, words, os.environ.get("WAY")]), file=notes)
side = lambda wall: {"wall_s": wall, "metric": 10 * wall}
same = "differs" not in words
row = {"with_custash": "lower", "p": 0.01}
print(json.dumps({"format": "custash comparison 1", "interrupted": False, "failure": "it crashed" if "crashes" in words else None,
  "rounds": [{"without": side(2 + i), "with": side((2 + i) / 2)} for i in range(4)],
  "results": [{"name": "wall time", **row}, {"name": "metric", **row}], "served": {"calls_avoided": 7, "processes": int("idle" not in words),
             "allocations": 3, "allocations_servable": 4, "requested_bytes": 1, "requested_bytes_servable": 2, "passed": [{"kind": "arrays", "allocations": 5}]}, "same": same,
  "output_differs": None if same else {"line": 1, "before": "a", "after": "b"}, "verdicts": [], "warnings": []}))
if "crashes" in words:
  print("round 1", "custash: it crashed", "The program wrote last:", "  oh no", sep="\\n", file=sys.stderr)
sys.exit(0 if same else 1)
"""


def source_archive(folder, files):
    path = pathlib.Path(folder, "thing-1.0.tar.gz")
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo("thing-1.0/" + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def sha(content):
    return hashlib.sha256(content).hexdigest()


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, **more):
        given = {"key": "thing", "name": "A thing", "why": "it is small", "licence": "MIT", "package": "thing", "version": "1.0",
                 "archive": "0" * 64, "files": {"examples/a.py": sha(CONTENT)}, "start": ["{python}", "{files}/examples/a.py"],
                 "ways": [description.Way("", {})], **more}
        return description.Program(**given)


class Descriptions(Scratch):
    def refused(self, why, text):
        path = self.folder / "bad.toml"
        path.write_text(text)
        with self.assertRaisesRegex(description.Mistake, f"bad.toml: .*{why}"):
            description.read(path)

    def test_each_of_the_wall_can_be_read(self):
        programs = description.read_all()
        self.assertGreaterEqual(len([each for each in programs if not each.ours]), 8)
        self.assertTrue(any(each.ours for each in programs))
        for each in programs:
            self.assertEqual(len({way.name for way in each.ways}), len(each.ways), each.key)

    def test_mistakes_are_refused(self):
        head = 'name = "n"\nwhy = "w"\n'
        whole = f'{head}package = "p"\nversion = "1"\nlicence = "MIT"\narchive = "{"0" * 64}"\n'
        self.refused("or it is ours", f'{head}start = ["a"]\n')
        self.refused("or it is ours", f'{whole}ours = true\nstart = ["a"]\n[files]\n"a.py" = "{"1" * 64}"\n')
        self.refused("64 digits", f'{whole}start = ["a"]\n[files]\n"a.py" = "12"\n')
        self.refused("leads out", f'{whole}start = ["a"]\n[files]\n"../a.py" = "{"1" * 64}"\n')
        self.refused("unexpected keyword argument 'colour'", f'{head}ours = true\nstart = ["a"]\ncolour = 1\n')
        self.refused("missing 1 required", f"{head}ours = true\n")
        self.refused("stands for nothing", f'{head}ours = true\nstart = ["{{home}}/a"]\n')
        self.refused("names no release", f'{head}ours = true\nstart = ["a"]\n[wheels]\nthing = "{"1" * 64}"\n')
        self.refused("no data has the form", f'{head}ours = true\nstart = ["a"]\n[data]\nform = "cube"\n')
        self.refused("unterminated|missing|unbalanced", f'{head}ours = true\nstart = ["a"]\nmetric = "(a"\n')
        self.refused("", "name = \n")


class Fetching(Scratch):
    def fetch(self, inside, **more):
        archive = source_archive(self.folder, inside)
        program = self.program(**{"archive": sha(archive.read_bytes()), **more})
        self.fetch_again(program, archive)
        return program

    def fetch_again(self, program, archive=None):
        files = str(self.folder / "thing/files")
        with contextlib.redirect_stdout(io.StringIO()):
            fetch.fetch_program(program, self.folder / "thing", lambda _, word: word.replace("{files}", files), lambda *_: archive)

    def found(self):
        return sorted(str(each.relative_to(self.folder / "thing/files")) for each in (self.folder / "thing").rglob("*") if each.is_file())

    def refused(self, why, inside, **more):
        with self.assertRaisesRegex(description.Mistake, why):
            self.fetch(inside, **more)
        self.assertFalse((self.folder / "thing").exists())

    def test_named_files_alone_are_taken(self):
        program = self.fetch({"examples/a.py": CONTENT, "b.py": b"other"})
        self.assertEqual(self.found(), ["examples/a.py"])
        self.assertEqual((self.folder / "thing/files/examples/a.py").read_bytes(), CONTENT)
        self.assertTrue(fetch.is_there(program, self.folder / "thing/files"))

    def test_what_is_there_is_not_fetched_again(self):
        program = self.fetch({"examples/a.py": CONTENT})
        self.fetch_again(program)
        (self.folder / "thing/files/examples/a.py").write_bytes(b"changed")
        self.assertFalse(fetch.is_there(program, self.folder / "thing/files"))

    def test_another_archive_is_refused(self):
        self.refused("thing-1.0.tar.gz: its SHA-256 is another", {"examples/a.py": CONTENT}, archive="1" * 64)

    def test_another_file_is_refused(self):
        self.refused("the SHA-256 of examples/a.py is another", {"examples/a.py": b"print('evil')\n"})

    def test_a_missing_file_is_told(self):
        self.refused("thing==1.0 has no examples/a.py", {"b.py": CONTENT})

    def test_a_whole_archive(self):
        program = self.fetch({"a.py": CONTENT, "b/c.py": b"other"}, whole=True, files={})
        self.assertEqual(self.found(), [".archive", "a.py", "b/c.py"])
        self.assertTrue(fetch.is_there(program, self.folder / "thing/files"))
        self.assertFalse(fetch.is_there(dataclasses.replace(program, archive="2" * 64), self.folder / "thing/files"))

    def test_files_that_do_not_belong_there_are_noticed(self):
        """One beside a program's file could stand in for a module of Python."""
        files = self.folder / "thing/files"
        for more in ({"files": {"examples/a.py": sha(CONTENT)}}, {"whole": True, "files": {}}):
            program = self.fetch({"examples/a.py": CONTENT}, **more)
            self.assertTrue(fetch.is_there(program, files))
            (files / "examples/json.py").write_text("")
            self.assertFalse(fetch.is_there(program, files))
            (files / "examples/json.py").unlink()
            (files / "examples/a.py").write_text("other")
            self.assertFalse(fetch.is_there(program, files))
            (files / "examples/a.py").unlink()
            (files / "examples/a.py").symlink_to("/etc/passwd")
            self.assertFalse(fetch.is_there(program, files))
            program = self.fetch({"examples/a.py": CONTENT}, **more)  # an archive of another second has another SHA-256
            self.assertTrue(fetch.is_there(program, files))

    def test_wheels_are_those_that_were_checked(self):
        archive = self.folder / "thing-1.0-py3-none-any.whl"
        archive.write_bytes(b"a wheel")
        folder = self.folder / "wheels"
        wheels.fetch_wheels({"thing==1.0": sha(b"a wheel")}, folder, "3.12", lambda *_: archive)
        (folder / "json-9-py3-none-any.whl").write_bytes(b"")
        program = self.program(wheels={"thing==1.0": sha(b"a wheel")})
        self.assertEqual(wheels.named_wheels([program], folder), [str(folder / archive.name)])
        (folder / archive.name).write_bytes(b"another")
        with self.assertRaisesRegex(description.Mistake, "it is another file"):
            wheels.named_wheels([program], folder)

    def test_a_whole_archive_stays_in_its_folder(self):
        self.refused("leads out of its folder", {"../../a.py": CONTENT}, whole=True, files={})

    def make(self, script, **more):
        return self.fetch({"a.py": CONTENT, "b/c.py": b"other"}, whole=True, files={}, make=[["sh", "-c", script, "{files}"]], **more)

    def test_what_is_made_is_kept_alone(self):
        program = self.make('cp "$0/a.py" "$0/b/made"', keep=["b/made"])
        self.assertEqual(self.found(), [".archive", "b/made"])
        self.assertTrue(fetch.is_there(program, self.folder / "thing/files"))

    def test_making_fails_aloud_and_is_tried_again(self):
        with self.assertRaisesRegex(description.Mistake, "thing: sh failed: no compiler"):
            self.make('touch "$0/left"; echo no compiler >&2; exit 3')
        self.make("true")
        self.assertEqual(self.found(), [".archive", "a.py", "b/c.py"])

    def test_a_seed_makes_the_same_data(self):
        for form, expected in (("matrix", {"rows": 9, "columns": 7, "entries": 20}), ("table", {"rows": 5, "columns": 3})):
            for name in ("a", "b", "c"):
                data.make(self.folder, name + form, form, seed=2 if name == "c" else 1, **expected)
            first, again, other = ((self.folder / (name + form)).read_text() for name in "abc")
            self.assertEqual(first, again)
            self.assertNotEqual(first, other)


class Table(unittest.TestCase):
    ROW = {"key": "thing", "name": "A <thing>", "way": "own cache", "release": "thing==1.0", "unit": "ms", "higher": False,
           "without": [4.0, 2.0, 4.0], "with": [2.0, 1.0, 4.0], "with_custash": "lower", "same": True, "memory": [3 << 20, 1 << 20]}

    def test_ratios(self):
        self.assertEqual(table.ratios(self.ROW), [2, 2, 1])
        self.assertEqual(table.ratios({**self.ROW, "higher": True}), [0.5, 0.5, 1])
        self.assertEqual(table.ratios_to_itself(self.ROW), [2, 0.5])

    def test_a_line(self):
        self.assertEqual(table.line(self.ROW), [
            "A <thing>, own cache", "thing==1.0", "4.00 ms", "2.00 ms", "2.00 × (1.00–2.00)", "0.500–2.00", "better", "3 / 1",
            "less", "–", "the same"])

    def test_memory_is_judged_apart(self):
        self.assertEqual([table.memory_verdict({**self.ROW, "memory": [100, each]}) for each in (98, 100, 102)], ["less", "the same", "more"])
        self.assertEqual(table.memory_verdict({**self.ROW, "memory": None}), "")

    def test_the_largest_gain_is_first(self):
        rows = [self.ROW, {**self.ROW, "why_not": "no time"}, {**self.ROW, "name": "Faster", "with": [0.1, 0.1, 0.1]}]
        self.assertEqual([(row["name"], "why_not" in row) for row in table.ordered(rows)],
                         [("Faster", False), ("A <thing>", False), ("A <thing>", True)])

    def test_what_was_served(self):
        self.assertEqual(table.served({**self.ROW, "share": [1, 1], "passed": []}), "100 % / 100 %")
        self.assertEqual(table.served({**self.ROW, "share": [1, 0.9987], "passed": [{"kind": "pitched", "allocations": 4}]}), "100 % / 99.9 %")
        self.assertEqual(table.served({**self.ROW, "share": None, "passed": [{"kind": "handles", "allocations": 1234}]}), "–; handles 1,234")

    def test_losses_and_differing_output_are_told(self):
        self.assertEqual(table.line({**self.ROW, "with_custash": "higher"})[6], "worse")
        self.assertEqual(table.line({**self.ROW, "with_custash": "higher", "higher": True})[6], "better")
        self.assertEqual(table.line({**self.ROW, "with_custash": "noise"})[6], "within the noise")
        self.assertEqual(table.line({**self.ROW, "with_custash": "too few rounds"})[6], "too few rounds")
        self.assertEqual(table.line({**self.ROW, "same": False})[-1], "**differs**")
        self.assertIn("output differs", table.picture([{**self.ROW, "same": False}]))

    def test_a_row_without_figures(self):
        self.assertIn("failed: it crashed", table.table([{**self.ROW, "why_not": "failed: it crashed"}]))

    def test_the_picture_is_xml(self):
        drawn = table.picture([self.ROW, {**self.ROW, "with_custash": "higher", "with": [9.0, 9.0, 9.0]}])
        xml.dom.minidom.parseString(drawn)
        self.assertIn(table.GREEN, drawn)
        self.assertIn(table.RED, drawn)


class Runs(Scratch):
    def setUp(self):
        super().setUp()
        for name in ("tools/custash", "interpose/libcustash.so"):
            path = self.folder / "build" / name
            path.parent.mkdir(parents=True)
            path.write_text(STAND_IN)
            path.chmod(0o755)
        os.environ["NOTES"] = str(self.folder / "notes")
        self.here = self.folder / "a program"
        self.here.write_text("")
        self.here.chmod(0o755)

    def wall(self, start, options=(), **more):
        """The exit status, the rows, what was printed, and how the command was called."""
        program = description.Program(**{"key": "thing", "name": "A thing", "why": "w", "ours": True, "start": start,
                                         "ways": [description.Way("", {})], **more})
        args = wall.arguments(["--build", str(self.folder / "build"), "--folder", str(self.folder / "programs"), "--json",
                               str(self.folder / "json"), "--rounds", "4", *options])[1]
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = wall.write(args, wall.Wall(args).run([program]), "here")
        notes = pathlib.Path(os.environ["NOTES"])
        calls = [json.loads(each) for each in notes.read_text().splitlines()] if notes.exists() else []
        return code, json.loads((self.folder / "json").read_text())["rows"], out.getvalue(), calls

    def test_each_way_is_compared(self):
        ways = [description.Way("plain", {}), description.Way("special", {"WAY": "{data}"}, {"NO_CACHE": "1"})]
        code, rows, said, calls = self.wall([str(self.here), "{data}/x"], ways=ways, metric="t=([0-9]+)", unit="ms", ignore=["a", "b"],
                                            data={"file": "x", "form": "table", "rows": 2, "columns": 3, "seed": 1})
        self.assertEqual((code, len(rows)), (0, 2))
        self.assertEqual(rows[0]["without"], [20, 30, 40, 50])
        self.assertIn("| 75.0 % / 50.0 %; arrays 5 | the same |", said)
        self.assertIn("| A thing, special | ours | 35.0 ms | 17.5 ms | 2.00 × (2.00–2.00) | 0.667–0.800 | better |", said)
        folder = self.folder / "programs/thing/data"
        self.assertEqual([call[2] for call in calls], [None, str(folder)])
        self.assertTrue((folder / "x").exists())
        self.assertNotIn("--with-env", calls[0][0])
        self.assertEqual(calls[1][0][calls[1][0].index("--with-env") + 1], "NO_CACHE=1")
        options, words, _ = calls[0]
        self.assertEqual(words, [str(self.here), f"{folder}/x"])
        self.assertEqual(options[:2], ["compare", "--json"])
        for pair in (["--runs", "4"], ["--warmup", "1"], ["--metric", "t=([0-9]+)"], ["--ignore", "a"], ["--ignore", "b"]):
            self.assertEqual(options[options.index(pair[0], options.index(pair[1]) - 1):][:2], pair)

    def test_one_way_and_its_picture(self):
        ways = [description.Way("plain", {}), description.Way("no cache, special", {})]
        _, rows, _, calls = self.wall([str(self.here)], ways=ways,
                                      options=["--way", "no cache, special", "--pictures", str(self.folder)])
        self.assertEqual([row["way"] for row in rows], ["no cache, special"])
        self.assertEqual(calls[0][0][calls[0][0].index("--export") + 1], str(self.folder / "thing-no_cache_special.svg"))

    def test_differing_output_fails(self):
        code, rows, said, _ = self.wall([str(self.here), "differs"])
        self.assertEqual((code, rows[0]["same"]), (1, False))
        self.assertIn("**differs**", said)

    def test_a_program_that_fails_is_told(self):
        code, rows, said, _ = self.wall([str(self.here), "crashes"])
        why = "failed: it crashed The program wrote last: oh no"
        self.assertEqual((code, rows[0]["why_not"]), (1, why))
        self.assertIn(why, said)

    def test_a_program_that_falls_back_to_the_processor_has_no_figures(self):
        code, rows, _, _ = self.wall([str(self.here), "idle"])
        self.assertEqual((code, rows[0]["why_not"]), (1, "failed: it did not use CUDA"))

    def test_a_figure_without_a_ratio_costs_its_row_alone(self):
        for wall_time in ("0", "-1", "float('inf')"):
            path = self.folder / "build/tools/custash"
            path.write_text(STAND_IN.replace('{"wall_s": wall,', '{"wall_s": ' + wall_time + ","))
            code, rows, said, _ = self.wall([str(self.here)])
            self.assertEqual(code, 1)
            self.assertRegex(rows[0]["why_not"], "failed: .*no ratio can be made of it|failed: .*JSON")
            self.assertIn("failed", said)

    def test_a_fault_of_one_program_costs_its_row_alone(self):
        code, rows, _, _ = self.wall([str(self.here)], data={"file": "x", "form": "cube"})
        self.assertEqual((code, len(rows)), (1, 1))
        self.assertIn("failed: KeyError", rows[0]["why_not"])

    def test_a_command_that_knows_no_compare_is_told(self):
        (self.folder / "build/tools/custash").write_text("#!/bin/sh\necho unknown subcommand >&2\nexit 125\n")
        code, rows, _, _ = self.wall([str(self.here)])
        self.assertEqual((code, rows[0]["why_not"]), (1, "failed: custash compare: exit 125: unknown subcommand"))

    def test_what_is_missing_is_left_out_and_named(self):
        for why, more in (("no such_module", {"modules": ["json", "such_module"]}),
                          ("there is no", {"start": ["/no/such/program"]})):
            code, rows, said, calls = self.wall(**{"start": [str(self.here)], **more})
            self.assertEqual((code, calls), (wall.SKIPPED, []))
            self.assertRegex(rows[0]["why_not"], f"left out: .*{why}")
            self.assertIn("left out", said)

    def test_a_program_for_several_gpus_needs_them(self):
        listing = self.folder / "bin/nvidia-smi"
        listing.parent.mkdir()
        path = f"{listing.parent}:{os.environ['PATH']}"
        for count, expected in ((1, "left out: it needs 2 GPUs"), (2, None)):
            listing.write_text("#!/bin/sh\n" + "echo 'NVIDIA H200, 580.1'\n" * count)
            listing.chmod(0o755)
            with unittest.mock.patch.dict(os.environ, {"PATH": path}):
                rows = self.wall([str(self.here)], gpus=2)[1]
                self.assertEqual(wall.machine().startswith("2 × NVIDIA H200"), count == 2)
            self.assertEqual(rows[0].get("why_not"), expected)

    def test_changed_files_are_not_run(self):
        program = {"ours": False, "package": "thing", "version": "1.0", "licence": "MIT", "files": {"a.py": sha(CONTENT)}}
        code, rows, _, calls = self.wall([str(self.here)], **program)
        self.assertEqual((code, calls), (wall.SKIPPED, []))
        self.assertIn("its files are not here, or not those", rows[0]["why_not"])
        path = self.folder / "programs/thing/files/a.py"
        path.parent.mkdir(parents=True)
        path.write_bytes(CONTENT)
        self.assertEqual(self.wall([str(self.here)], **program)[0], 0)
        path.write_bytes(CONTENT + b"#")
        self.assertEqual(self.wall([str(self.here)], **program)[0], wall.SKIPPED)

    def test_files_without_figures_are_refused(self):
        for text, why in ((None, "No such file"), ("", "is not JSON"), ("\xff", "is not JSON"), ("[]", "holds no figures"),
                          ('{"format": "custash programs 1"}', "holds no figures"), ('{"rows": []}', "holds no figures")):
            path = self.folder / "figures.json"
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text, encoding="latin-1")
            with self.assertRaisesRegex(table.report.Unreadable, why):
                wall.merged([path])

    def test_figures_of_several_calls_are_put_together(self):
        row = {"key": "a", "way": "", **{k: v for k, v in Table.ROW.items() if k not in ("key", "way")}}
        for name, of, rows in (("1", "N and M", [row, {"key": "b", "way": "", "why_not": "no time"}]), ("2", "M", [{"key": "a", "way": "", "why_not": "x"}])):
            (self.folder / name).write_text(json.dumps({"format": wall.FORMAT, "machine": of, "rows": rows}))
        rows, where = wall.merged([self.folder / "1", self.folder / "2"])
        self.assertEqual(([each["key"] for each in rows], where), (["a", "b"], "N and M"))
        self.assertNotIn("why_not", rows[0])


class Pages(unittest.TestCase):
    def test_the_page_has_a_place_for_table_and_picture(self):
        text = (wall.ROOT / "docs/programs.md").read_text()
        self.assertIn("A <thing>", table.report.between(text, "programs", table.table([Table.ROW])))

    def test_the_page_has_what_was_measured(self):
        rows, where = wall.merged([wall.ROOT / "docs/programs.json"])
        picture = wall.ROOT / "docs/pictures/programs.svg"
        text = (wall.ROOT / "docs/programs.md").read_text()
        self.assertIn(f"On {where}:\n\n{table.table(rows)}", text)
        self.assertNotIn(table.table([{**rows[0], "with": rows[0]["without"]}, *rows[1:]]), text)
        self.assertEqual(picture.read_text(), table.picture(rows))


class OverTheSimulator(Scratch):
    """The sample program of tools/demo by the real command."""

    def churn(self, *options):
        """The row of the sample program, with these options of the wall."""
        custash, program = BUILD / "tools/custash", BUILD / "tests/demo/churn_shared"
        if not program.exists():
            self.skipTest("the sample program is not built: no nvcc")
        if "--metric" not in subprocess.run([custash, "compare", "--help"], capture_output=True, text=True, check=False).stdout:
            self.skipTest("this custash has no subcommand compare")
        simulator = {"LD_LIBRARY_PATH": f"{BUILD}/tests/sim:{BUILD}/tests/sim/cudart",
                     "CUSTASH_SIM_KERNELS": str(BUILD / "tests/demo/libdemo_kernels.so")}
        churn = description.Program(key="churn", name="churn", why="w", ours=True, ways=[description.Way("", simulator)],
                                    start=["{build}/tests/demo/churn_shared", "--iterations", "1000"], ignore=["[0-9] [mu]s"])
        args = wall.arguments(["--build", str(BUILD), "--folder", str(self.folder), *options])[1]
        with contextlib.redirect_stderr(io.StringIO()):
            return wall.Wall(args).run([churn])[0]

    def test_a_whole_run(self):
        row = self.churn("--rounds", "2")
        self.assertNotIn("why_not", row)
        self.assertEqual((len(row["without"]), row["same"], row["with_custash"]), (2, True, "too few rounds"))
        self.assertGreater(row["calls_avoided"], 500)

    def test_a_run_that_has_no_time_left_keeps_its_rounds(self):
        row = self.churn("--rounds", "100", "--minutes", "0.1")
        self.assertNotIn("why_not", row)
        self.assertTrue(1 <= len(row["without"]) == len(row["with"]) < 100, row)
        row = self.churn("--rounds", "100", "--warmup", "100", "--minutes", "0.02")
        self.assertEqual(row["why_not"], "failed: the time ended before a round was complete")


unittest.main()
