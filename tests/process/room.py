# SPDX-License-Identifier: MIT
"""Who lacks room on the device gets that of processes which idle, or have a lower priority (yield_after, priority)."""
import contextlib
import fcntl
import glob
import json
import os
import signal
import threading
import time

import program
from actor import BAD_ARGUMENTS, REFUSED, Actors, ask, connect, machine, services

MIB = 1 << 20
OUT_OF_MEMORY = 2
MOST, PART = 80 * MIB, 50 * MIB  # of 128: two of the first do not fit, nor three of the other
IDLE = 2.5  # seconds: longer than yield_after:1, and than the look at it


def asleep(actor, device=0):
    with connect(services(actor.pid)[0]) as link:
        text = ask(link, f"stat json {device}")[1]
    return json.loads(text)["stats"]["custash.asleep_bytes"]


def files():
    return glob.glob(f"/dev/shm/custash-room.{os.geteuid()}.*")


class Room(Actors):
    def setUp(self):
        self.on_another_machine()
        self.there = set(files())
        self.addCleanup(lambda: [os.unlink(path) for path in self.made()])

    def on_another_machine(self):
        """So are the actors from now on. What waits there and here waits at once."""
        self.settings = f"devices=2,memory=128m,{machine()}"

    def made(self):
        """The files of the turns on this machine's devices."""
        return set(files()) - self.there

    def actor(self, conf=",yield_after:1", **more):
        return super().actor(CUSTASH_CONF="backing:vmm" + conf, CUSTASH_SIM=self.settings, **more)

    def filled(self, conf=",yield_after:1", size=MOST, **more):
        actor = self.actor(conf, **more)
        actor.ok(f"alloc {size}")
        actor.ok("mix 0 7")
        actor.ok("sync")
        return actor

    @contextlib.contextmanager
    def working(self, actor):
        """It submits work all the time."""
        ends = threading.Event()

        def work():
            while not ends.is_set():
                actor.ok("mix 0 7")
                time.sleep(0.02)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()

    def test_idle_processes_take_turns(self):
        first = self.filled()
        second = self.actor()
        time.sleep(1)  # until the first is known
        first.ok("mix 0 7")
        second.ok(f"alloc {MOST}")  # waits until it idles
        second.ok("mix 0 9")
        for _ in range(2):  # each waits until the other idles
            self.assertEqual(first.ok("mixed 0 7"), ["0"])
            self.assertEqual(second.ok("mixed 0 9"), ["0"])

    def test_who_does_not_take_part_stays_awake(self):
        seconds = {}
        for conf in ("", ",yield_after:1,neighbours:off", ",yield_after:60"):
            self.on_another_machine()
            self.filled(conf)
            seconds[conf] = self.actor(",yield_after:1,patience:0")
        time.sleep(IDLE)
        for conf, second in seconds.items():
            self.assertEqual(second.code(f"alloc {MOST}"), OUT_OF_MEMORY, conf)

    def test_the_one_that_has_idled_longest_goes_first_and_no_more_than_needed(self):
        longest, other = self.filled(size=PART), self.filled(size=PART)
        third = self.actor()
        time.sleep(IDLE)
        other.ok("mix 0 7")
        time.sleep(IDLE)
        third.ok(f"alloc {PART}")
        self.assertEqual([asleep(each) > 0 for each in (longest, other)], [True, False])

    def test_another_device_s_memory_stays(self):
        elsewhere, here, third = self.filled(device=1), self.filled(), self.actor()
        time.sleep(IDLE)
        third.ok(f"alloc {MOST}")
        self.assertEqual([asleep(elsewhere, 1), asleep(here) > 0], [0, True])

    def test_who_works_yields_to_a_higher_priority_alone(self):
        for mine, code in (("", OUT_OF_MEMORY), (",yield_after:1,priority:2,patience:0", OUT_OF_MEMORY),
                           (",yield_after:1,priority:3", 0)):
            with self.subTest(mine):
                first = self.filled(",yield_after:1,priority:2")
                second = self.actor(mine)
                with self.working(first):
                    time.sleep(1.5)
                    self.assertEqual(second.code(f"alloc {MOST}"), code)
                    if code == 0:
                        second.ok("mix 0 9")  # the other waits until this one idles
                self.assertEqual(first.ok("mixed 0 7"), ["0"])
                if code == 0:
                    self.assertEqual(second.ok("mixed 0 9"), ["0"])
                first.quit()
                second.quit()

    def test_who_takes_part_waits_until_the_others_idle(self):
        pairs = {}
        with contextlib.ExitStack() as work:
            for call in ("alloc", "create"):
                self.on_another_machine()
                pairs[call] = self.filled(), self.actor()
                work.enter_context(self.working(pairs[call][0]))
            time.sleep(1.5)
            for call, (_, second) in pairs.items():
                second.tell(f"{call} {MOST}")
            time.sleep(2)
            self.assertEqual([asleep(first) for first, _ in pairs.values()], [0, 0])
        for call, (first, second) in pairs.items():
            self.assertEqual(second.hear()[0], "0", call)
            self.assertGreater(asleep(first), 0, call)

    def test_two_that_hold_memory_and_lack_more_both_get_it(self):
        both = [self.filled(size=PART) for _ in range(2)]
        time.sleep(1)
        for each in both:
            each.tell(f"alloc {PART}")
        self.assertEqual([each.hear()[0] for each in both], ["0", "0"])
        for each in both:
            self.assertEqual(each.ok("mixed 0 7"), ["0"])

    def test_a_process_that_makes_room_and_hangs_is_passed_by(self):
        first = self.filled()
        second = self.actor()
        time.sleep(IDLE)
        second.ok(f"alloc {MOST}")
        with contextlib.ExitStack() as held:
            for path in self.made():
                file = held.enter_context(open(path, "rb"))
                fcntl.flock(file, fcntl.LOCK_EX)
            second.ok("free 0")  # there is room now
            began = time.monotonic()
            self.assertEqual(first.ok("mixed 0 7"), ["0"])
            self.assertGreater(time.monotonic() - began, 5)
            self.assertLess(time.monotonic() - began, 40)

    def test_a_neighbour_that_hangs_or_dies_costs_a_bounded_wait(self):
        hung, killed, idle, asks = self.filled(size=30 * MIB), self.filled(size=30 * MIB), self.filled(size=PART), self.actor()
        time.sleep(IDLE)
        os.kill(hung.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, hung.pid, signal.SIGCONT)
        killed.process.kill()
        killed.process.wait()
        began = time.monotonic()
        asks.ok(f"alloc {MOST}")
        self.assertLess(time.monotonic() - began, 20)
        self.assertGreater(asleep(idle), 0)

    def test_nobody_sleeps_in_vain(self):
        first, second = self.filled(), self.actor()
        time.sleep(IDLE)
        self.assertEqual(second.code(f"alloc {1000 * MIB}"), OUT_OF_MEMORY)
        self.assertEqual(asleep(first), 0)

    def test_two_that_lack_memory_at_once_both_get_it(self):
        idle = [self.filled(size=PART) for _ in range(2)]
        asking = [self.actor() for _ in range(2)]
        time.sleep(IDLE)
        for each in asking:
            each.tell(f"alloc {PART}")
        self.assertEqual([each.hear()[0] for each in asking], ["0", "0"])
        self.assertTrue(all(asleep(each) > 0 for each in idle))

    def test_the_verb_bears_nonsense(self):
        first = self.filled("")
        with connect(services(first.pid)[0]) as link:
            for text in ("yield", "yield x", "yield -1", "yield 1 2", "yield 99999999999"):
                self.assertEqual(ask(link, text)[0], BAD_ARGUMENTS, text)
            self.assertEqual(ask(link, "yield 100")[0], REFUSED)


if __name__ == "__main__":
    program.main()
