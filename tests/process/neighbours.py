# SPDX-License-Identifier: MIT
"""Processes of one user on one device: who runs short gets what others cache."""
import contextlib
import os
import signal
import subprocess
import sys

import program
from actor import BAD_ARGUMENTS, DONE, Actors, ask, connect, machine, processor_seconds, services

MIB = 1 << 20
OUT_OF_MEMORY = 2
FIRST, SECOND = 70 * MIB, 80 * MIB  # together more than the device has

# Takes names of services of this user, of processes that no kernel has (4194304 is its limit): a test that looks for a
# process's service by its number must not find these. As another user it also listens there, since the kernel tells who
# listens.
SQUATS = """
import os, socket, sys
user, first, count = map(int, sys.argv[1:])
if user == 0:
    os.setresuid(65534, 65534, 65534)
names = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)]
for number, name in enumerate(names, first):
    name.bind("\\0custash/%d/%d/%016x" % (user, (1 << 22) + number, number))
    if os.getuid() != user:
        name.listen(8)
print("taken", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def taken_names(count, each=800):
    with contextlib.ExitStack() as stack:
        for first in range(0, count, each):
            process = stack.enter_context(subprocess.Popen(
                [sys.executable, "-c", SQUATS, str(os.geteuid()), str(first), str(each)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            assert process.stdout.readline() == "taken\n"
        yield


class Neighbours(Actors):
    def setUp(self):
        self.settings = f"devices=2,memory=128m,{machine()}"

    def actor(self, *, preload=True, conf="backing:vmm", settings="", **more):
        return super().actor(preload=preload, CUSTASH_CONF=conf, CUSTASH_SIM=self.settings + settings, **more)

    def cached(self, **options):
        """A process that has used, and keeps, more than half of the device."""
        actor = self.actor(**options)
        actor.ok(f"alloc {FIRST}")
        actor.ok("free 0")
        return actor

    def test_what_one_caches_the_other_gets(self):
        for backing in ("vmm", "driver"):
            with self.subTest(backing):
                first = self.cached(conf=f"backing:{backing}")
                second = self.actor(conf=f"backing:{backing}")
                second.ok(f"alloc {SECOND}")
                second.ok("fill 0 1")
                self.assertEqual(second.ok("check 0 1"), ["0"])
                self.assertEqual(first.code(f"alloc {FIRST}"), OUT_OF_MEMORY)  # it is in use now
                for actor in (first, second):
                    actor.quit()

    def test_calls_that_allocate_for_themselves_are_helped_too(self):
        self.cached()
        self.assertEqual(self.actor(conf="neighbours:off").code(f"alloc_managed {SECOND}"), OUT_OF_MEMORY)
        self.actor().ok(f"alloc_managed {SECOND}")

    def test_it_is_the_asking_that_does_it(self):
        first, second = self.cached(), self.actor(conf="backing:vmm,neighbours:off")
        self.assertEqual(second.code(f"alloc {SECOND}"), OUT_OF_MEMORY)
        first.ok("empty")
        second.ok(f"alloc {SECOND}")

    def test_names_that_are_no_services_take_no_time(self):
        """With 16,000 names a failing allocation took 0.4 s, and twice that if they listen; it takes 0.05 s."""
        first, second = self.cached(), self.actor()
        second.ok("alloc 1000")
        with taken_names(16000):
            second.code(f"alloc {200 * MIB}")
            used = processor_seconds(second.pid)
            for _ in range(10):
                self.assertEqual(second.code(f"alloc {200 * MIB}"), OUT_OF_MEMORY)
            self.assertLess(processor_seconds(second.pid) - used, 10 * 0.15)
            first.ok("alloc 1000")
            first.ok("free 1")
            second.ok(f"alloc {SECOND}")

    def test_who_does_not_take_part_is_not_asked_for_anything(self):
        self.cached(conf="backing:vmm,neighbours:off")
        self.assertEqual(self.actor().code(f"alloc {SECOND}"), OUT_OF_MEMORY)

    def test_no_more_is_given_than_is_asked_for(self):
        first, second = self.actor(), self.actor()
        for _ in range(3):
            first.ok(f"alloc {30 * MIB}")
        for number in range(3):
            first.ok(f"free {number}")
        second.ok(f"alloc {60 * MIB}")  # 38 MiB are free
        with connect(services(first.pid)[0]) as link:
            self.assertEqual(int(ask(link, "trim all")[1]), 30 * MIB)

    def test_another_device_s_memory_is_left_alone(self):
        first, second = self.cached(device=1), self.actor()
        second.ok(f"alloc {SECOND}")
        self.assertEqual(second.code(f"alloc {SECOND}"), OUT_OF_MEMORY)
        third = self.actor(device=1, conf="backing:vmm,neighbours:off")
        self.assertEqual(third.code(f"alloc {SECOND}"), OUT_OF_MEMORY)  # first still caches
        self.assertEqual(len(services(first.pid)), 1)

    def test_devices_are_known_by_what_they_are_not_by_number(self):
        self.cached(device=1)
        second = self.actor(CUDA_VISIBLE_DEVICES="1")
        second.ok(f"alloc {SECOND}")

    def test_what_is_in_use_is_not_given(self):
        first, second = self.actor(), self.actor()
        first.ok(f"alloc {FIRST}")
        first.ok("fill 0 3")
        self.assertEqual(second.code(f"alloc {SECOND}"), OUT_OF_MEMORY)
        self.assertEqual(first.ok("check 0 3"), ["0"])

    def test_a_hung_neighbour_costs_a_bounded_wait_and_the_others_still_give(self):
        first, second, third = self.actor(), self.actor(), self.actor()
        for actor in (first, second):
            actor.ok(f"alloc {40 * MIB}")
            actor.ok("free 0")
        os.kill(first.pid, signal.SIGSTOP)
        self.assertEqual(third.code(f"alloc {100 * MIB}"), OUT_OF_MEMORY)  # and not after ever
        third.ok(f"alloc {SECOND}")
        os.kill(first.pid, signal.SIGCONT)
        first.quit()

    def test_a_dead_neighbour_is_nobody(self):
        first, second = self.cached(), self.actor()
        first.process.kill()
        first.process.wait()
        second.ok(f"alloc {SECOND}")

    def test_both_short_at_once_are_not_stuck(self):
        first, second = self.actor(), self.actor()
        for actor in (first, second):
            actor.ok(f"alloc {50 * MIB}")
        for actor in (first, second):
            actor.tell(f"alloc {60 * MIB}")
        self.assertEqual([int(actor.hear()[0]) for actor in (first, second)], [OUT_OF_MEMORY] * 2)
        first.ok("free 0")
        second.ok(f"alloc {60 * MIB}")

    def test_a_limit_of_one_s_own_is_nobody_else_s_affair(self):
        first, second = self.cached(), self.actor(conf="backing:vmm,limit:10M")
        self.assertEqual(second.code(f"alloc {20 * MIB}"), OUT_OF_MEMORY)
        third = self.actor(conf="backing:vmm,neighbours:off")
        self.assertEqual(third.code(f"alloc {SECOND}"), OUT_OF_MEMORY)  # first still caches
        self.assertEqual(len(services(first.pid)), 1)

    def test_the_verb_bears_nonsense(self):
        first = self.cached()
        with connect(services(first.pid)[0]) as link:
            for text in ("give", "give x", "give x y", "give  ", "give x -1"):
                self.assertEqual(ask(link, text)[0], BAD_ARGUMENTS, text)
            self.assertEqual(ask(link, "give " + "0" * 32 + " 1000"), (DONE, "0"))


program.main()
