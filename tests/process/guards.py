# SPDX-License-Identifier: MIT
"""What a program with guarded blocks says of wrong uses of memory (docs/checking.md). Faults of kernels: tests/gpu/museum.py."""
import os
import pathlib
import re
import sys
import tempfile

import actor
import program
from program import Case, load, read

SIZE = 1000
# Each block is freed twice.
BY_HAND = """
import ctypes
api, p, q = ctypes.CDLL(None), ctypes.c_void_p(), ctypes.c_void_p()
size = ctypes.c_size_t(1000)
print(api.custash_malloc(ctypes.byref(p), 0, size), api.custash_free(p), api.custash_free(p))
print(api.custash_host_malloc(ctypes.byref(q), size, 0), api.custash_host_free(q), api.custash_host_free(q))
"""


class Guards(Case):
    def log(self, fills, conf):
        """The log of a program that allocates two blocks, fills them from an offset on, and frees them."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log")
            with actor.Actor(CUSTASH_CONF=f"{conf},log_file:{path}") as process:
                for number, offset in enumerate(fills):
                    process.ok(f"alloc {SIZE}")
                    process.ok(f"fill {number} 7 {offset}")
                for number in range(len(fills)):
                    process.ok(f"free {number}")
                for _ in range(3):
                    process.ok("sync")
                    process.ok("empty")
                self.assertEqual(process.quit(), 0)
            if not os.path.exists(path):
                return []
            return re.findall("event=guard_overwritten address=0x[0-9a-f]+ (.*)", read(path))

    def test_a_write_past_the_end_is_logged(self):
        self.assertEqual(self.log([0, 3], "guard:all"), [f"bytes={SIZE} byte=1 past its end"])

    def test_programs_that_are_right_log_nothing(self):
        self.assertEqual(self.log([0, 0, 0], "guard:all"), [])

    def test_each_process_draws_its_own_blocks(self):
        """Without a seed the first block is hardly one of them."""
        self.assertEqual(self.log([3], "guard:1/1000000000"), [])
        self.assertEqual(self.log([3], "guard:1/1000@595"), [f"bytes={SIZE} byte=1 past its end"])

    def report(self, steps, conf="guard:all", to=None):
        """(What is found as JSON, what the program printed on standard error) of an actor's steps; each answers a code. `to`: in the
        place of the file."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "found.json")
            errors = os.path.join(folder, "errors")
            with open(errors, "w+", encoding="utf-8") as file:
                codes = []
                with actor.Actor(stderr=file, CUSTASH_CONF=f"{conf},guard_report:{path if to is None else to}") as process:
                    for step in steps:
                        codes.append(process.code(step))
                    self.assertEqual(process.quit(), 0)
                file.seek(0)
                text = file.read()
            if to is not None:
                self.assertFalse(os.path.exists(path))
                return None, text, codes
            return load(path)["findings"], text, codes

    def found(self, steps, conf="guard:all"):
        findings, _, _ = self.report(steps, conf)
        return [(f["source"], f["suspects"][0]["kind"], f["suspects"][0]["distance"], f["suspects"][0]["bytes"]) for f in findings]

    def test_frees_that_are_wrong_are_reported(self):
        self.assertEqual(self.found(["alloc 1000", "free 0", "free 0", "free 0"]), [("free", "second_free", 0, 1000)])
        self.assertEqual(self.found(["alloc 1000", "free 0 256"]), [("free", "part_free", 256, 1000)])
        self.assertEqual(self.found(["alloc 1000", "alloc_managed 4096", "free 1 16"]), [])

    def test_second_frees_by_the_c_api_are_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "found.json")
            done = program.run(sys.executable, "-c", BY_HAND, CUSTASH_CONF=f"guard:all,guard_report:{path}")
            self.assertEqual((done.returncode, done.stdout), (0, "0 0 1\n" * 2))
            kinds = [finding["suspects"][0]["kind"] for finding in load(path)["findings"]]
        self.assertEqual(kinds, ["second_free"] * 2)

    def test_memsets_outside_are_reported_at_the_call_and_once(self):
        self.assertEqual(self.found(["alloc 1000", "fill 0 7 3", "fill 0 7 3", "sync", "free 0", "sync"]), [("call", "past_end", 3, 1000)])
        self.assertEqual(self.found(["alloc 1000", "alloc 100", "free 0", "fill 0 7 8"]), [("call", "after_free", 0, 1000)])
        self.assertEqual(self.found(["alloc 1000", "fill 0 7 0", "check 0 7", "free 0"]), [])

    def test_copies_of_rows_outside_are_reported(self):
        """rows BLOCK OFFSET PITCH WIDTH HEIGHT [DEPTH]"""
        block, past = "alloc 64000", ("call", "past_end")
        for step, found in (
                ("rows 0 0 320 320 200", []), ("rows 0 300 320 20 200", []), ("rows 0 0 320 320 201", [(*past, 320, 64000)]),
                ("rows 0 301 320 20 200", [(*past, 1, 64000)]), ("rows 0 0 320 200 320", [(*past, 38280, 64000)]),
                ("rows 0 0 40000 10 2", []), ("rows 0 0 40000 10 3", [(*past, 16010, 64000)]),
                ("rows 0 0 4000000 10 2", [(*past, 3936010, 64000)]),
                ("rows 0 -320 320 10 200", [("call", "before_beginning", 320, 64000)]),
                ("rows 0 0 320 20 8 20", []), ("rows 0 300 320 20 8 20", []), ("rows 0 320 320 320 8 20", []),
                ("rows 0 640 320 320 8 20", []), ("rows 0 641 320 320 8 20", [(*past, 1, 64000)]),
                ("rows 0 0 320 320 8 21", [(*past, 2560, 64000)]), ("rows 0 0 320 320 0", []), ("rows 0 0 320 0 200 90", [])):
            with self.subTest(step=step):
                self.assertEqual(self.found([block, step]), found)
        self.assertEqual(self.found([block, "alloc 100", "sync", "free 0", "rows 0 0 320 320 20"]), [("call", "after_free", 0, 64000)])

    def test_rows_in_two_blocks_are_right(self):
        """What lies between is not touched."""
        with actor.Actor(CUSTASH_CONF="guard:all") as process:
            first, second = (int(process.ok("alloc 1000")[0], 16) for _ in range(2))
        self.assertGreater(second, first)
        self.assertEqual(self.found(["alloc 1000", "alloc 1000", f"rows 0 0 {second - first} 1000 2"]), [])

    def test_a_finding_has_the_stacks_of_its_calls(self):
        finding = self.report(["alloc 1000", "free 0", "free 0"])[0][0]
        self.assertTrue(finding["certain"])
        suspect = finding["suspects"][0]
        for stack in (finding["found_in"], suspect["allocated_by"], suspect["freed_by"]):
            self.assertRegex(finding["frames"][stack[0]]["module"], "actor$")

    def test_work_before_a_wait_is_over(self):
        for wait, over in (("sync", True), ("sync_v2", True), ("info", False)):
            with self.subTest(wait=wait):
                finding = self.report(["alloc 1000", "fill 0 7 0", wait, "fill 0 7 8"])[0][0]
                self.assertEqual(finding["work"][-1]["over"], over)

    def test_the_calls_answer_as_without_guards(self):
        steps = ["alloc 1000", "free 0 256", "fill 0 7 3", "free 0", "free 0", "fill 0 7 0", "sync"]
        guarded = self.report(steps)[2]
        with actor.Actor(CUSTASH_CONF="guard:off") as process:
            plain = [process.code(step) for step in steps]
        self.assertEqual(guarded[:5] + guarded[6:], plain[:5] + plain[6:])

    def test_blocks_that_ended_with_their_context_are_forgotten(self):
        steps = ["alloc 1000", "context 0", "current 0", "alloc 1000", "destroy 0", "context 0", "current 1", "alloc 2000", "fill 2 7 0",
                 "free 2", "alloc 500", "fill 3 7 0"]
        self.assertEqual(self.found(steps), [])

    def test_blocks_of_others_at_such_addresses_are_not_judged(self):
        """The blocks of the context that ended had guards, those of the next have none."""
        steps = ["context 0", "current 0"] + ["alloc 1000"] * 3 + ["destroy 0", "context 0", "current 1"]
        steps += ["alloc 8000000"] * 3 + [f"fill {number} 7 0" for number in (3, 4, 5)]
        self.assertEqual(self.found(steps, "guard:1000-1000"), [])
        self.assertEqual(self.found(steps[:5] + ["free 0", "free 1", "free 2"] + steps[5:], "guard:1000-1000"), [])

    def test_of_blocks_freed_before_the_end_of_their_context_nothing_is_said(self):
        """A memset after the free is found, and no more once the context has ended. So with a second free."""
        made, freed = ["context 0", "current 0", "alloc 1000"], ["free 0"]
        primary = ["alloc 1000"]
        for late, source, kind in ((["fill 0 7 0"], "call", "after_free"), (["free 0"], "free", "second_free")):
            for begin, end in ((made, ["destroy 0", "context 0", "current 1"]), (made, ["destroy 0", "device 0"]), (primary, ["reset 0"])):
                with self.subTest(late=late, end=end):
                    self.assertEqual(self.found(begin + freed + late), [(source, kind, 0, 1000)])
                    self.assertEqual(self.found(begin + freed + end + late), [])

    def test_a_free_after_the_end_of_the_context_is_no_second_free(self):
        self.assertEqual(self.found(["context 0", "current 0", "alloc 1000", "destroy 0", "device 0", "free 0"]), [])

    def test_work_comes_after_fills(self):
        for conf, waits in (("guard:all+fill", True), ("guard:all", False)):
            with self.subTest(conf=conf), tempfile.NamedTemporaryFile("r", encoding="utf-8") as file:
                with actor.Actor(CUSTASH_CONF=conf, CUSTASH_SIM=f"report={file.name}") as process:
                    process.ok("alloc 100000000")
                    process.ok("fill 0 7 0")
                    process.quit()
                self.assertEqual("cuStreamWaitEvent" in file.read(), waits)

    def test_the_log_has_the_block(self):
        steps = ["alloc 1000", "free 0", "free 0"]
        self.assertRegex(self.report(steps, to="")[1], "event=guard_free kind=second_free address=0x[0-9a-f]+ bytes=1000 suspects=1\n")

    def test_nothing_is_printed_unless_it_was_asked_for(self):
        steps = ["alloc 1000", "free 0", "free 0"]
        for to in ("", None):
            self.assertEqual(self.report(steps, "guard:all,log_file:/dev/null", to=to)[1], "")
        shown = self.report(steps, to="-")[1]
        self.assertIn("custash: guard:   second free of block 0x", shown)
        self.assertTrue(shown.endswith("custash: guard: 1 found; 1 allocation was guarded\n"), shown)
        self.assertEqual(self.report(steps[:2], to="-")[1], "custash: guard: nothing found; 1 allocation was guarded\n")

    def test_files_that_are_there_stay(self):
        """At the name of the option, and at the one with the process's number: empty, or a guard report."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "found.json")
            with actor.Actor(CUSTASH_CONF=f"guard:all,guard_report:{path}") as process:
                process.ok("alloc 1000")
                process.quit()
            before = path.read_text(encoding="utf-8")
            for text in ("mine", "", before):
                path.write_text(text, encoding="utf-8")
                with actor.Actor(CUSTASH_CONF=f"guard:all,guard_report:{path}") as process:
                    numbered = path.with_suffix(f".{process.pid}.json")
                    numbered.write_text(text, encoding="utf-8")
                    process.ok("alloc 1000")
                    process.quit()
                self.assertEqual([path.read_text(encoding="utf-8"), numbered.read_text(encoding="utf-8")], [text] * 2)
                self.assertIn("custash guard report", path.with_suffix(f".1.{process.pid}.json").read_text(encoding="utf-8"))

    def test_the_first_block_without_room_is_told_once(self):
        with tempfile.TemporaryDirectory() as folder, \
                actor.Actor(CUSTASH_CONF=f"guard:all,log:warn,log_file:{folder}/log", CUSTASH_SIM="devices=1,memory=1g") as one:
            one.ok(f"alloc {980 << 20}")
            one.ok("alloc 1000")
            said = pathlib.Path(folder, "log").read_text(encoding="utf-8")
        self.assertEqual(said.count(f"event=guard_no_room memory=device bytes={980 << 20} "), 1)
        self.assertEqual(said.count("event=guard_no_room"), 1)

    def test_without_the_option_nobody_looks(self):
        self.assertEqual(self.log([0, 3], "log:error"), [])


if __name__ == "__main__":
    program.main()
