# SPDX-License-Identifier: MIT
"""Slices of processes that take turns: how long one lasts, and that its owner grows in it."""
import concurrent.futures
import signal
import time

import program
from turns_case import MIB, SLICE, TurnsCase


class Slices(TurnsCase):
    def test_both_at_once_and_each_keeps_it_for_a_slice(self):
        actors = [self.filled(value=value) for value in (1, 2)]
        begin = time.monotonic()

        def work(number):
            turns = 0
            while time.monotonic() - begin < 6 * SLICE:
                self.assertEqual(actors[number].ok(f"check 0 {number + 1}"), ["0"])
                turns += 1
            return turns

        with concurrent.futures.ThreadPoolExecutor() as pool:
            done = list(pool.map(work, range(2)))
        self.assertGreater(min(done), 1, done)
        woken = self.times("awake")
        self.assertGreater(len(woken), 2)
        for one, next_one in zip(woken, woken[1:]):
            self.assertGreater((next_one - one) % 3600, SLICE * 0.9, woken)

    def test_both_grow_at_once(self):
        actors = [self.filled(50 * MIB, value) for value in (1, 2)]
        for actor in actors:
            actor.tell(f"alloc {60 * MIB}")
        self.assertEqual([actor.hear()[0] for actor in actors], ["0", "0"])
        for value, actor in enumerate(actors, 1):
            actor.ok(f"fill 1 {value + 2}")
        for value, actor in enumerate(actors, 1):
            self.assertEqual([actor.ok(f"check 0 {value}"), actor.ok(f"check 1 {value + 2}")], [["0"], ["0"]])

    def grows_in_its_slice(self, between=lambda: None):
        first, second = self.actor(turns=20), self.actor(turns=20)
        for actor in (first, second):
            actor.ok(f"alloc {50 * MIB}")
        first.ok(f"alloc {40 * MIB}")  # its slice begins
        second.tell(f"alloc {20 * MIB}")  # waits for the end of it
        between()
        for _ in range(3):
            time.sleep(0.5)
            first.ok(f"alloc {5 * MIB}")
        self.assertEqual(self.moved(self.logs[0])[1], 0)
        return second

    def test_who_has_its_slice_grows_in_it(self):
        self.assertEqual(self.grows_in_its_slice().hear()[0], "0")  # the first one does nothing for a second

    def test_who_has_its_slice_grows_beside_one_that_does_not_answer(self):
        third = self.filled(2 * MIB, turns=20)
        self.logs.clear()
        second = self.grows_in_its_slice(lambda: third.process.send_signal(signal.SIGSTOP))
        third.process.send_signal(signal.SIGCONT)
        self.assertEqual(second.hear()[0], "0")

    def test_two_that_grow_at_once_by_many_blocks(self):
        actors = [self.actor(turns=2), self.actor(turns=2)]

        def grow(actor):
            for _ in range(45):
                actor.ok(f"alloc {2 * MIB}")
            return time.monotonic()

        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            ends = [end - begin for end in pool.map(grow, actors)]
        self.assertLess(max(ends), 12)  # not a portion each in turn
        self.assertLess(len(self.times("awake")), 8)

    def test_growing_does_not_make_the_slice_longer(self):
        first, second = self.actor(turns=2), self.actor(turns=2)
        for actor in (first, second):
            actor.ok(f"alloc {50 * MIB}")
        first.ok(f"alloc {30 * MIB}")  # its slice begins
        second.tell(f"alloc {20 * MIB}")
        begin = time.monotonic()
        while not self.moved(self.logs[0])[1] and time.monotonic() - begin < 12:
            time.sleep(0.2)
            first.ok(f"alloc {2 * MIB}")
        self.assertLess(time.monotonic() - begin, 8)
        self.assertEqual(second.hear()[0], "0")

    def others_go_first(self):
        """Whether the second one got memory after the first one's slice, though it asked later."""
        first, second = self.actor(), self.actor()
        for actor in (first, second):
            actor.ok(f"alloc {50 * MIB}")
        first.ok(f"alloc {40 * MIB}")  # its slice begins
        given = self.moved(self.logs[-1])[1]
        time.sleep(SLICE + 0.1)
        first.tell(f"alloc {20 * MIB}")
        time.sleep(0.02)
        second.tell(f"alloc {20 * MIB}")
        self.assertEqual(second.hear()[0], "0")
        went = self.moved(self.logs[-2])[1] > 0 and self.moved(self.logs[-1])[1] == given
        self.assertEqual(first.hear()[0], "0")
        for actor in (first, second):
            actor.quit()
        return went

    def test_after_its_slice_others_go_first(self):
        """The first one waits for 0.2 s. On a busy machine the second one may ask later than that."""
        self.assertTrue(any(self.others_go_first() for _ in range(5)))

    def gets_what_becomes_free(self, waits, given, own):
        """`waits` lacks memory while another one, which works on, has its slice. A third one ends."""
        first, other = self.actor(turns=20), self.actor(turns=0)
        for actor, size in ((first, 30), (given, 30), (other, 45)):
            actor.ok(f"alloc {size * MIB}")
        first.ok(f"alloc {40 * MIB}")  # its slice begins
        waits.tell(f"alloc {own * MIB}")

        def work(until):
            while not until():
                self.assertEqual([first.ok("fill 0 1"), first.ok("sync")], [[], []])

        begin = time.monotonic()
        work(lambda: time.monotonic() - begin > 1)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            heard = pool.submit(waits.hear)
            self.assertFalse(heard.done())
            other.quit()
            work(lambda: heard.done() or time.monotonic() - begin > 10)
            self.assertTrue(heard.done())
        self.assertEqual(heard.result()[0], "0")

    def test_waking_takes_what_becomes_free(self):
        second = self.actor(turns=20)
        self.gets_what_becomes_free(second, second, 20)

    def test_an_allocation_takes_what_becomes_free(self):
        self.gets_what_becomes_free(self.actor(turns=20), self.actor(turns=20), 30)


program.main()
