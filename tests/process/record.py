# SPDX-License-Identifier: MIT
"""What `custash run --record` writes, and that custash replay reads it."""
import json
import lzma
import os
import subprocess
import tempfile

import program as shared
from program import PATHS, InFolder, custash, environment, launch


def events(text):
    """(op, size, stream) of each event."""
    return [(op, int(size), stream) for _, _, op, _, size, stream in map(str.split, lines_of(text))]


def lines_of(text):
    """The events, behind the line that says what the file is."""
    first, *lines = text.splitlines()
    assert first == "# custash trace 1", first
    return lines


class Record(InFolder):
    def record(self, *what, program="record", name="app.trace", conf=None, code=0):
        """Runs the program; returns what it said."""
        options = ["--conf", conf] if conf else []
        before = len([n for n in self.recordings() if n != name])
        done = launch("--record", self.path(name), *options, "--", os.path.join(PATHS.programs, program), *what)
        self.assertEqual(done.returncode, code, done.stdout)
        for line in done.stderr.splitlines():
            self.assertRegex(line, r"^custash: \S+/app\.trace\S* written \(\d+ K?M?B, [\d,]+ events?\)$")
        self.assertEqual(len(done.stderr.splitlines()), len(self.recordings()) - before)
        return done.stdout

    def recordings(self):
        return sorted(os.listdir(self.folder))

    def read(self, name="app.trace"):
        return super().read(name)

    def replay(self, name="app.trace", code=0):
        done = custash("replay", "--json", self.path(name))
        self.assertEqual((done.returncode, done.stderr), (code, ""))
        return json.loads(done.stdout)[0]

    def test_every_kind_of_call_is_recorded(self):
        for what, conf in (("kinds", None), ("kinds", "enabled:false"), ("api", None), ("api", "pinned:false")):
            said = self.record(what, conf=conf)
            expected = [(op, int(size), stream) for op, size, stream in map(str.split, said.splitlines())]
            self.assertEqual(events(self.read()), expected, (what, conf))

    def test_the_runtimes_fast_lane_is_recorded_as_the_driver_is(self):
        if not PATHS.runtime:
            self.skipTest("no runtime double here")
        each = []
        for conf in (None, "enabled:false"):
            self.record(program="runtime_shared", conf=conf)
            each.append(events(self.read()))
        self.assertGreater(len(each[0]), 2000)
        self.assertEqual(*each)

    def test_a_recording_is_replayed(self):
        self.record("kinds")
        told = self.replay()
        self.assertEqual((told["events"], told["fits"], told["sound"]), (9, True, True))
        self.assertEqual((told["peak_in_use_bytes"], told["pinned_peak_bytes"]), ((3 << 20) + 5120, 5000))

    def test_an_xz_name_packs_it(self):
        said = self.record("kinds", name="app.trace.xz")
        self.assertEqual(self.recordings(), ["app.trace.xz"])
        with lzma.open(self.path("app.trace.xz"), "rt") as file:
            self.assertEqual(len(lines_of(file.read())), len(said.splitlines()))
        self.assertEqual(self.replay("app.trace.xz")["events"], 9)

    def test_threads_are_told_apart_and_keep_one_order(self):
        self.record("threads")
        lines = lines_of(self.read())
        self.assertEqual(len(lines), 2 * 4 * 500)
        self.assertEqual(len({line.split()[1] for line in lines}), 4)
        times = [int(line.split()[0]) for line in lines]
        self.assertEqual(times, sorted(times))
        self.assertEqual(self.replay()["events"], len(lines))  # every free follows its allocation

    def test_long_recordings_are_whole(self):
        self.record("many")
        self.assertGreater(len(self.read()), 2 << 20)
        self.assertEqual(events(self.read()), [("a", 4096, "-"), ("f", 4096, "-")] * 60000)

    def test_nothing_is_lost_when_the_program_dies(self):
        self.record("killed", code=-9)
        self.assertEqual(events(self.read()), [("a", 1000, "-")])
        self.record("quick", code=5)
        self.assertEqual(events(self.read()), [("a", 1000, "-")])

    def test_zeros_that_nobody_cut_off_are_no_events(self):
        self.record("kinds")
        with open(self.path("app.trace"), "ab") as file:
            file.write(b"123 0 a 77" + b"\0" * 5000)
        self.assertEqual(self.replay()["events"], 9)

    def test_each_process_has_a_recording_of_its_own(self):
        self.record("fork")
        names = self.recordings()
        self.assertEqual((len(names), names[0]), (2, "app.trace"), names)
        self.assertRegex(names[1], r"^app\.trace\.\d+$")
        self.assertEqual({e for name in names for e in events(self.read(name))},
                         {("a", 1000, "-"), ("a", 2000, "-")})

    def test_a_program_that_follows_by_exec_has_one_too(self):
        self.record("exec", code=5)
        self.assertEqual([events(self.read(name)) for name in self.recordings()], [[("a", 1000, "-")]] * 2)

    def test_a_child_does_not_write_into_its_parents(self):
        self.record("fork_after")
        self.assertEqual(events(self.read()), [("a", 1000, "-"), ("a", 3000, "-")])
        self.assertEqual(self.recordings(), ["app.trace"])

    def test_what_is_still_being_recorded_is_left_alone(self):
        path = self.path("app.trace.xz")
        words = [PATHS.command, "run", "--record", path, "--lib", PATHS.library, "--",
                 os.path.join(PATHS.programs, "record"), "outlived"]
        with tempfile.TemporaryFile("w+") as errors, \
             subprocess.Popen(words, env=environment(preload=False), stdin=subprocess.PIPE, text=True,
                              stdout=subprocess.PIPE, stderr=errors) as running:
            self.assertEqual(running.wait(timeout=60), 0)
            names = self.recordings()
            running.stdin.close()
            self.assertEqual(running.stdout.read(), "")  # until the child ends
            errors.seek(0)
            self.assertIn("still being recorded", errors.read())
        self.assertEqual(len(names), 1)
        self.assertRegex(names[0], r"^app\.trace\.xz\.[0-9a-f]{12}\.part$")
        self.assertEqual(events(self.read(names[0])), [("a", 1000, "-"), ("a", 2000, "-")])

    def test_the_option_alone_overwrites_nothing(self):
        path = self.path("app.trace")
        self.write(path, "kept\n")
        done = shared.run("record", "kinds", CUSTASH_CONF=f"record:{path}")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.read(), "kept\n")
        own = next(name for name in self.recordings() if name != "app.trace")
        self.assertEqual(len(events(self.read(own))), 9)


shared.main()
