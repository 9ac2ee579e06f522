# SPDX-License-Identifier: MIT
"""Sleep: a process's device memory goes to the host and comes back by itself, and others have it meanwhile."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time

import program
from actor import DONE, Actor, Actors, ask, connect, machine, open_files, services
from program import PATHS, custash, processes, read, within

MIB = 1 << 20
OUT_OF_MEMORY = 2
FIRST, SECOND = 70 * MIB, 80 * MIB  # together more than the device has
# Where memory control groups are made, and the file of a group's limit: version 2, version 1.
GROUPS = (("/sys/fs/cgroup", "cgroup.controllers", "memory.max"),
          ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.limit_in_bytes"))


def look(pid):
    """What `custash top` knows of a process."""
    return processes()[pid]


class Sleep(Actors):
    def setUp(self):
        self.settings = f"devices=2,memory=128m,{machine()}"

    def actor(self, *, conf="", **more):
        return super().actor(CUSTASH_CONF="backing:vmm" + conf, CUSTASH_SIM=self.settings, **more)

    def filled(self, **more):
        actor = self.actor(**more)
        actor.ok(f"alloc {FIRST}")
        actor.ok("mix 0 7")
        actor.ok("sync")
        return actor

    def put_to_sleep(self, actor):
        done = custash("sleep", actor.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("asleep", done.stdout)

    def test_others_have_the_memory_until_the_next_call_needs_it(self):
        for conf in ("", ",sleep_pinned:1g"):
            with self.subTest(conf):
                first, second = self.filled(conf=conf), self.actor()
                self.assertEqual(second.code(f"alloc {SECOND}"), OUT_OF_MEMORY)
                self.put_to_sleep(first)
                seen = look(first.pid)
                self.assertEqual((seen["sleep"], seen["devices"][0]["asleep_bytes"] >= FIRST), ("asleep", True))
                again = custash("sleep", first.pid)
                self.assertEqual((again.returncode, again.stdout), (0, f"{first.pid}: asleep already\n"))
                second.ok(f"alloc {SECOND}")
                second.ok("fill 0 1")
                second.quit()
                self.assertEqual(first.ok("mixed 0 7"), ["0"])
                seen = look(first.pid)
                self.assertEqual((seen["sleep"], seen["devices"][0]["asleep_bytes"]), ("awake", 0))
                first.quit()

    def test_waking_waits_until_there_is_room(self):
        first, second = self.filled(), self.actor()
        self.put_to_sleep(first)
        second.ok(f"alloc {SECOND}")
        first.tell("mixed 0 7")
        time.sleep(0.3)
        second.ok("free 0")  # cached now: the neighbour asks for it
        self.assertEqual(first.hear(), ["0", "0"])

    def test_memory_that_the_driver_serves_does_not_take_the_room_of_what_sleeps(self):
        first = self.filled()
        self.put_to_sleep(first)
        for line in (f"alloc_managed {SECOND}", f"create {SECOND} 0", f"alloc_pitch {MIB} {SECOND // MIB}"):
            self.assertEqual(first.code(line), OUT_OF_MEMORY, line)
            self.assertEqual(first.ok("mixed 0 7"), ["0"])
            self.put_to_sleep(first)

    def test_a_stopped_process_is_given_up_and_holds_up_no_other(self):
        stopped, works = self.actor(), self.filled()
        stopped.ok("alloc 1000")
        os.kill(stopped.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, stopped.pid, signal.SIGCONT)
        for verb, words in (("sleep", "asleep"), ("wake", "awake")):
            began = time.monotonic()
            done = custash(verb, "--patience", 1, stopped.pid, works.pid)
            self.assertLess(time.monotonic() - began, 20)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, f"custash: process {stopped.pid} does not answer: it is stopped\n")
            self.assertTrue(done.stdout.startswith(f"{works.pid}: ") and words in done.stdout, done.stdout)
        began = time.monotonic()
        self.assertIn("it is stopped", custash("trim", "--deep", "--patience", 1, stopped.pid).stderr)
        self.assertLess(time.monotonic() - began, 20)

    def test_one_that_works_is_waited_for_beyond_the_patience(self):
        first, second = self.filled(), self.actor()
        self.put_to_sleep(first)
        second.ok(f"alloc {SECOND}")  # there is no room
        with subprocess.Popen([PATHS.command, "wake", "--patience", "1", str(first.pid)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=program.environment(False)) as waking:
            self.assertEqual(waking.stderr.readline(), f"custash: waiting for {first.pid}\n")
            second.ok("free 0")
            self.assertEqual(waking.communicate(timeout=60)[0], f"{first.pid}: awake\n")
        self.assertEqual(first.ok("mixed 0 7"), ["0"])

    def test_waking_that_finds_no_room_holds_up_nothing(self):
        """While it waits for room a context ends, other processes are answered, and the process ends."""
        first, second = self.filled(), self.actor()
        first.ok("device 1")
        first.ok("context 1")
        first.ok(f"alloc {20 * MIB}")
        self.put_to_sleep(first)
        second.ok(f"alloc {SECOND}")
        with subprocess.Popen([PATHS.command, "wake", str(first.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, env=program.environment(False)) as waking:
            time.sleep(0.5)
            began = time.monotonic()
            self.assertEqual(look(first.pid)["sleep"], "waking")
            self.assertEqual(custash("stat", first.pid).returncode, 0)
            first.ok("destroy 0")
            self.assertLess(time.monotonic() - began, 10)
            self.assertEqual(custash("trim", first.pid).returncode, 0)
            self.assertIsNone(waking.poll())
            second.ok("free 0")
            self.assertEqual(waking.wait(60), 0, waking.stderr.read())
        first.ok("device 0")
        self.assertEqual(first.ok("mixed 0 7"), ["0"])

    def stop(self, actor):
        os.kill(actor.pid, signal.SIGSTOP)
        self.assertIsNotNone(within(10, lambda: self.state_of(actor) == "T"))

    @staticmethod
    def state_of(actor):
        return read(f"/proc/{actor.pid}/stat").rpartition(")")[2].split()[0]

    def answer_at_once(self, actor, verb):
        (name,) = services(actor.pid)
        with connect(name, timeout=1) as link:
            return ask(link, verb)

    def test_two_that_wake_in_the_room_for_one_do_not_share_it(self):
        """Each may have found half of the room, and must not keep it from the other."""
        first, second = self.filled(), self.actor()
        self.put_to_sleep(first)
        second.ok(f"alloc {FIRST}")
        second.ok("mix 0 9")
        second.ok("sync")
        self.put_to_sleep(second)
        holds = self.actor()
        holds.ok(f"alloc {64 * MIB}")
        self.asks_to_wake(first)
        self.stop(first)
        self.addCleanup(first.process.send_signal, signal.SIGCONT)
        holds.ok("free 0")
        holds.ok("empty")
        self.asks_to_wake(second)
        os.kill(first.pid, signal.SIGCONT)
        awake, end = [], time.monotonic() + 20
        while not awake and time.monotonic() < end:
            for actor in (first, second):
                self.assertEqual(self.answer_at_once(actor, "ping")[0], DONE)
                self.assertEqual(self.answer_at_once(actor, "stat json 0")[0], DONE)
            time.sleep(0.05)
            awake = [each for each in (first, second) if self.answer_at_once(each, "wake")[1] == "awake"]
        self.assertEqual(len(awake), 1, "none has come back")
        (other,) = {first, second} - set(awake)
        values = {first: 7, second: 9}
        self.assertEqual(awake[0].ok(f"mixed 0 {values[awake[0]]}"), ["0"])
        awake[0].quit()
        self.assertEqual(custash("wake", other.pid).stdout, f"{other.pid}: awake\n")
        self.assertEqual(other.ok(f"mixed 0 {values[other]}"), ["0"])

    def asks_to_wake(self, actor):
        self.assertEqual(self.answer_at_once(actor, "wake")[1], "waking")
        time.sleep(0.3)  # it takes what it finds

    def test_a_request_that_waits_for_work_gives_way_to_the_end_of_a_context(self):
        first = self.filled()
        first.ok("context 1")
        first.ok("context 1")
        first.ok("device 0")
        for context, words in enumerate((("sleep",), ("trim", "--deep"))):
            first.ok("hold 5")
            with subprocess.Popen([PATHS.command, *words, "--patience", "60", str(first.pid)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, env=program.environment(False)) as asking:
                time.sleep(0.3)
                began = time.monotonic()
                first.ok(f"destroy {context}")
                self.assertLess(time.monotonic() - began, 3)
                self.assertIn("the program is ending a context", asking.communicate(timeout=60)[1])
            first.ok("sync")

    def test_nobody_to_ask_is_said(self):
        for words in (["sleep", "--all"], ["wake", "--all"], ["trim", "--deep", "--all"]):
            # In a network namespace of its own, which has no service of any test.
            done = subprocess.run(["unshare", "-rn", PATHS.command, *words], capture_output=True, text=True, timeout=60,
                                  env=program.environment(False), check=False)
            if "unshare" in done.stderr:
                self.skipTest(done.stderr.strip())
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "no process of yours runs under custash\n", ""))

    def test_answers_about_memory_are_as_awake(self):
        first = self.filled()
        questions = ["info", "range 0 5", "access 0 0", "texture 0 4096", *(f"attribute 0 {number}" for number in (2, 9, 11, 12, 13))]
        awake = [first.do(each) for each in questions]
        for each, answer in zip(questions, awake):
            self.put_to_sleep(first) if look(first.pid)["sleep"] == "awake" else None
            self.assertEqual(first.do(each), answer, each)
        self.assertEqual(first.ok("mixed 0 7"), ["0"])

    def test_what_another_process_has_open_stays_awake(self):
        first, second = self.filled(conf=",sleep_pinned:256m"), self.actor()
        handle = first.ok("export 0")[0]
        self.put_to_sleep(first)
        second.ok(f"open {handle} {FIRST}")  # wakes it
        self.assertEqual(second.ok("mixed 0 7"), ["0"])
        first.ok("alloc 5000000")
        first.ok("fill 1 3")
        done = custash("sleep", first.pid)
        self.assertIn("exported", done.stdout)
        second.ok("fill 0 9")
        second.ok("sync")
        self.assertEqual(first.ok("check 0 9"), ["0"])
        self.assertEqual(first.ok("check 1 3"), ["0"])
        second.ok("close 0")
        custash("sleep", first.pid)
        self.assertEqual(first.ok("check 0 9"), ["0"])  # not the copy of the first sleep

    def test_idle_processes_sleep_by_themselves(self):
        first = self.filled(conf=",sleep_after:1")
        self.assertIsNotNone(within(10, lambda: look(first.pid)["sleep"] == "asleep"))
        self.assertEqual(first.ok("mixed 0 7"), ["0"])
        self.assertIsNotNone(within(10, lambda: look(first.pid)["sleep"] == "asleep"))

    def test_a_sleeping_process_ends_as_others_do(self):
        first, killed, second = self.actor(), self.actor(), self.actor()
        for actor in (first, killed):
            actor.ok(f"alloc {20 * MIB}")
            actor.ok("fill 0 7")
            self.put_to_sleep(actor)
        self.assertEqual(first.quit(), 0)
        killed.process.kill()
        killed.process.wait()
        second.ok(f"alloc {120 * MIB}")

    def test_one_that_is_killed_on_the_way_to_sleep_or_back_leaves_nothing(self):
        second, killed = self.actor(), []
        with tempfile.TemporaryDirectory() as folder:
            for way in ("to sleep", "back"):
                for moment in (0, 1, 2, 4, 7, 11):  # ms: all of it takes some 10
                    first = self.actor(conf=f",sleep_memory:8m,sleep_dir:{folder}")
                    first.ok(f"alloc {24 * MIB}")
                    first.ok("fill 0 7")
                    with subprocess.Popen([PATHS.command, "sleep", str(first.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                          env=program.environment(False)) as asked:
                        if way == "back":
                            self.assertEqual(asked.wait(60), 0)
                            first.tell("mixed 0 7")
                        time.sleep(moment / 1000)
                        first.process.kill()
                        killed.append(first.process.wait() and first.pid)
                    with self.subTest(way=way, moment=moment):
                        self.assertEqual(os.listdir(folder), [])
                        second.ok(f"alloc {120 * MIB}")
                        second.ok("free 0")
                        second.ok("empty")
        left = {each["pid"] for each in json.loads(custash("top", "--once", "--json").stdout)["processes"]}
        self.assertEqual(left & set(killed), set())

    def test_a_context_ends_while_it_sleeps(self):
        first, second = self.filled(), self.actor()
        first.ok("context 0")
        first.ok(f"alloc {20 * MIB}")
        first.ok("fill 1 3")
        self.put_to_sleep(first)
        first.ok("destroy 0")
        first.ok("device 0")
        self.assertEqual(first.ok("mixed 0 7"), ["0"])
        first.ok("free 0")
        first.ok("empty")
        second.ok(f"alloc {120 * MIB}")

    def test_what_cannot_sleep_says_why(self):
        plain = Actor(CUSTASH_CONF="backing:driver", CUSTASH_SIM=self.settings)
        self.addCleanup(plain.__exit__)
        plain.ok(f"alloc {20 * MIB}")
        done = custash("sleep", plain.pid)
        self.assertEqual(done.returncode, 1)
        self.assertIn("MiB from cuMemAlloc", done.stderr)
        unseen = self.filled(conf=",free:strict")
        self.assertIn("free:strict", custash("sleep", unseen.pid).stderr)
        self.assertEqual(custash("sleep", os.getpid()).returncode, 1)
        self.assertEqual(custash("sleep").returncode, 125)

    def test_too_little_host_memory_is_refused_with_the_figures(self):
        group, limit = next(((f"{folder}/custash-sleep-{os.getpid()}", limit) for folder, sign, limit in GROUPS
                             if os.path.exists(f"{folder}/{sign}")), (None, None))
        try:
            os.mkdir(group or "")
            self.addCleanup(os.rmdir, group)
            with open(f"{group}/{limit}", "w", encoding="ascii") as file:
                file.write(str(320 * MIB))
        except OSError as error:
            self.skipTest(f"no memory control group can be made: {error}")
        first = self.filled()
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as members:
            members.write(str(first.pid))
        done = custash("sleep", first.pid)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"host memory: needs 70 MiB, has \d+ MiB")
        self.assertEqual(first.ok("mixed 0 7"), ["0"])
        self.assertEqual(first.quit(), 0)

    def test_what_host_memory_has_no_room_for_goes_to_a_file_without_a_name(self):
        with tempfile.TemporaryDirectory() as folder:
            first = self.filled(conf=f",sleep_memory:20m,sleep_dir:{folder}")
            second = self.actor()
            for _ in range(2):
                done = custash("sleep", first.pid)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                self.assertRegex(done.stdout, rf"are in host memory and \d+ MiB in {folder}, after")
                self.assertEqual(os.listdir(folder), [])
                self.assertTrue(self.files_of(first, folder))
                second.ok(f"alloc {SECOND}")
                second.ok("free 0")
                second.ok("empty")
                self.assertEqual(first.ok("mixed 0 7"), ["0"])
                self.assertEqual(self.files_of(first, folder), [])

    def test_only_what_has_changed_is_copied(self):
        first = self.filled(conf=",sleep_pinned:200m")
        first.ok(f"alloc {20 * MIB}")
        first.ok("fill 1 9")
        for number, kept in (7, False), (7, True), (8, False), (8, True):
            if number == 8 and not kept:
                first.ok("mix 0 8")
                first.ok("sync")
            done = custash("sleep", first.pid)
            self.assertRegex(done.stdout, r"9\d MiB asleep, of which 70 MiB are in host memory, after")
            found = re.search(r"unchanged since the last sleep: (\d+) MiB", done.stdout)
            # As much as may be pinned.
            self.assertEqual(found is not None and int(found[1]) > 0, kept)
            self.assertEqual(first.ok("check 1 9"), ["0"])
            self.assertEqual(first.ok(f"mixed 0 {number}"), ["0"])

    def test_memory_that_the_program_mapped_sleeps_too(self):
        """As llama.cpp maps (one handle, kept) and as PyTorch's expandable segments do (pieces, released)."""
        first, second = self.actor(), self.actor()
        handle = first.number(f"create {20 * MIB}")
        whole, pieces = first.number(f"map {handle}"), first.number(f"pieces {2 * MIB} 20")
        first.ok(f"fill {whole} 7")
        first.ok(f"fill {pieces} 9")
        for turn in range(5):
            with self.subTest(turn):
                self.put_to_sleep(first)
                self.assertEqual(look(first.pid)["devices"][0]["asleep_bytes"], 60 * MIB)
                other = second.number(f"alloc {100 * MIB}")
                second.ok(f"free {other}")
                second.ok("empty")
                if turn % 4 == 0:  # a query wakes it, too
                    self.assertEqual(first.ok(f"attribute {whole} 2"), ["2"])
                    self.assertEqual(look(first.pid)["sleep"], "awake")
                self.assertEqual(first.ok(f"check {whole} 7"), ["0"])
                self.assertEqual(first.ok(f"check {pieces} 9"), ["0"])
                self.assertEqual(first.ok(f"properties {handle}"), ["1", "0"])
        again = first.number(f"create {2 * MIB}")
        first.ok(f"map {again}")
        self.put_to_sleep(first)
        first.ok(f"unmap {whole}")  # wakes it
        for each in (handle, again):
            first.ok(f"release {each}")
        self.assertEqual(first.ok(f"check {pieces} 9"), ["0"])
        first.ok(f"unmap {pieces}")
        self.assertEqual(first.quit(), 0)

    def test_threads_that_make_and_end_mappings_beside_sleep(self):
        done = program.run("mapped", timeout=300, CUSTASH_CONF="backing:vmm", CUSTASH_SIM="devices=2,memory=1g")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^slept [1-9]\d* wrong 0\n$")

    def test_what_the_program_shares_of_its_mappings_stays_awake(self):
        for how, stays in (("export_handle {handle}", 30), ("retain {memory}", 30), ("map {handle}", 30),
                           ("dmabuf {memory} 4096", 30), ("properties {handle}", 0)):
            with self.subTest(how):
                actor = self.actor()
                other = actor.number(f"map {actor.number(f'create {10 * MIB}')}")
                actor.ok(f"fill {other} 1")
                handle = actor.number(f"create {30 * MIB} 0 1")
                memory = actor.number(f"map {handle}")
                actor.ok(how.format(handle=handle, memory=memory))
                done = custash("sleep", actor.pid)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(f"{stays} MiB that the program mapped and shares, or maps in parts" in done.stdout, stays != 0, done.stdout)
                self.assertIn(f"{40 - stays} MiB asleep", done.stdout)
                self.assertEqual(actor.quit(), 0)

    def test_a_context_that_ends_takes_no_mapping_of_the_program_with_it(self):
        actor = self.actor()
        context = actor.ok("context 0")[0]
        actor.ok(f"alloc {MIB}")
        handle = actor.number(f"create {10 * MIB}")
        memory = actor.number(f"map {handle}")
        actor.ok(f"fill {memory} 3")
        self.put_to_sleep(actor)
        actor.ok(f"destroy {context}")
        actor.ok("device 0")
        self.assertEqual(actor.ok(f"check {memory} 3"), ["0"])

    def test_a_forked_child_keeps_its_own_file_under_the_number_of_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            first = self.filled(conf=f",sleep_memory:0,sleep_dir:{folder}")
            self.put_to_sleep(first)
            (number,) = [fd for fd, to in open_files(first.pid).items() if to.startswith(folder + "/")]
            for own in (False, True):
                if own:
                    first.ok(f"over {number} /dev/zero")
                first.ok("fork")
                child = read(f"/proc/{first.pid}/task/{first.pid}/children").strip()
                place = f"/proc/{child}/fd/{number}"
                self.assertEqual(os.path.lexists(place) and os.readlink(place), "/dev/zero" if own else False)
                first.ok("reap")
            self.assertEqual(first.ok("mixed 0 7"), ["0"])

    def files_of(self, actor, folder):
        return [to for to in open_files(actor.pid).values() if to.startswith(folder + "/")]

    def test_a_disk_that_is_too_small_is_refused_with_the_figures(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(os.rmdir, folder)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "custash-test", folder], capture_output=True,
                              text=True, check=False)
        if made.returncode != 0:
            self.skipTest(f"no small file system can be mounted: {made.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=True)
        first = self.filled(conf=f",sleep_memory:0,sleep_dir:{folder}")
        done = custash("sleep", first.pid)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"host memory: needs 70 MiB, has 0 MiB; {folder}: has 3\d MiB")
        self.assertEqual(look(first.pid)["sleep"], "awake")
        self.assertEqual(first.ok("mixed 0 7"), ["0"])
        first.ok("free 0")
        first.ok(f"alloc {20 * MIB}")
        first.ok("fill 1 3")
        self.put_to_sleep(first)
        self.assertEqual(first.ok("check 1 3"), ["0"])
        self.assertEqual(os.statvfs(folder).f_bfree, os.statvfs(folder).f_blocks)


if __name__ == "__main__":
    program.main()
