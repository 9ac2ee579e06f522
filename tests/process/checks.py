# SPDX-License-Identifier: MIT
"""The checkers over a C++ program that uses the runtime: functions and lines of its call sites, one closing line that says
what was checked, however the program ends, the exit status, and suppressions."""
import os
import re
import signal
import subprocess

import program as shared
from program import PATHS, InOneFolder, environment, launch, lines_marked, run

PATHS.compiler = PATHS.cuda = ""
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "checks.cpp")
FAILED = 9  # --error-exitcode
CHECK = ("--check-memory", "--error-exitcode", str(FAILED))
NOTHING = "nothing was checked: the program allocated no memory that custash serves"
PLAIN = "this device has no virtual memory management, or a GPU that cannot reach it (custash doctor)"
LINES = lines_marked(SOURCE)


class Checks(InOneFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.app = cls.build("checks", os.path.join(PATHS.runtime, "libcudart.so"))

    @classmethod
    def build(cls, name, runtime):
        out = os.path.join(cls.folder, name)
        subprocess.run([*PATHS.compiler.split(), f"-I{PATHS.cuda}/include", "-std=c++20", "-g", "-O1", "-o", out, SOURCE, runtime, "-ldl",
                        "-lpthread"], check=True, timeout=300, capture_output=True)
        return out

    def run_it(self, options, steps, app=None, sim="devices=1", **more):
        """(status, standard error without the closing line, the closing line without its beginning)."""
        done = subprocess.run([PATHS.command, "run", "--lib", PATHS.library, *options, "--", app or self.app, *steps], cwd=self.folder,
                              env=environment(False, CUSTASH_SIM=sim, **more), capture_output=True, text=True, timeout=120,
                              check=False, start_new_session=True)
        # QEMU itself tells of an abort.
        *lines, last = [line for line in done.stderr.splitlines() if not line.startswith("qemu: ")] or [""]
        for line in lines:
            self.assertNotRegex(line, r"nothing (was|found)|\d found|were guarded")
        before = "custash: guard: "
        return done.returncode, lines, last.removeprefix(before) if last.startswith(before) else [last]

    def stack(self, lines, title):
        """The frames below this line of a finding."""
        begin = lines.index(f"custash: guard:     {title}") + 1
        frames = []
        for line in lines[begin:]:
            if not line.startswith("custash: guard:       "):
                break
            frames.append(line.removeprefix("custash: guard:       "))
        return frames

    def at(self, function, line):
        return f"{function} ({SOURCE}:{line})"

    def check_lines(self, app):
        for step, function, text in (
                ("after", "use_after_free", "cudaMemset uses a block after its free"),
                ("over", "overrun", "cudaMemset accesses memory outside a block"),
                ("copy", "copy_past_the_end", "cudaMemcpy accesses memory outside a block"),
                ("twice", "free_twice", "a double free")):
            with self.subTest(step):
                status, lines, last = self.run_it(CHECK, [step], app)
                self.assertEqual((status, last), (FAILED, "1 found; 1 allocation was guarded"))
                self.assertEqual(lines[0], f"custash: guard: {text}")
                found = self.stack(lines, "found in")
                self.assertRegex(found[0], rf"(^|::){function}(\(\))? \({re.escape(SOURCE)}:{LINES[step]}\)$")
                self.assertRegex(self.stack(lines, "allocated by")[0], rf"take.*checks\.cpp:{LINES['take']}\)$")
                for frames in (found, self.stack(lines, "allocated by")):
                    self.assertRegex(frames[-1], r"^main \(")  # libc's below are left out
                self.assertNotIn("libcustash", "\n".join(lines))

    def test_findings_have_functions_and_lines(self):
        self.check_lines(self.app)

    def test_with_the_runtime_linked_in(self):
        archive = os.path.join(PATHS.runtime, "libcudart_double.a")
        if not os.path.exists(archive):
            self.skipTest("no static runtime here")
        self.check_lines(self.build("static", archive))

    def test_the_check_of_streams_names_lines_too(self):
        status, lines, last = self.run_it(("--check-streams", "--error-exitcode", str(FAILED)), ["race"])
        self.assertEqual((status, last), (FAILED, "1 found; the order of 1 use was checked"))
        self.assertRegex(self.stack(lines, "freed by")[0], rf"race.*checks\.cpp:{LINES['race']}\)$")
        self.assertTrue(any(re.search(rf"race.*checks\.cpp:{LINES['use']}\)$", line) for line in lines), lines)

    def test_the_file_and_its_page_name_lines_too(self):
        file = self.path("found.json")
        self.run_it(("--check-memory", "--json", file), ["over"])
        report = self.load(file)
        finding, = report["findings"]
        first = finding["frames"][finding["found_in"][0]]
        self.assertEqual((first["file"], first["line"]), (SOURCE, LINES["over"]))
        self.assertEqual((finding["call"], report["checked"]), ("cudaMemset", "1 found; 1 allocation was guarded"))
        # What the library writes by itself has modules and offsets; the page's command names them.
        alone = self.path("alone.json")
        subprocess.run([self.app, "over"], env=environment(True, CUSTASH_SIM="devices=1", CUSTASH_CONF=f"guard:all,guard_report:{alone}"),
                       check=True, timeout=60, capture_output=True)
        for name in (file, alone):
            self.succeed(PATHS.command, "report", name, preload=False)
            self.assertIn(f"{os.path.basename(SOURCE)}:{LINES['over']})", self.read(f"{name}.html"))

    def test_the_closing_line_says_what_was_checked(self):
        for steps, sim, conf, status, expected in (
                (["right"], "devices=1", "", 0, "nothing found; 1 allocation was guarded"),
                (["right", "right"], "devices=1", "", 0, "nothing found; 2 allocations were guarded"),
                (["device"], "devices=1", "", FAILED, NOTHING), ([], "devices=1", "", FAILED, NOTHING),
                (["right"], "devices=0", "", 9, NOTHING),
                (["right"], "devices=1,vmm=0", "", FAILED, f"nothing was checked but copies, memsets and frees: {PLAIN}"),
                (["right"], "devices=2,peers=0", "", FAILED, f"nothing was checked but copies, memsets and frees: {PLAIN}"),
                (["right"], "devices=1", "backing:driver", FAILED, "nothing was checked but copies, memsets and frees: backing:driver"),
                (["right"], "devices=1", "caching:never", FAILED, "nothing was checked: caching:never"),
                (["over"], "devices=1", "enabled:false", FAILED, "nothing was checked: enabled:false"),
                (["right", "abort"], "devices=1", "", -signal.SIGABRT, "nothing found; 1 allocation was guarded"),
                (["right", "kill"], "devices=1", "", -signal.SIGKILL, "nothing found; 1 allocation was guarded"),
                (["right", "interrupt"], "devices=1", "", -signal.SIGINT, "nothing found; 1 allocation was guarded"),
                (["right", "_exit"], "devices=1", "", 6, "nothing found; 1 allocation was guarded"),
                (["right", "fail"], "devices=1", "", 5, "nothing found; 1 allocation was guarded"),
                (["over", "_exit"], "devices=1", "", FAILED, "1 found; 1 allocation was guarded"),
                (["over", "kill"], "devices=1", "", FAILED, "1 found; 1 allocation was guarded")):
            with self.subTest(steps=steps, sim=sim, conf=conf):
                got, _, last = self.run_it((*CHECK, *(("--conf", conf) if conf else ())), steps, sim=sim)
                self.assertEqual((got, last), (status, expected))

    def test_without_the_option_the_status_is_the_program_s_own(self):
        for steps, status, expected in ((["device"], 0, NOTHING), (["over", "_exit"], 6, "1 found; 1 allocation was guarded")):
            got, _, last = self.run_it(CHECK[:1], steps)
            self.assertEqual((got, last), (status, expected))

    def test_the_closing_line_counts_what_had_no_room(self):
        status, _, last = self.run_it(CHECK, ["5000"])
        found = re.fullmatch(r"1 found; (\d,\d{3}) of 5,000 allocations were guarded \(no room for (\d,\d{3})\)", last)
        self.assertEqual((status, sum(int(each.replace(",", "")) for each in found.groups())), (FAILED, 5000))

    def test_with_nothing_found_a_file_is_written_all_the_same(self):
        file = self.path("none.json")
        for steps in (["device"], ["right"], ["right", "kill"]):
            self.run_it(("--check-memory", "--json", file), steps)
            report = self.load(file)
            self.assertEqual((report["found"], report["findings"]), (0, []))
            self.assertIn(report["checked"], (NOTHING, "nothing found; 1 allocation was guarded"))

    def test_calls_find_blocks_without_guards(self):
        for steps, text in ((["over"], "cudaMemset accesses memory outside a block"), (["after"], "cudaMemset uses a block after its free"),
                            (["twice"], "a double free"), (["right"], None)):
            with self.subTest(steps=steps):
                _, lines, last = self.run_it((*CHECK, "--conf", "backing:driver"), steps)
                self.assertEqual(lines[:1], [f"custash: guard: {text}"] if text else [])
                self.assertEqual(last, "1 found; no allocation was guarded: backing:driver" if text
                                 else "nothing was checked but copies, memsets and frees: backing:driver")

    def test_the_status_tells_of_leaks(self):
        leaks = ("--leaks", "--error-exitcode", str(FAILED))
        for steps, options, status in ((["leak"], leaks, FAILED), (["right"], leaks, 0), (["leak"], leaks[:1], 0)):
            with self.subTest(steps=steps, options=options):
                self.assertEqual(self.run_it(options, steps)[0], status)
        done = run(PATHS.command, "run", "--lib", PATHS.library, *leaks, "--", "true", preload=False)
        self.assertEqual(done.returncode, FAILED, done.stderr)  # nothing was checked

    def suppressions(self, *globs):
        self.write("known", "# known\n\n" + "".join(f"  {glob}\n" for glob in globs))
        return "--suppressions", self.path("known")

    def test_suppressions(self):
        line = f"checks.cpp:{LINES['over']}"
        for glob, suppressed in (("overrun", True), ("*overrun*", True), (line, True), (f"tests/process/{line}", True), (SOURCE, True),
                                 ("checks", True), ("over", False), (f"checks.cpp:{LINES['after']}", False), ("libother*", False)):
            with self.subTest(glob):
                file = self.path("found.json")
                status, lines, last = self.run_it((*CHECK, "--json", file, *self.suppressions("no_such", glob)), ["over"])
                said = "nothing found; 1 allocation was guarded; 1 suppressed" if suppressed else "1 found; 1 allocation was guarded"
                self.assertEqual((status, last, lines == []), (0 if suppressed else FAILED, said, suppressed))
                self.assertEqual(len(self.load(file)["findings"]), 0 if suppressed else 1)

    def test_suppressions_of_leaks(self):
        for glob, status in ((f"checks.cpp:{LINES['take']}", 0), ("free_twice", FAILED)):
            options = ("--leaks", "--error-exitcode", str(FAILED), *self.suppressions(glob))
            self.assertEqual(self.run_it(options, ["leak"])[0], status)

    def test_options_that_have_nothing_to_do_are_refused(self):
        for words in (("--error-exitcode", "1"), self.suppressions("x"), ("--check-memory", "--error-exitcode", "0"),
                      ("--check-memory", "--error-exitcode", "256"), ("--check-memory", "--suppressions", self.path("no_file"))):
            with self.subTest(words):
                self.assertEqual(self.run_it(words, ["right"])[0], 125)

    def test_why_memory_ran_out(self):
        why = r"^custash: out of memory on device 0: 1073741824 bytes asked for; 8192 MiB in use, "
        for options, site in ((("--summary",), False), (("--leaks",), True), (("--record-history", "r.html"), True), (CHECK[:1], False)):
            with self.subTest(options):
                done = launch(*options, "--", self.app, "oom", cwd=self.folder, CUSTASH_SIM="devices=1")
                done.check_returncode()
                told = [line for line in done.stderr.splitlines() if line.startswith("custash: out of memory")]
                self.assertEqual(len(told), 1, done.stderr)
                self.assertRegex(told[0], why if options != CHECK[:1] else why.replace("8192", r"\d+"))
                self.assertEqual("8.00 GiB of the peak allocated by" in told[0] and f"checks.cpp:{LINES['take']})" in told[0], site)
        done = launch("--summary", "--", self.app, "right", CUSTASH_SIM="devices=1")
        done.check_returncode()
        self.assertNotIn("out of memory on", done.stderr)

    def test_the_report_of_the_moment_is_named_and_packed(self):
        for name in ("r.json", "r.html", "r.pickle"):
            done = launch("--record-history", name, "--", self.app, "oom", cwd=self.folder, CUSTASH_SIM="devices=1")
            done.check_returncode()
            oom = name.replace(".", ".oom.")
            self.assertIn(f"custash: {oom} written when memory ran out", done.stderr)
        snapshot = self.load("r.oom.json")
        site = max(snapshot["history"]["sites"], key=lambda each: each["bytes"])
        first = snapshot["frames"][snapshot["stacks"][site["stack"]][0]]
        self.assertEqual((first["file"], first["line"]), (SOURCE, LINES["take"]))
        self.assertIn('type="application/x-custash-packed"', self.read("r.oom.html"))
        self.assertIn(b"checks.cpp", self.read_bytes("r.oom.pickle"))


shared.main()
