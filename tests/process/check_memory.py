# SPDX-License-Identifier: MIT
"""`custash run --check-memory --json FILE`, and `custash report FILE`: what a wrong program is told, and the page of it."""
import json
import os
import re
import signal
import tempfile

import actor
import program
from program import PATHS, Case, load, read, run

SMALL = 1000
WRONG = ("alloc 1000", "fill 0 7 3", "free 0", "free 0", "alloc 1000", "free 1 256", "free 1", "quit")
RIGHT = ("alloc 1000", "fill 0 7", "free 0", "quit")


def shown(finding, stack):
    """Its frames as custash prints them."""
    for frame in (finding["frames"][number] for number in stack):
        module = f"{os.path.basename(frame['module'])}+{frame['offset']:#x}"
        name = frame["name"]
        yield f"{name} ({frame['file']}:{frame['line']})" if frame["file"] else f"{name} ({module})" if name else module


class CheckMemory(Case):
    def setUp(self):
        self.path = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "found.json")

    def start(self, steps, **more):
        """The command when it has ended, and the file's contents."""
        done = program.launch("--check-memory", "--json", self.path, "--", os.path.join(PATHS.programs, "actor"),
                              input="\n".join(["device 0", *steps, ""]), **more)
        if not os.path.exists(self.path):  # a program that ends by a signal, and nothing was found
            return done, {"findings": []}
        return done, load(self.path)

    def check(self, steps):
        """What the command prints on standard error, and the file's contents."""
        done, found = self.start(steps)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr, found

    def page(self):
        self.assertEqual(self.succeed(PATHS.command, "report", self.path, preload=False), f"{self.path}.html\n")
        return read(f"{self.path}.html")

    def test_a_wrong_program_is_told_in_three_forms(self):
        said, found = self.check(WRONG)
        kinds = [finding["suspects"][0]["kind"] for finding in found["findings"]]
        self.assertEqual(kinds, ["past_end", "second_free", "part_free"])
        self.assertTrue(said.endswith("custash: guard: 3 found; 2 allocations were guarded\n"), said)
        page = self.page()
        self.assertIn("3 found; 2 allocations were guarded.", page)
        for finding in found["findings"]:
            suspect = finding["suspects"][0]
            self.assertIn(f"custash: guard: {finding['text']}\n", said)
            self.assertIn(f"custash: guard:   {suspect['text']}\n", said)
            self.assertIn(f"<h3>{suspect['text']}</h3>", page)
            for frame in shown(finding, finding["found_in"] + suspect["allocated_by"] + suspect["freed_by"]):
                self.assertIn(f"custash: guard:       {frame}\n", said)
                self.assertIn(f"<li>{frame}</li>", page)


    def test_a_right_program(self):
        said, found = self.check(RIGHT)
        self.assertEqual((said, found["findings"]), ("custash: guard: nothing found; 1 allocation was guarded\n", []))
        self.assertIn("nothing found; 1 allocation was guarded.", self.page())

    def ends(self, steps, **more):
        """The status of the program, and (source, kind, distance, bytes) of what was found."""
        done, found = self.start(steps, **more)
        findings = found["findings"]
        for finding in findings:
            if finding["source"] == "host":
                self.assertIn("actor", finding["frames"][finding["found_in"][0]]["module"], done.stderr)
        return done.returncode, [(f["source"], f["suspects"][0]["kind"], f["suspects"][0]["distance"], f["suspects"][0]["bytes"])
                                 for f in findings]

    def test_the_hosts_own_accesses_to_pinned_memory(self):
        page = os.sysconf("SC_PAGESIZE")
        fault = -signal.SIGSEGV
        small, large = f"pin {SMALL}", f"pin {2 * page}"  # a small one ends its page at first
        beyond = -SMALL % 512
        for steps, status, expected in (
                ((small, "poke 0 999", "unpin 0"), 0, []),
                ((small, f"poke 0 {SMALL + beyond}"), fault, [("host", "past_end", beyond + 1, SMALL)]),
                ((small, f"poke 0 {SMALL}", "unpin 0"), 0, [("slack", "past_end", 1, SMALL)]),
                ((large, "poke 0 -1"), fault, [("host", "before_beginning", 1, 2 * page)]),
                ((large, f"poke 0 {2 * page}"), fault, [("host", "past_end", 1, 2 * page)]),
                ((large, "unpin 0", "poke 0 17"), fault, [("host", "after_free", 0, 2 * page)]),
                ((large, "unpin 0", "unpin 0"), 0, [("free", "second_free", 0, 2 * page)])):
            with self.subTest(steps=steps):
                self.assertEqual(self.ends([*steps, "quit"]), (status, expected))

    def test_a_handler_of_the_program_goes_on(self):
        steps = ("pin 8192", "unpin 0", "poke 0 17", "quit")
        self.assertEqual(self.ends(steps, ACTOR_CATCHES="1"), (42, [("host", "after_free", 0, 8192)]))

    def test_other_faults_of_the_program_are_its_own(self):
        self.assertEqual(self.ends(["pin 1000", "poke 0 -100000000000", "quit"]), (-signal.SIGSEGV, []))

    def test_the_page_replaces_its_own_and_nothing_else(self):
        self.check(RIGHT)
        self.assertEqual(self.page(), self.page())
        with open(f"{self.path}.html", "w", encoding="utf-8") as file:
            file.write("mine")
        done = run(PATHS.command, "report", self.path, preload=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(read(f"{self.path}.html"), "mine")

    def stat(self, conf):
        """The statistics of a process that has a block of 1,000 bytes and has filled it 600 times."""
        with actor.Actor(CUSTASH_CONF=conf, CUSTASH_SIM=f"devices=1,{actor.machine()}") as process:
            process.ok("alloc 1000")
            for _ in range(600):
                process.ok("fill 0 7 0")
            seen = json.loads(self.succeed(PATHS.command, "stat", "--json", "--device", "0", str(process.pid), preload=False))
            text = self.succeed(PATHS.command, "stat", "--prometheus", str(process.pid), preload=False)
            process.quit()
        return seen, float(re.search("^custash_check_streams_seconds_total (.*)$", text, re.M).group(1))

    def test_statistics_tell_what_the_checks_take(self):
        seen, seconds = self.stat("guard:all,check_streams:true")
        self.assertEqual((seen["stats"]["custash.num_guarded"], seen["stats"]["custash.guard_bytes"]), (1, 2 << 20))
        self.assertGreater(seen["stats"]["custash.guard_time_ns"], 0)
        self.assertIn(seen["check_streams"]["sampled_calls"], range(1, 300))
        self.assertAlmostEqual(seen["check_streams"]["time_ns"] * 1e-9, seconds, places=3)
        self.assertEqual(seen["check_streams"]["time_ns"] % 256, 0)
        self.assertGreater(seconds, 0)
        seen, seconds = self.stat("guard:off")
        self.assertEqual((seen["stats"]["custash.guard_bytes"], seen["stats"]["custash.guard_time_ns"]), (0, 0))
        self.assertEqual((seen["check_streams"], seconds), ({"time_ns": 0, "sampled_calls": 0}, 0))

    def test_the_other_commands_say_what_the_file_is(self):
        self.check(RIGHT)
        for words in (("diff", self.path, self.path), ("leaks", self.path), ("report", self.path, self.path)):
            done = run(PATHS.command, *words, preload=False)
            said = f"custash: {self.path}: no snapshot: it is a guard report (custash report {self.path})\n"
            self.assertEqual((done.returncode, done.stderr), (1, said))


program.main()
