# SPDX-License-Identifier: MIT
"""Memory that idles returns by itself, and cuMemGetInfo counts what others would return."""
import os
import signal
import time

import program
from actor import Actors, ask, connect, machine, services
from program import read, within

MIB = 1 << 20
GIB = 1 << 30


def resident(pid):
    return int(read(f"/proc/{pid}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wake_ups(pid):
    """How often the service's thread has gone to sleep; None: there is no such thread."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
            status = dict(line.split(":", 1) for line in file)
        if status["Name"].strip() == "custash":
            return int(status["voluntary_ctxt_switches"])
    return None


class Idle(Actors):
    memory = "128m"

    def setUp(self):
        self.settings = f"devices=2,memory={self.memory},{machine()}"

    def actor(self, conf="", **more):
        return super().actor(CUSTASH_CONF=conf, CUSTASH_SIM=self.settings, **more)

    def observer(self):
        return self.actor(preload=False)

    @staticmethod
    def free(actor):
        return int(actor.ok("info")[0])


class DeviceMemory(Idle):
    def freed(self, conf="decay:1", size=70 * MIB, **more):
        """A process of a machine of its own that has just freed memory, and how to ask whether that has returned to the driver."""
        self.setUp()
        actor, bare = self.actor(conf, **more), self.observer()
        kept = actor.ok(f"alloc {4 * MIB}")[0]
        actor.ok(f"fill {kept} 3")
        actor.ok("alloc 1000")
        before = self.free(bare)
        freed = actor.ok(f"alloc {size}")[0]
        actor.ok(f"free {freed}")
        self.assertLessEqual(self.free(bare), before - size)  # cached
        return actor, lambda: self.free(bare) >= before

    def test_it_returns_after_a_second(self):
        def nothing(_):
            pass

        def hit(actor):
            actor.ok(f"free {actor.ok('alloc 1000')[0]}")

        forked = []

        def fork(actor):
            if not forked:
                forked.append(actor.ok("fork"))

        cases = {"mapped pages": ({"conf": "decay:1,backing:vmm"}, nothing), "plain segments": ({"conf": "decay:1,backing:driver"}, nothing),
                 "all allocations hit": ({}, hit), "linked": ({"name": "actor_custash", "preload": False}, nothing),
                 "without commands": ({"conf": "decay:1,control:false"}, nothing), "a parent after a fork": ({}, fork)}
        waiting, took = {}, {}
        for name, (options, meanwhile) in cases.items():
            waiting[name] = *self.freed(**options), meanwhile, time.monotonic()
        while waiting and time.monotonic() - max(begun for *_, begun in waiting.values()) < 4:
            for name, (actor, has_returned, meanwhile, begun) in list(waiting.items()):
                meanwhile(actor)
                if has_returned():
                    took[name] = time.monotonic() - begun
                    self.assertEqual(actor.ok("check 0 3"), ["0"])
                    del waiting[name]
            time.sleep(0.02)
        self.assertEqual(list(waiting), [], "they have not returned it")
        self.assertGreater(min(took.values()), 0.8, took)

    def test_decay_0_keeps_it(self):
        _, has_returned = self.freed(conf="decay:0")
        self.assertIsNone(within(2.5, has_returned))

    def test_without_a_thread_later_calls_return_it(self):
        actor, bare = self.actor("decay:1,control:false,neighbours:false"), self.observer()
        threads = actor.ok("threads")  # QEMU has one of its own
        actor.ok(f"alloc {70 * MIB}")
        held = self.free(bare)
        actor.ok("free 0")
        time.sleep(2.2)
        self.assertEqual(actor.ok("threads"), threads)
        self.assertEqual(self.free(bare), held)
        for _ in range(3):
            actor.ok(f"alloc {MIB}")
            time.sleep(2.1)
        self.assertGreater(self.free(bare), held + 60 * MIB)

    def test_memory_in_use_now_and_then_stays(self):
        actor, bare = self.actor("decay:1"), self.observer()
        number = int(actor.ok(f"alloc {70 * MIB}")[0])
        held = self.free(bare)
        for _ in range(12):
            actor.ok(f"free {number}")
            self.assertEqual(self.free(bare), held)
            time.sleep(0.15)
            self.assertEqual(self.free(bare), held)
            number = int(actor.ok(f"alloc {70 * MIB}")[0])
            time.sleep(0.15)

    def test_it_does_not_disturb_sleep(self):
        actor = self.actor("decay:1")
        actor.ok(f"alloc {20 * MIB}")
        actor.ok("fill 0 5")
        actor.ok(f"alloc {40 * MIB}")
        actor.ok("free 1")
        with connect(services(actor.pid)[0]) as link:
            self.assertIn("asleep", ask(link, "sleep -1 1000")[1])
            time.sleep(2.5)
            self.assertIn("asleep already", ask(link, "sleep -1 1000")[1])
        self.assertEqual(actor.ok("check 0 5"), ["0"])

    def test_no_context_is_made_for_it(self):
        actor = self.actor("decay:1")
        actor.ok(f"alloc {20 * MIB}")
        actor.ok("free 0")
        time.sleep(2.5)
        self.assertEqual(actor.ok("active 0"), ["1"])
        self.assertEqual(actor.ok("active 1"), ["0"])

    def test_contexts_come_and_go_meanwhile(self):
        actor = self.actor("decay:1")
        for _ in range(300):
            context = actor.ok("context 0")[0]
            actor.ok(f"current {context}")
            number = actor.ok(f"alloc {20 * MIB}")[0]
            actor.ok(f"free {number}")
            actor.ok(f"destroy {context}")
            time.sleep(0.01)
        actor.quit()


class ManyGigabytes(Idle):
    memory = "48g"

    def test_all_of_it_returns_at_once(self):
        actor, bare = self.actor("decay:1"), self.observer()
        before = self.free(bare)
        for number in range(5):
            actor.ok(f"alloc {8 * GIB}")
        for number in range(5):
            actor.ok(f"free {number}")
        took = within(8, lambda: self.free(bare) >= before)
        self.assertIsNotNone(took)
        self.assertLess(took, 5)  # 4 GiB a period would take ten


class PinnedMemory(Idle):
    @staticmethod
    def pin(actor, size):
        """The block's number. All its pages are there, even where madvise does not make them (QEMU)."""
        number = actor.ok(f"pin {size}")[0]
        actor.ok(f"write {number}")
        return number

    def returns(self, actor, size=200 * MIB, meanwhile=None, seconds=4):
        number = self.pin(actor, size)
        held = resident(actor.pid)
        actor.ok(f"unpin {number}")
        self.assertGreater(resident(actor.pid), held - size // 2)

        def has_returned():
            if meanwhile is not None:
                meanwhile(actor)
            return resident(actor.pid) < held - size // 2

        return within(seconds, has_returned)

    def test_a_process_that_makes_no_call_returns_it(self):
        actor = self.actor("pinned_decay:1")
        actor.ok("alloc 1000")
        self.assertGreater(self.returns(actor), 0.8)

    def test_a_process_without_device_memory_returns_it(self):
        self.assertGreater(self.returns(self.actor("pinned_decay:1")), 0.8)

    def test_a_process_that_goes_on_with_device_memory_returns_it(self):
        def hit(actor):
            number = actor.ok("alloc 1000")[0]
            actor.ok(f"fill {number} 1")
            actor.ok(f"free {number}")
            actor.ok("sync")
        self.assertGreater(self.returns(self.actor("pinned_decay:1"), meanwhile=hit), 0.8)

    def test_a_linked_process_returns_it(self):
        actor = self.actor("pinned_decay:1", name="actor_custash", preload=False)
        self.assertGreater(self.returns(actor), 0.8)

    def test_it_stays_while_the_device_works(self):
        actor = self.actor("pinned_decay:1")
        actor.ok("alloc 1000")
        number = self.pin(actor, 64 * MIB)
        held = resident(actor.pid)
        actor.ok(f"unpin {number}")
        actor.ok("hold 3")
        self.assertIsNone(within(2.5, lambda: resident(actor.pid) < held - 32 * MIB))
        self.assertIsNotNone(within(5, lambda: resident(actor.pid) < held - 32 * MIB))

    def test_pinned_decay_0_keeps_it(self):
        self.assertIsNone(self.returns(self.actor("pinned_decay:0"), seconds=2.5))

    def test_without_a_thread_later_calls_return_it(self):
        actor = self.actor("pinned_decay:1,control:false,neighbours:false")
        number = self.pin(actor, 100 * MIB)
        held = resident(actor.pid)
        actor.ok(f"unpin {number}")
        time.sleep(2)
        self.assertGreater(resident(actor.pid), held - 50 * MIB)
        for _ in range(4):  # larger than what is free
            self.pin(actor, 120 * MIB)
            time.sleep(0.7)
        self.assertLess(resident(actor.pid), held + (4 * 120 - 50) * MIB)


class Cost(Idle):
    def test_the_thread_wakes_once_a_second_while_nothing_changes(self):
        actor = self.actor()
        actor.ok(f"alloc {20 * MIB}")
        self.assertIsNotNone(within(2, lambda: (wake_ups(actor.pid) or 0) > 0))
        counts = []
        for _ in range(4):  # without a namespace, processes of other tests may ask it something
            time.sleep(1)
            before = wake_ups(actor.pid)
            time.sleep(4)
            counts.append(wake_ups(actor.pid) - before)
            if 0 < counts[-1] <= 8:
                return
        self.fail(f"{counts} times in 4 seconds")


class HostMemory(Idle):
    def test_contexts_leave_little_behind(self):
        actor = self.actor()
        first = 0
        for number in range(1000):
            context = actor.ok("context 0")[0]
            actor.ok(f"current {context}")
            actor.ok("alloc 70000")
            actor.ok(f"destroy {context}")
            if number == 199:
                first = resident(actor.pid)
        self.assertLess((resident(actor.pid) - first) / 800, 16 << 10)

    def test_blocks_with_sync_memops_leave_nothing_behind(self):
        actor = self.actor()
        actor.ok("sync_memops 20000")
        first = resident(actor.pid)
        actor.ok("sync_memops 100000")
        self.assertLess((resident(actor.pid) - first) / 100000, 10)


class FreeMemory(Idle):
    """The device has 128 MiB."""

    def cached(self, conf="", size=70 * MIB, **more):
        actor = self.actor(conf, **more)
        actor.ok(f"alloc {size}")
        actor.ok("free 0")
        return actor

    def test_a_new_context_counts_what_the_others_cache(self):
        actor = self.cached("decay:0")
        before = self.free(actor)
        self.assertGreaterEqual(before, 110 * MIB)
        context = actor.ok("context 0")[0]
        actor.ok(f"current {context}")
        self.assertGreaterEqual(self.free(actor), before - 4 * MIB)

    def test_a_limit_holds_for_a_new_context(self):
        actor = self.cached("decay:0,limit:100M")
        context = actor.ok("context 0")[0]
        actor.ok(f"current {context}")
        self.assertEqual(actor.ok("info")[1], str(100 * MIB))
        self.assertGreaterEqual(self.free(actor), 90 * MIB)

    def seen(self, actor, least=110 * MIB, most=128 * MIB):
        """Whether the actor sees so much free within some seconds."""
        return within(4, lambda: least <= self.free(actor) <= most) is not None

    def test_what_a_neighbour_caches_counts(self):
        self.cached("decay:0")
        self.assertTrue(self.seen(self.actor()))
        self.assertLess(self.free(self.observer()), 60 * MIB)
        new = self.actor()
        self.assertGreaterEqual(self.free(new), 110 * MIB)  # its first question
        new.ok(f"alloc {100 * MIB}")  # and it gets them

    def test_what_is_in_use_does_not_count(self):
        first, second = self.cached("decay:0"), self.actor()
        self.assertTrue(self.seen(second))
        first.ok(f"alloc {70 * MIB}")
        self.assertTrue(self.seen(second, 0, 60 * MIB))

    def test_who_does_not_take_part_does_not_count(self):
        first, second = self.cached("decay:0"), self.actor()
        self.assertTrue(self.seen(second))
        self.assertLess(self.free(self.actor("neighbours:false")), 60 * MIB)
        first.quit()
        self.cached("decay:0,neighbours:false")
        time.sleep(1.2)  # the pages are read once a second
        self.assertLess(self.free(second), 60 * MIB)

    def test_devices_are_known_by_what_they_are(self):
        self.cached("decay:0", device=1)
        second = self.actor()
        third = self.actor(CUDA_VISIBLE_DEVICES="1")
        self.assertTrue(self.seen(third))
        self.assertLessEqual(self.free(second), 128 * MIB)

    def test_a_stopped_neighbour_is_not_waited_for(self):
        first = self.cached("decay:0")
        self.assertTrue(self.seen(self.actor()))
        os.kill(first.pid, signal.SIGSTOP)
        second = self.actor()
        begin = time.monotonic()
        self.assertGreaterEqual(self.free(second), 110 * MIB)  # as it was published last
        self.assertLess(time.monotonic() - begin, 0.5)
        os.kill(first.pid, signal.SIGCONT)

    def test_a_dead_neighbour_does_not_count(self):
        first, second = self.cached("decay:0"), self.actor()
        second.ok(f"alloc {20 * MIB}")
        self.assertTrue(self.seen(second, 100 * MIB))
        first.process.kill()
        first.process.wait()
        time.sleep(1.2)
        self.assertEqual(self.free(second), self.free(self.observer()))


if __name__ == "__main__":
    program.alone()
    program.main()
