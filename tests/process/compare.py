# SPDX-License-Identifier: MIT
"""`custash compare` over the simulator: what it measures, what it says, what it refuses, and how it ends."""
import json
import os
import pty
import re
import signal
import subprocess
import time

import actor
import program as shared
from program import PATHS, InFolder, environment

MIB = 1 << 20
SIMULATED = "The driver is simulated. It runs no kernels, so these times say nothing about a GPU."
TOO_FEW = 3  # rounds for a difference that is larger than the noise


class Compare(InFolder):
    def words(self, what, *options, runs=4, warmup=0):
        first = os.path.join(PATHS.programs, "compare")
        words = [first, *what.split()] if isinstance(what, str) else what
        return [PATHS.command, "compare", "--lib", PATHS.library, "--runs", str(runs), "--warmup", str(warmup),
                *options, "--", *words]

    def compare(self, what, *options, code=0, runs=4, warmup=0, preload=False, **more):
        """Standard output and standard error."""
        done = shared.run(*self.words(what, *options, runs=runs, warmup=warmup), preload=preload, timeout=100, cwd=self.folder,
                          **{"CUSTASH_SIM": "devices=1", **more})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def json(self, what, *options, **more):
        """Without the warning that all have here."""
        result = json.loads(self.compare(what, "--json", *options, **more)[0])
        self.assertTrue(result["simulated"])
        result["warnings"] = [each for each in result["warnings"] if each != SIMULATED]
        return result

    def refused(self, why, what, *options, code=125):
        out, err = self.compare(what, *options, code=code)
        self.assertEqual((out, err.count("\n")), ("", 1), err)
        self.assertIn(why, err)

    # What is measured.

    def test_table_and_counters(self):
        out, err = self.compare("churn 300", "--conf", "stats:detailed", warmup=1)
        self.assertEqual(err, "")
        for line in (r"  4 rounds, each one run without and one with custash; before them 1 warm-up of each",
                     r"  median \(range\) +without custash +with custash +without / with",
                     r"  wall time +[0-9.]+ m?s \([0-9.]+ - [0-9.]+\) .* x \(.*",
                     r"  user time +.*", r"  system time +.*", r"  wall time, without / with, by round:( [0-9.]+ x,?){4}",
                     r"  served: 300 allocations, 300 frees", r"  frees that did not wait: 300 of 300",
                     r"  driver calls: \d+ avoided; custash made \d+ instead of 600",
                     r"  time in the driver for memory: [0-9.]+ m?s (saved|more), by what the calls took in a warm-up; custash spent [0-9.]+ m?s",
                     r"  custash 0\.\S+ with stats:detailed; simulated device, driver 1\.0; 20\d\d-\d\d-\d\d",
                     r"  peak in use 1\.00 MiB, peak held 2\.00 MiB",
                     r"  standard output: the same in all runs", r"  end: exit status 0 in all runs"):
            self.assertRegex(out, rf"(?m)^{line}$")
        self.assertNotIn("peak device memory", out)

    def test_counters_are_of_all_processes(self):
        result = self.json("fork 50")
        self.assertEqual((result["served"]["processes"], result["served"]["allocations"]), (2, 100))
        self.assertEqual(len(result["rounds"]), 4)
        self.assertEqual(result["format"], "custash comparison 1")
        for each in result["rounds"]:
            self.assertEqual(each["served"], {**each["served"], "calls_served": 200, "processes_without_counters": 0})
            self.assertEqual(each["served"]["calls_avoided"], 200 - each["served"]["calls_made"])
            self.assertGreater(each["without"]["wall_s"], 0)

    def test_the_share_that_the_driver_served_is_told(self):
        out, _ = self.compare("async 300", "--conf", "pools:driver")
        self.assertRegex(out, r"(?m)^  served 0 of 300 allocations \(0\.0 %\) and 0\.0 % of their bytes; by the driver: stream-ordered 300 \(")
        result = self.json("async 300", "--conf", "pools:driver")["served"]
        self.assertEqual((result["allocations"], result["allocations_servable"], result["requested_bytes"]), (0, 300, 0))
        self.assertEqual(result["passed"], [{"kind": "stream-ordered", "allocations": 300,
                                             "allocated_bytes": result["requested_bytes_servable"]}])
        result = self.json("async 300")["served"]
        self.assertEqual((result["allocations"], result["allocations_servable"], result["passed"]), (300, 300, []))
        self.assertEqual(result["requested_bytes"], result["requested_bytes_servable"])

    def test_processes_that_leave_no_counters_are_told(self):
        out, _ = self.compare("_exit", runs=TOO_FEW)
        self.assertIn("counters are missing from 1 of 1 processes, which did not end by exit", out)
        self.assertIn("Counters are missing, so custash cannot say why nothing is gained.", out)
        self.assertNotIn("served:", out)

    def test_time_in_the_driver_needs_a_warm_up_and_plain_calls(self):
        self.assertIsInstance(self.json("churn 300", warmup=1)["driver_ns_saved"], int)
        self.assertIsNone(self.json("churn 300")["driver_ns_saved"])
        self.assertIsNone(self.json("async 300", warmup=1)["driver_ns_saved"])

    def test_sides_take_turns(self):
        file = self.path("notes")
        self.compare(f"note {file}", runs=3, warmup=2)
        with open(file, encoding="utf-8") as notes:
            order = "".join({"without": "-", "with": "+"}[line.split()[0]] for line in notes)
        # The first warm-up measures the driver's own calls through custash.
        self.assertEqual(order, "++" "-+" "-+" "+-" "-+")

    def test_environment_of_the_sides(self):
        show = ["sh", "-c", 'echo "$LD_PRELOAD/$CUSTASH_CONF"; cat']
        other = os.path.join(PATHS.programs, "libchain.so")
        self.compare(show, "--keep", self.folder, "--conf", "run_ahead:50", runs=1, code=1, CUSTASH_CONF="log:off",
                     LD_PRELOAD=f"{PATHS.library}:{other}" if os.path.exists(other) else PATHS.library)
        sides = {}
        for side in ("without", "with"):
            sides[side] = self.read(f"round-1-{side}.out")
        kept = other if os.path.exists(other) else ""
        self.assertEqual(sides["without"], f"{kept}/enabled:false\n")
        self.assertEqual(sides["with"], f"{PATHS.library}{':' + kept if kept else ''}/log:off,run_ahead:50\n")

    def test_two_settings(self):
        show = ["sh", "-c", 'echo "$LD_PRELOAD/$CUSTASH_CONF"']
        out, _ = self.compare(show, "--keep", self.folder, "--against", "run_ahead:0", "--conf", "run_ahead:50", runs=2, warmup=1, code=1)
        self.assertNotIn("without", out)
        self.assertRegex(out, r"  median \(range\) +with run_ahead:0 +with run_ahead:50 +first / second")
        self.assertIn("  2 rounds, each one run with run_ahead:0 and one with run_ahead:50; before them 1 warm-up of each\n", out)
        self.assertIn("standard output: differs with run_ahead:50", out)
        for side, conf in (("without", "run_ahead:0"), ("with", "run_ahead:50")):
            self.assertEqual(self.read(f"round-1-{side}.out"), f"{PATHS.library}/{conf}\n")
        result = self.json("number 20 10", "--metric", "time: ([0-9.]+) ms", "--ignore", "^time:", "--against", "enabled:false",
                           runs=6)
        self.assertEqual((result["against"], result["conf"], result["driver_ns_saved"]), ("enabled:false", "", None))
        self.assertRegex(" ".join(result["verdicts"]), r"metric: .* with no options\.")
        self.refused("--against: unknown option 'no_such'", "churn 1", "--against", "no_such:1")

    def test_it_says_that_the_driver_is_simulated(self):
        out, _ = self.compare("churn 1", runs=1)
        self.assertRegex(out, "; simulated (driver|device, driver 1.0); ")
        self.assertIn(f"  {SIMULATED}\n", out)
        self.assertFalse(json.loads(subprocess.run(self.words(["true"], "--json", runs=1), capture_output=True, check=False,
                                                   env={**environment(False), "LD_LIBRARY_PATH": ""}).stdout)["simulated"])

    def test_a_metric_decides(self):
        metric = ("--metric", "time: ([0-9.]+) ms")
        out, _ = self.compare("number 20 10", *metric, "--ignore", "^time:", runs=6)
        self.assertRegex(out, r"  metric +20 \(20 - 20\) +10 \(10 - 10\) +2\.00 x \(2\.00 - 2\.00\)")
        self.assertIn("metric: better by a factor of 2.00 with custash. The difference is larger than the noise "
                      "(p = 0.031; 2.00 to 2.00 times with 95 % certainty).", out)
        out, _ = self.compare("number 20 10", *metric, "--metric-higher", "--ignore", "^time:", runs=6)
        self.assertIn("metric: a loss: worse by a factor of 2.00 with custash. The difference is larger than the noise", out)
        row = next(row for row in self.json("number 20 10", *metric, "--ignore", "^time:", runs=6)["results"] if row["name"] == "metric")
        self.assertEqual((row["with_custash"], row["without"]["median"], row["with"]["median"]), ("lower", 20, 10))

    def test_a_metric_that_is_not_there(self):
        _, err = self.compare("number 20", "--metric", "speed: (.*)", code=1)
        self.assertIn("custash: round 1 of 4, without custash: --metric: no line of the output matches speed: (.*)\n", err)
        _, err = self.compare("number many", "--metric", "time: (.*) ms", code=1)
        self.assertIn("--metric: 'many' is not a number\n", err)

    # Memory, as NVML tells it.

    def held(self, what, source, mode=None):
        settings = f"devices=2,machine={self.path('machine')}"
        out, _ = self.compare(what, "--export", "held.json", "--force", runs=1, CUSTASH_SIM=settings, CUSTASH_SIM_NVML=mode)
        result = self.load("held.json")
        result["warnings"].remove(SIMULATED)
        for side in ("without", "with"):
            self.assertEqual(result["rounds"][0][side]["peak_bytes_of_processes"] is not None, source == "processes")
        row = [row for row in result["results"] if row["name"] == "peak device memory"]
        if source:
            self.assertIn("peak device memory", out)
            return row[0]["without"]["median"] / MIB, row[0]["with"]["median"] / MIB, result["warnings"]
        self.assertEqual((row, result["warnings"]),
                         ([], ["Peak device memory is unknown: NVML is not installed, or it showed no rise."]))
        return None

    def test_memory_of_the_processes(self):
        self.assertEqual(self.held("hold 64", "processes"), (64, 64, []))
        self.assertEqual(self.held("hold_two 64", "processes"), (128, 128, []))

    def test_memory_of_others_is_not_counted(self):
        machine = f"devices=2,machine={self.path('machine')}"
        with actor.Actor(preload=False, CUSTASH_SIM=machine) as other:
            other.ok(f"alloc {100 * MIB}")
            self.assertEqual(self.held("hold 64", "processes"), (64, 64, []))
            without, with_custash, warnings = self.held("hold 64", "devices", "blind")
            self.assertEqual((without, with_custash, len(warnings)), (64, 64, 1))
            other.quit()

    def test_memory_where_nvml_is_blind_or_absent(self):
        for mode in ("blind", "hidden"):
            without, with_custash, warnings = self.held("hold 64", "devices", mode)
            self.assertEqual((without, with_custash), (64, 64))
            self.assertIn("NVML does not list the program's processes here.", warnings[0])
        self.held("hold 64", "", "off")

    # Output and end.

    def test_output(self):
        out, _ = self.compare("says", code=1)
        self.assertIn("standard output: differs with custash, first in line 2: 'custash: no' / 'custash: yes'", out)
        for first in ("nothing", "[0-9], [x-z]"):  # in brackets it is one pattern, no list
            out, _ = self.compare("says", "--ignore", first, "--ignore", "^custash")
            self.assertIn("standard output: the same in all runs, without the ignored lines", out)
        out, _ = self.compare("process")
        self.assertRegex(out, "standard output: the program's own runs differ, first in line 2: 'process [0-9]+' / 'process")
        self.assertNotIn("differs with custash", out)
        out, _ = self.compare("says", code=1, runs=1)
        self.assertIn("one round does not show whether the program's own runs differ", out)

    def test_a_run_that_fails_ends_it(self):
        out, err = self.compare("status", code=1)
        self.assertEqual(out, "")
        self.assertEqual(err, "custash: round 1 of 4, with custash: exit status 3\nThe program wrote last:\n"
                              "  begin\n  it failed \\x1b[31m\n")
        for what, why in (("fail", "exit status 4"), ("crash", "SIGSEGV")):
            _, err = self.compare(what, code=1)
            self.assertIn(f"round 1 of 4, without custash: {why}\n", err)
        result = self.json("fail", code=1)
        self.assertEqual((result["rounds"], result["failure"]), ([], "round 1 of 4, without custash: exit status 4"))

    def test_long_last_words_are_cut(self):
        _, err = self.compare(["sh", "-c", "head -c 5000 /dev/zero; exit 3"], code=1)
        self.assertEqual(max(map(len, err.splitlines())), len("  ") + 200 + len("..."))

    def test_a_machine_without_dev_null(self):
        words = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /dev && mkdir /dev/shm && exec "$@"', "sh"]
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no mount namespace of its own")
        done = subprocess.run([*words, *self.words("churn 50", runs=1)], capture_output=True, text=True, timeout=100, check=False,
                              env=environment(False, CUSTASH_SIM="devices=1"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("served: 50 allocations", done.stdout)

    def test_a_time_limit_is_a_number(self):
        _, err = self.compare("status", "--timeout", "nan", code=125)
        self.assertIn("--timeout: nan is not a number", err)

    def test_a_failure_is_laid_at_the_right_door(self):
        _, err = self.compare("fail", code=1, warmup=1)
        self.assertIn("custash: the program fails without custash, too: exit status 4 (-i compares it all the same)\n", err)
        _, err = self.compare("status", code=1, warmup=1)
        self.assertIn("custash: warm-up 1 of 1, with custash: exit status 3. Without custash it ends well: see docs/troubleshooting.md.\n", err)

    def test_a_time_limit_ends_those_that_ignore_it(self):
        """The leader ends at once. What it has started ignores the signal, or has left the group."""
        for what in ('(trap "" TERM; exec sleep 300.5) & sleep 300', "setsid sleep 300.5 & sleep 300"):
            _, err = self.compare(["sh", "-c", what], "--timeout", "0.3", runs=1, code=1)
            self.assertIn("it took longer than --timeout allows", err)
            found = subprocess.run(["pgrep", "-fx", "sleep 300.5"], capture_output=True, text=True, check=False).stdout
            self.assertEqual(found, "", what)

    def test_a_signal_that_the_parent_had_ignored_stays_ignored(self):
        """As nohup does."""
        note = self.path("note")
        words = self.words(["sh", "-c", f"echo >> {note}; sleep 0.3"], runs=1)
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(False),
                                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        while not os.path.exists(note):
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, ""), out)

    def test_one_export_that_is_refused_loses_no_other(self):
        out, err = self.compare(["sh", "-c", f"echo mine > {self.path('a.json')}"], "--export", "a.json", "--export", "b.html", runs=1,
                                code=125)
        self.assertIn("b.html written", err)
        self.assertIn("Result", out)
        self.assertIn("a.json", err)

    def test_a_process_that_is_left_running_is_told(self):
        left = "A process that the program had started still ran at its end."
        result = self.json(["sh", "-c", "sleep 0.2 & true"], runs=1)
        self.assertTrue(result["left_running"] and result["warnings"][0].startswith(left))
        self.assertEqual(self.json(["true"], runs=1)["left_running"], False)

    def test_a_variable_for_one_side(self):
        result = self.json(["sh", "-c", 'echo "$ONE-$TWO"'], "--with-env", "ONE=1", "--with-env", "TWO=a=b", runs=1, code=1)
        self.assertEqual(result["output_differs"], {"line": 1, "before": "-", "after": "1-a=b"})
        self.assertEqual(result["with_env"], ["ONE=1", "TWO=a=b"])

    def test_failures_can_be_compared(self):
        out, _ = self.compare("fail", "-i")
        self.assertIn("end: exit status 4 in all runs", out)
        out, _ = self.compare("crash", "-i")
        self.assertIn("end: SIGSEGV in all runs", out)
        out, _ = self.compare("status", "--ignore-failure", code=1, runs=1)
        self.assertIn("end: differs with custash; without: exit status 0; with: exit status 3\n", out)

    def lines_in(self, file):
        if not os.path.exists(file):
            return 0
        with open(file, encoding="utf-8") as notes:
            return len(notes.readlines())

    def gone(self, file):
        """All processes in the file have ended."""
        with open(file, encoding="utf-8") as notes:
            processes = [int(line.split()[1]) for line in notes]
        for _ in range(200):
            alive = [each for each in processes if os.path.exists(f"/proc/{each}")]
            if not alive:
                return len(processes)
            time.sleep(0.02)
        raise AssertionError(f"{alive} of {processes} live still")

    def test_a_time_limit_ends_all_processes(self):
        _, err = self.compare(f"sleep {self.path('notes')} 1", "--timeout", "1", code=1)
        self.assertIn("round 1 of 4, without custash: it took longer than --timeout allows\n", err)
        self.assertEqual(self.gone(self.path("notes")), 2)

    def test_signals_keep_the_complete_rounds(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            file = self.path(f"notes-{number}")
            process = subprocess.Popen(self.words(f"sleep {file} 5"), env=environment(False, CUSTASH_SIM="devices=1"),
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while self.lines_in(file) < 6:
                time.sleep(0.01)
            process.send_signal(number)
            out, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 128 + number)
            self.assertIn("2 rounds (of 4), each", out)
            self.assertIn("wall time", out)
            self.assertEqual(self.gone(file), 6)

    def test_a_terminal(self):
        """Progress is shown there, and the program cannot read from it."""
        process, terminal = pty.fork()
        if process == 0:
            os.execve(PATHS.command, self.words(["sh", "-c", "read x </dev/tty"], runs=1), environment(False))
        text = b""
        try:
            while part := os.read(terminal, 4096):
                text += part
        except OSError:
            pass  # the end
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), 1)
        self.assertIn(b"round 1 of 1, without custash   0 %", text)
        self.assertIn(b"it reads from the terminal, which it cannot have while it is measured", text)

    # Files.

    def test_exports(self):
        names = [f"c.{form}" for form in ("html", "md", "svg", "json")]
        exports = [word for name in names for word in ("--export", name)]
        for _ in range(2):  # what custash wrote is replaced
            _, err = self.compare("churn 10 <b>&", *exports, runs=2)
            self.assertEqual(re.sub(r"\(\d+", "(N", err).splitlines(),
                             [f"custash: {name} written (N {unit}, comparison)"
                              for name, unit in zip(names, ("KB", "KB", "KB", "KB"))])
        text = {}
        for name in names:
            text[name] = self.read(name)
        for each in ("c.html", "c.svg"):
            self.assertIn("wall time", text[each])
            self.assertIn("&lt;b>&amp;", text[each])
            self.assertNotRegex(text[each], r"(src|href)=|<b>")
            self.assertEqual(text[each].count("<circle"), 4)
        self.assertIn("| wall time |", text["c.md"])
        self.assertEqual(len(json.loads(text["c.json"])["rounds"]), 2)

    def test_files_of_others_stay(self):
        for name in ("a.html", "a.md", "a.svg", "a.json"):
            self.write(name, "mine")
            self.refused("exists and is no", "churn 1", "--export", name)
            self.compare("churn 1", "--export", name, "--force", runs=1)
        self.refused("end the name in .html, .md, .svg or .json", "churn 1", "--export", "a.txt")
        self.refused("nowhere", "churn 1", "--export", "nowhere/a.md")
        self.write("round-2-with.err", "mine")
        self.refused("round-2-with.err exists", "churn 1", "--keep", self.folder)
        self.assertEqual(self.read("round-2-with.err"), "mine")

    def test_output_is_kept(self):
        self.compare("says", "--keep", self.folder, code=1, runs=2, warmup=1)
        found = sorted(os.listdir(self.folder))
        self.assertEqual(found, [f"round-{n}-{side}.{kind}" for n in (1, 2) for side in ("with", "without")
                                 for kind in ("err", "out")])
        self.assertEqual(self.read("round-2-with.out"), "begin\ncustash: yes\n")

    def test_refusals(self):
        self.refused("no program given (custash compare [OPTIONS] -- PROGRAM", [])
        self.refused("nothing-here: not found on PATH", ["nothing-here"], code=127)
        self.refused("--conf: unknown option 'x'", "churn 1", "--conf", "x:1")
        done = shared.custash("compare", "--lib", "/nowhere.so", "--", "true")
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertIn("libcustash.so not found; looked for\n  /nowhere.so\n", done.stderr)
        self.refused("--ignore: (: Unmatched ( or", "churn 1", "--ignore", "(")
        self.refused("--metric: [: ", "churn 1", "--metric", "[")
        self.refused("--keep: /proc/nowhere: ", "churn 1", "--keep", "/proc/nowhere")
        self.refused("--with-env: =1: write NAME=VALUE", "churn 1", "--with-env", "=1")
        self.refused("enabled:false, in CUSTASH_CONF or --conf, switches custash off", "churn 1", "--conf", "enabled:false")
        for options in (("--runs", "0"), ("--runs", "101"), ("--warmup", "-1"), ("--timeout", "0"), ("--runs", "x"), ("--bogus",)):
            self.refused("(custash compare --help)", "churn 1", *options)
        static = "/bin/busybox"
        if os.path.exists(static) and b"statically" in subprocess.run(["file", static], capture_output=True, check=False).stdout:
            self.refused("busybox cannot run with custash: it is linked statically", [static, "true"])


if __name__ == "__main__":
    shared.main()
