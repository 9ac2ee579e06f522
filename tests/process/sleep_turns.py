# SPDX-License-Identifier: MIT
"""Processes that together need more than the device take turns at it: option turns."""
import concurrent.futures
import os
import signal
import subprocess
import sys
import time
import unittest

import program
from actor import connect, ask, services
from turns_case import MIB, MOST, TurnsCase

OUT_OF_MEMORY = 2
# Another user takes the name of the first device's turn.
HOLDER = """
import ctypes, os, socket, sys, time
driver, uuid = ctypes.CDLL("libcuda.so.1"), (ctypes.c_ubyte * 16)()
driver.cuInit(0)
driver.cuDeviceGetUuid(uuid, 0)
name = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
name.bind(f"\\0custash-turn/{sys.argv[1]}/{bytes(uuid).hex()}")
os.setuid(65534)
name.listen()
print("held", flush=True)
time.sleep(60)
"""


class Turns(TurnsCase):
    def test_two_that_need_most_of_it_both_finish(self):
        first, second = self.filled(value=1), self.filled(value=2)
        for _ in range(2):
            for actor, value in ((first, 1), (second, 2)):
                self.assertEqual(actor.ok(f"check 0 {value}"), ["0"])
                actor.ok(f"fill 0 {value}")
        self.assertGreaterEqual(len(self.times("asleep")), 4)

    def test_two_that_wake_at_once_do_not_each_keep_a_half(self):
        self.settings = self.settings.replace("128m", "640m")  # so that waking takes a while
        actors = []
        for value in (1, 2):
            actors.append(self.filled(450 * MIB, value))
            self.put_to_sleep(actors[-1])
        for value, actor in enumerate(actors, 1):
            actor.tell(f"check 0 {value}")
        self.assertEqual([actor.hear() for actor in actors], [["0", "0"], ["0", "0"]])

    def test_one_that_does_not_answer_for_a_while_is_waited_for(self):
        first, second = self.filled(value=1), self.actor()
        first.process.send_signal(signal.SIGSTOP)
        second.tell(f"alloc {MOST}")
        time.sleep(4)
        first.process.send_signal(signal.SIGCONT)
        self.assertEqual(second.hear()[0], "0")

    def test_why_no_turn_helped_is_told(self):
        first, second = self.filled(conf=",sleep_memory:1M"), self.actor()
        self.assertEqual(second.code(f"alloc {MOST}"), OUT_OF_MEMORY)
        with open(self.logs[1], encoding="utf-8") as file:
            self.assertRegex(file.read(), rf"event=out_of_memory .*; turns: process {first.pid} did not go to sleep: host memory: needs ")

    def test_who_does_not_take_part_neither_gives_nor_gets(self):
        self.filled()
        self.assertEqual(self.actor(turns=0).code(f"alloc {MOST}"), OUT_OF_MEMORY)

    def test_who_does_not_take_part_keeps_its_memory(self):
        first = self.filled(turns=0)
        self.assertEqual(self.actor().code(f"alloc {MOST}"), OUT_OF_MEMORY)
        with connect(services(first.pid)[0]) as link:
            status, _ = ask(link, "turn_look 00000000000000000000000000000000")
            self.assertNotEqual(status, 0)

    def test_what_no_turn_could_give_fails_at_once(self):
        self.filled(30 * MIB)
        begin = time.monotonic()
        self.assertEqual(self.actor().code(f"alloc {200 * MIB}"), OUT_OF_MEMORY)
        self.assertLess(time.monotonic() - begin, 20)

    def test_the_idlest_goes_first(self):
        idle = self.filled(40 * MIB, 1)
        time.sleep(1)
        busy = self.filled(40 * MIB, 2)
        third = self.actor()
        third.ok(f"alloc {80 * MIB}")
        with open(self.logs[0], encoding="utf-8") as file:
            self.assertRegex(file.read(), r'event=asleep text="[^"]*" standstill_ms=\d+')
        with open(self.logs[1], encoding="utf-8") as file:
            self.assertNotIn("event=asleep", file.read())
        self.assertEqual([idle.ok("check 0 1"), busy.ok("check 0 2")], [["0"], ["0"]])

    def test_one_that_lacks_little_makes_the_other_move_little(self):
        first, second = self.in_blocks(), self.actor()
        second.ok(f"alloc {50 * MIB}")
        second.ok("fill 0 77")
        moved, times, woken = self.moved(self.logs[0])
        asked = self.lacks(self.logs[1])
        self.assertGreaterEqual(asked[0], 10)
        self.assertLessEqual(sum(asked), 20)
        self.assertGreaterEqual(moved, asked[0])
        self.assertLessEqual(moved, sum(asked) + 4, (asked, times))  # its pages are of 2 MiB: the device is nearly full
        self.assertEqual(woken, 0)
        self.assertEqual(second.ok("check 0 77"), ["0"])
        self.whole(first)

    def test_one_that_sleeps_in_part_gives_more_without_waking(self):
        first, second = self.in_blocks(), self.actor()
        for block, size in enumerate((50, 20, 30)):
            second.ok(f"alloc {size * MIB}")
            second.ok(f"fill {block} {block + 70}")
        moved, times, woken = self.moved(self.logs[0])
        self.assertEqual((times >= 3, woken), (True, 0), (times, woken))
        self.assertLess(moved, 90)
        self.whole(first)  # the other one gives
        for block in range(3):
            self.assertEqual(second.ok(f"check {block} {block + 70}"), ["0"])

    def test_the_rest_can_be_put_to_sleep(self):
        first, second = self.in_blocks(), self.actor()
        second.ok(f"alloc {50 * MIB}")
        part = self.moved(self.logs[0])[0]
        self.put_to_sleep(first)
        self.assertGreaterEqual(self.moved(self.logs[0])[0], 90)
        self.assertLess(part, 30)
        with connect(services(first.pid)[0]) as link:
            self.assertEqual(ask(link, "sleep -1 1000")[1], "asleep already")
        second.quit()
        self.whole(first)

    def test_one_that_is_killed_while_it_sleeps_in_part_leaves_nothing(self):
        first, second = self.in_blocks(), self.actor()
        second.ok(f"alloc {50 * MIB}")
        self.assertEqual(self.moved(self.logs[0])[1] > 0, True)
        first.process.kill()
        first.process.wait()
        second.ok(f"alloc {70 * MIB}")

    def test_one_that_is_killed_while_it_waits_for_its_turn_leaves_nothing(self):
        first, second = self.in_blocks(turns=20), self.actor(turns=20)
        second.ok(f"alloc {50 * MIB}")
        first.tell("check 0 1")  # the other one's slice lasts
        time.sleep(0.3)
        first.process.kill()
        first.process.wait()
        second.ok(f"alloc {70 * MIB}")

    def test_one_that_waits_for_its_turn_gives_what_it_still_has(self):
        first, second = self.in_blocks(), self.actor()
        with connect(services(first.pid)[0]) as link:
            self.assertEqual(ask(link, f"turn_part {self.uuid()} 1")[0], 0)
        first.process.send_signal(signal.SIGSTOP)
        second.tell(f"alloc {MOST}")  # has the turn once nobody has answered for a second
        time.sleep(3)
        first.tell("check 0 1")
        first.process.send_signal(signal.SIGCONT)  # it wakes before it is asked
        self.assertEqual(second.hear()[0], "0")
        self.assertEqual(first.hear(), ["0", "0"])
        self.whole(first)

    def test_cached_memory_goes_first(self):
        first, second = self.in_blocks(conf=",neighbours:false"), self.actor(conf=",neighbours:false")
        first.ok("free 8")
        first.ok("free 7")
        first.ok("sync")
        second.ok(f"alloc {50 * MIB}")
        self.assertEqual(self.moved(self.logs[0])[1], 0)
        self.whole(first, 7)

    def test_only_memory_of_the_asker_s_device_goes(self):
        first = self.in_blocks(5, 18 * MIB)
        first.ok("device 1")
        for block in range(5, 10):
            first.ok(f"alloc {18 * MIB}")
            first.ok(f"fill {block} {block + 1}")
        first.ok("sync")
        bare = self.actor(device=1, turns=0)
        self.actor(device=0).ok(f"alloc {MOST}")
        self.assertLess(self.moved(self.logs[0])[0], 70)
        self.assertEqual(bare.code(f"alloc {MOST}"), OUT_OF_MEMORY)
        self.whole(first, 10)

    def test_processes_of_two_devices_do_not_wait_for_each_other(self):
        actors = []
        for value in (1, 2):
            actors.append(self.filled(value=value))
            actors[-1].ok("device 1")
            actors[-1].ok(f"alloc {MOST}")
            actors[-1].ok(f"fill 1 {value + 10}")

        def work(number):
            for _ in range(2):
                for block, value in ((number, number + 1 + 10 * number), (1 - number, number + 1 + 10 * (1 - number))):
                    self.assertEqual(actors[number].ok(f"check {block} {value}"), ["0"])

        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(work, range(2)))

    def test_an_older_build_puts_all_to_sleep(self):
        first = self.in_blocks()
        with connect(services(first.pid)[0]) as link:
            self.assertEqual(ask(link, f"turn {self.uuid()}")[0], 0)
        self.assertGreaterEqual(self.moved(self.logs[0])[0], 90)
        self.whole(first)

    def test_requests_that_cannot_be_read_are_refused(self):
        first = self.in_blocks()
        uuid = self.uuid()
        with connect(services(first.pid)[0]) as link:
            for arguments in ("", uuid, f"{uuid} ", f"{uuid} x", f"{uuid} 0", f"{uuid} 1 1", "x 1"):
                self.assertNotEqual(ask(link, f"turn_part {arguments}")[0], 0, arguments)
            self.assertEqual(self.moved(self.logs[0])[1], 0)
            self.assertEqual(ask(link, f"turn_part {uuid} 1")[0], 0)

    def test_who_dies_with_the_turn_takes_it_along(self):
        first, second, third = self.filled(value=1), self.filled(value=2), self.actor()
        second.ok("check 0 2")  # has its slice
        third.tell(f"alloc {MOST}")  # waits for the end of it, with the turn
        time.sleep(0.1)
        third.process.kill()
        self.assertEqual(first.ok("check 0 1"), ["0"])

    def test_who_waits_gets_the_memory_of_one_that_ends(self):
        for end in ("quit", "kill"):
            with self.subTest(end):
                first, second = self.filled(turns=20), self.actor(turns=20)
                self.put_to_sleep(first)
                first.ok("check 0 7")  # its slice begins
                second.tell(f"alloc {MOST}")
                time.sleep(0.3)
                if end == "quit":
                    first.quit()
                else:
                    first.process.kill()
                    first.process.wait()
                self.assertEqual(second.hear()[0], "0")
                second.quit()

    def test_one_that_sleeps_for_one_device_gives_the_others_too(self):
        first = self.filled(value=1)
        first.ok("device 1")
        first.ok(f"alloc {MOST}")
        for device in (0, 1):
            self.actor(device=device).ok(f"alloc {MOST}")
        self.assertEqual(first.ok("check 0 1"), ["0"])

    def test_one_that_refuses_is_passed_over(self):
        plain = self.actor(backing="driver")
        plain.ok(f"alloc {10 * MIB}")
        time.sleep(0.3)  # it is the idlest
        other = self.filled(value=2)
        self.actor().ok(f"alloc {MOST}")
        self.assertEqual(other.ok("check 0 2"), ["0"])

    def test_without_control_it_takes_nothing(self):
        self.filled()
        self.assertEqual(self.actor(conf=",control:false").code(f"alloc {MOST}"), OUT_OF_MEMORY)

    @unittest.skipUnless(os.geteuid() == 0, "needs another user")
    def test_another_user_s_name_holds_nobody_up(self):
        first = self.filled(value=1)
        self.put_to_sleep(first)
        with subprocess.Popen([sys.executable, "-c", HOLDER, str(os.geteuid())], stdout=subprocess.PIPE, text=True,
                              env=program.environment(False, CUSTASH_SIM=self.settings)) as holder:
            self.addCleanup(holder.kill)
            self.assertEqual(holder.stdout.readline(), "held\n")
            begin = time.monotonic()
            self.assertEqual(first.ok("check 0 1"), ["0"])
            self.assertLess(time.monotonic() - begin, 20)
            holder.kill()

    def test_another_device_is_nobody_s_turn(self):
        self.filled(device=1)
        first = self.filled(value=1)
        self.assertEqual(first.code(f"alloc {MOST}"), OUT_OF_MEMORY)
        self.assertEqual(self.times("asleep"), [])


program.main()
