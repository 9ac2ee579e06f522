# SPDX-License-Identifier: MIT
"""What `custash run` reports however its program ends, and that the program meets nobody in between."""
import glob
import os
import re
import signal
import subprocess
import time
import unittest

import program as shared
from program import PATHS, InFolder, environment, read

# Whoever runs the tests may ignore some of them (nohup), and children would inherit that.
for usual in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(usual, signal.SIG_DFL)

MIB = 1 << 20

# How, its status, and what the report says of it ("" where the program could be asked).
ENDS = [("exit", 0, ""), ("status", 5, ""), ("abort", -signal.SIGABRT, "SIGABRT"), ("_exit", 6, "_exit or exec"),
        ("crash", -signal.SIGSEGV, "SIGSEGV"), ("kill", -signal.SIGKILL, "SIGKILL"),
        ("interrupt", -signal.SIGINT, "SIGINT"), ("exec", 4, "_exit or exec"), ("fork", 0, "")]


def folders():
    return glob.glob("/dev/shm/custash-run.*") + glob.glob("/tmp/custash-run.*")


def ours(process):
    return [each for each in folders() if os.path.basename(each).startswith(f"custash-run.{process}.")]


class Endings(InFolder):
    def words(self, how, *options, program="endings"):
        return [PATHS.command, "run", "--lib", PATHS.library, *options, "--", os.path.join(PATHS.programs, program), how]

    def start(self, words, **more):
        """In a session of its own, so that what it signals is no more than its own group."""
        return subprocess.Popen(words, env=environment(preload=False, CUSTASH_SIM="devices=1"), text=True,
                                cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **{"start_new_session": True, **more})

    def run_it(self, how, *options, **more):
        process = self.start(self.words(how, *options), **more)
        out, err = process.communicate(timeout=60)
        self.assertEqual(ours(process.pid), [])
        return process.returncode, out, err

    def load(self, name="f.json"):
        return super().load(name)

    def check_report(self, snapshot, ended_by="", allocations=103, leaked=3):
        self.assertEqual(snapshot.get("ended_by", ""), ended_by)
        history = snapshot["history"]
        self.assertEqual(sum(s["allocations"] for s in history["sites"]), allocations)
        leaks = [s for s in history["sites"] if s["blocks"]]
        self.assertEqual((sum(s["blocks"] for s in leaks), sum(s["bytes"] for s in leaks)), (leaked, leaked * 4 * MIB))
        for site in leaks:
            first = snapshot["frames"][snapshot["stacks"][site["stack"]][0]]
            self.assertEqual((first["name"], os.path.basename(first["module"])), ("leak_one", "endings"))
            self.assertRegex(first["build_id"], "^[0-9a-f]{40}$")
        actions = [e[1] for e in history["events"]]
        self.assertEqual((actions.count("alloc"), actions.count("free")), (allocations, allocations - leaked))
        stats = snapshot["devices"][0]["stats"]
        self.assertEqual((stats["allocation.all.allocated"], stats["allocation.all.freed"],
                          stats["requested_bytes.all.current"]),
                         (allocations, allocations - leaked, leaked * 4 * MIB))
        held = sum(s["size"] for s in snapshot["devices"][0]["segments"])
        self.assertGreaterEqual(held, stats["reserved_bytes.all.current"])
        if not ended_by:
            self.assertEqual(held, stats["reserved_bytes.all.current"])
        used = 0
        for segment in snapshot["devices"][0]["segments"]:
            at = segment["address"]
            for address, size, _, state, _ in segment["blocks"]:
                self.assertEqual(address, at)
                at += size
                used += size if state == "used" else 0
            self.assertEqual(at, segment["address"] + segment["size"])
        self.assertEqual(used, leaked * 4 * MIB)

    def test_every_end_with_every_report(self):
        for how, status, ended_by in ENDS:
            with self.subTest(how):
                bare = subprocess.run([os.path.join(PATHS.programs, "endings"), how], timeout=60, check=False,
                                      env=environment(False, CUSTASH_SIM="devices=1"), start_new_session=True)
                self.assertEqual(bare.returncode, status)
                for name, form in (("f.json", ""), ("f.html", "; open it in a browser")):
                    code, _, err = self.run_it(how, "--record-history", name)
                    made = f"custash: {ended_by} ended the program: the report's map of memory is made from its history\n"
                    self.assertRegex(err, rf"^custash: {name} written \(\d+ KB, 103 allocations\){form}"
                                     + "\n" + (re.escape(made) if ended_by else "") + "$")
                    self.assertEqual(code, status)
                self.check_report(self.load(), ended_by)
                code, _, err = self.run_it(how, "--leaks")
                when = f"when {ended_by} ended it" if ended_by else "at exit"
                self.assertIn(f"custash: still allocated {when}: 12.0 MiB (12582912 bytes) in 3 blocks", err)
                self.assertIn("leak_one", err)
                self.assertEqual(code, status)
                code, _, err = self.run_it(how, "--summary")
                lines = err.splitlines()
                self.assertRegex(lines[-1], "^custash: device 0: 103 allocations, 100 frees; peak in use 12.0 MiB, "
                                            "peak reserved 12.0 MiB; driver calls for memory 6 ")
                self.assertEqual(lines[:-1], [f"custash: {ended_by} ended the program: peaks and waits may lack its "
                                              "last 10 ms"] if ended_by else [])
                self.assertEqual(code, status)
                code, _, err = self.run_it(how, "--record", "r.trace")
                self.assertRegex(err, r"^custash: r.trace written \(\d KB, 203 events\)\n$")
                self.assertEqual(code, status)

    def test_signals_to_the_command_reach_the_program_once(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
            for to_all in (False, True):
                process = self.start(self.words("wait", "--record-history", "f.json"))
                self.assertEqual(process.stdout.readline(), "ready\n")
                (os.killpg if to_all else os.kill)(process.pid, number)
                _, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, -number)
                self.assertIn("f.json written", err)
                self.check_report(self.load(), number.name)
        for to_all in (False, True):
            process = self.start(self.words("count", "--summary"))
            self.assertEqual(process.stdout.readline(), "ready\n")
            if to_all:
                os.killpg(process.pid, signal.SIGTERM)
            else:
                process.terminate()
            self.assertEqual(process.communicate(timeout=60)[0], "1\n", to_all)
            self.assertEqual(process.returncode, 0)

    def test_a_program_that_handles_the_signal_has_its_own_status(self):
        process = self.start(self.words("handle", "--record-history", "f.json"))
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.terminate()
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 7)
        self.check_report(self.load(), "_exit or exec")

    def test_threads_that_are_killed_while_they_allocate(self):
        for _ in range(20):
            process = self.start(self.words("churn", "--record-history", "f.json", "--conf", "history:500"))
            self.assertEqual(process.stdout.readline(), "ready\n")
            time.sleep(0.02)
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, -signal.SIGTERM)
            snapshot = self.load()
            leaked = sum(s["bytes"] for s in snapshot["history"]["sites"] if s["bytes"] >= MIB)
            self.assertEqual(leaked, 12 * MIB)
            blocks = sum(s["blocks"] for s in snapshot["history"]["sites"])
            self.assertTrue(3 <= blocks <= 5, blocks)
            # The oldest one in a full ring may be half overwritten: it is left out.
            seen = snapshot["history"]["events_seen"]
            self.assertEqual(len(snapshot["history"]["events"]), seen if seen < 500 else 499)
            times = [e[0] for e in snapshot["history"]["events"]]
            self.assertEqual(times, sorted(times))

    def test_memory_that_runs_out(self):
        code, _, err = self.run_it("memory", "--record-history", "f.json")
        self.assertEqual(code, -signal.SIGABRT)
        self.assertRegex(err, r"custash: f\.json written .*\ncustash: SIGABRT .*\n"
                              r"custash: out of memory on device 0: 1073741824 bytes asked for; .* of the peak allocated by .*\n"
                              r"custash: f\.oom\.json written when memory ran out\n$")
        self.assertEqual(self.load()["devices"][0]["stats"]["num_ooms"], 1)
        self.assertEqual(self.load("f.oom.json")["history"]["events"][-1][1], "oom")

    def test_each_process_and_each_program_of_one_has_its_report(self):
        code, _, err = self.run_it("again", "--record-history", "f.json", "--summary")
        self.assertEqual((code, err.count("device 0: 103 allocations")), (6, 2))
        self.check_report(self.load(), "exec")
        self.check_report(self.load(next(n for n in os.listdir(self.folder) if n != "f.json")), "_exit or exec")
        os.unlink(os.path.join(self.folder, "f.json"))
        for name in os.listdir(self.folder):
            os.unlink(os.path.join(self.folder, name))
        code, _, err = self.run_it("children", "--record-history", "f.json")
        self.assertEqual((code, len(os.listdir(self.folder))), (0, 2), err)
        ends = sorted(self.load(name).get("ended_by", "") for name in os.listdir(self.folder))
        self.assertEqual(ends, ["", "a signal or _exit"])

    def test_a_process_that_outlives_the_program_reports_itself(self):
        process = self.start(self.words("daemon", "--record-history", "f.json"))
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual((ours(process.pid), os.listdir(self.folder)), ([], []))
        process.stdin.close()
        self.assertRegex(process.stderr.read(),  # until the daemon ends
                         r"^custash: process \d+ still runs; it reports itself when it exits\n$")
        process.stdout.close()
        process.stderr.close()
        self.check_report(self.load())

    def test_what_is_ignored_or_blocked_stays_so(self):
        def prepare():
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_IGN)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
        said = [self.run_it("dispositions", *options, preexec_fn=prepare)[:2] for options in
                ((), ("--summary",), ("--record", "r.trace"), ("--record-history", "f.html"))]
        self.assertEqual(said, [(0, f"1 1 0 0 0 1 0\nblocked {int(signal.SIGURG)}\n")] * 4)

    def test_a_program_that_suspends_itself(self):
        process = self.start(self.words("stop", "--summary"), start_new_session=False, process_group=0)
        self.assertEqual(process.stdout.readline(), "ready\n")
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, "103 allocations" in err), (0, True))

    def stops(self, process):
        """Whether the command has stopped, too, some time after its program did."""
        give_up = time.monotonic() + 60
        state = ""
        while state != "T" and time.monotonic() < give_up:
            children = read(f"/proc/{process.pid}/task/{process.pid}/children").split()
            for child in children:  # one of them watches signals
                text = read(f"/proc/{child}/stat")
                state = text.rsplit(")", 1)[1].split()[0] if "(endings)" in text else state
        self.assertEqual(state, "T")
        time.sleep(0.5)
        return os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)[0] != 0

    def test_a_program_that_is_frozen(self):
        """SIGSTOP stops the job where a shell waits for it at a terminal, and nothing else."""
        process = self.start(self.words("freeze", "--summary"))
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assertFalse(self.stops(process))
        os.killpg(process.pid, signal.SIGCONT)
        self.assertIn("103 allocations", process.communicate(timeout=60)[1])
        self.assertEqual(process.returncode, 0)
        terminal, end = os.openpty()
        self.addCleanup(os.close, terminal)
        # Not the descriptor that is inherited: a session takes the first terminal that it opens.
        process = self.start(self.words("freeze", "--summary"),
                             preexec_fn=lambda: os.close(os.open(os.ttyname(end), os.O_RDWR)))
        os.close(end)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assertTrue(self.stops(process))
        process.send_signal(signal.SIGCONT)
        self.assertIn("103 allocations", process.communicate(timeout=60)[1])
        self.assertEqual(process.returncode, 0)

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_a_program_that_drops_its_rights_reports_itself(self):
        os.chmod(self.folder, 0o777)
        code, _, err = self.run_it("drop", "--record-history", "f.json")
        self.assertEqual(code, 0, err)
        self.assertEqual(len(re.findall(r"^custash: process \d+ has reported itself", err, flags=re.M)), 1, err)
        self.assertEqual(os.listdir(self.folder), ["f.json"])
        self.assertEqual(os.stat(os.path.join(self.folder, "f.json")).st_uid, 65534)
        self.check_report(self.load())

    def test_nothing_is_left_and_a_killed_commands_folder_goes_next_time(self):
        process = self.start(self.words("wait", "--record-history", "f.json"))
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assertEqual(len(ours(process.pid)), 1)
        mode = os.stat(ours(process.pid)[0]).st_mode & 0o777
        self.assertEqual(mode, 0o700)
        process.kill()
        process.communicate(timeout=60)  # the program dies with it
        self.assertEqual(len(ours(process.pid)), 1)
        shared.custash("top", "--once")
        self.assertEqual(ours(process.pid), [])

    def test_the_folder_goes_with_all_that_is_in_it_and_nothing_else(self):
        """The program makes a folder in it, or puts a link to a folder of its own in its place."""
        kept = os.path.join(self.folder, "kept")
        os.makedirs(kept)
        open(os.path.join(kept, "file"), "w", encoding="utf-8").close()
        for what in ('mkdir "$d"/sub', f'rm -r "$d"; ln -s {kept} "$d"'):
            words = [PATHS.command, "run", "--lib", PATHS.library, "--summary", "--", "sh", "-c", f"d=$(echo /dev/shm/custash-run.$PPID.*); {what}"]
            process = self.start(words)
            _, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, ours(process.pid), os.listdir(kept)), (0, [], ["file"]), err)

    def test_switched_off_is_one_line(self):
        code, _, err = self.run_it("exit", "--conf", "enabled:false", "--summary", "--leaks")
        self.assertEqual((code, err), (0, "custash: enabled:false: 0 allocations served: no list of leaks, no summary\n"))

    def test_no_cuda_is_one_line(self):
        words = [PATHS.command, "run", "--lib", PATHS.library, "--record-history", "f.html", "--leaks", "--summary",
                 "--record", "r.trace", "--", "/bin/true"]
        done = subprocess.run(words, cwd=self.folder, env=environment(False), capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (0, "custash: no process reported the use of CUDA: nothing recorded in r.trace, f.html not written, no list "
                             "of leaks, no summary\n"))

    def test_a_report_whose_folder_is_gone_lies_with_temporary_files(self):
        spare = os.path.join(self.folder, "temporary")
        gone = os.path.join(self.folder, "gone")
        for folder in (spare, gone):
            os.mkdir(folder)
        words = self.words("wait", "--record-history", os.path.join(gone, "f.json"))
        process = self.start(["env", f"TMPDIR={spare}", *words])
        self.assertEqual(process.stdout.readline(), "ready\n")
        os.rmdir(gone)
        os.kill(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, len(os.listdir(spare))), (-signal.SIGTERM, 1), err)
        self.assertIn(f"custash: {gone}/f.json: No such file or directory\n", err)
        self.assertRegex(err, r"\ncustash: temporary/f\.\d+\.json written ")
        self.check_report(self.load(os.path.join(spare, os.listdir(spare)[0])), "SIGTERM")

    def test_memory_that_cannot_be_shared(self):
        """A folder with hardly any room: the process goes on in memory of its own and reports itself."""
        script = ("mount -t tmpfs -o size={}k none /dev/shm && cd {} && exec {} run --lib {} --record-history f.json "
                  "-- {} exit")
        for room in (16, 300):
            for name in os.listdir(self.folder):
                os.unlink(os.path.join(self.folder, name))
            done = subprocess.run(["unshare", "-m", "sh", "-c", script.format(
                room, self.folder, PATHS.command, PATHS.library, os.path.join(PATHS.programs, "endings"))],
                env=environment(False, CUSTASH_SIM="devices=1"), capture_output=True, text=True, timeout=60, check=False)
            if "mount" in done.stderr or "unshare" in done.stderr:
                self.skipTest("no mount of our own here")
            self.assertEqual(done.returncode, 0)
            self.assertIn("has reported itself, since it could not share memory with the command", done.stderr)
            self.check_report(self.load())


if __name__ == "__main__":
    shared.main()
