# SPDX-License-Identifier: MIT
"""Deep trims of whole processes: on request, by themselves when idle, from C and Python. Contents stay."""
import os
import re
import sys
import time

import program
from actor import Actors
from program import custash, processes, within

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/python")
MIB = 1 << 20
BLOCK = 3 * MIB
BLOCKS, KEPT = 60, range(1, 60, 6)  # in use after the peak: one in six
PYTHON = """
import custash
peak = custash.malloc(200 << 20)
custash.free(peak)
blocks = [custash.malloc(3 << 20) for _ in range(60)]
for i, block in enumerate(blocks):
    if i % 6:
        custash.free(block)
custash.empty_cache()
before = custash.memory_reserved()
custash.trim_deep()
after = custash.memory_reserved()
assert after < before / 2, (before, after)
assert after >= 10 * (3 << 20), after
try:
    custash.trim_deep(99)
except custash.Error as error:
    assert "INVALID_VALUE" in str(error), error
else:
    raise SystemExit("a device that is not there")
"""


def reserved(pid):
    return processes()[pid]["devices"][0]["reserved_bytes"]


class DeepTrim(Actors):
    def after_a_peak(self, conf=""):
        actor = self.actor(CUSTASH_CONF="backing:vmm" + conf, CUSTASH_SIM="devices=1,memory=80g")
        actor.ok(f"alloc {200 * MIB}")
        actor.ok("free 0")
        for number in range(1, BLOCKS + 1):
            actor.ok(f"alloc {BLOCK}")
            actor.ok(f"fill {number} {number}")
        for number in range(1, BLOCKS + 1):
            if number not in KEPT:
                actor.ok(f"free {number}")
        actor.ok("sync")
        return actor

    def check_contents(self, actor):
        for number in KEPT:
            self.assertEqual(actor.ok(f"check {number} {number}"), ["0"])

    def test_what_is_partly_in_use_goes_back(self):
        actor = self.after_a_peak()
        custash("trim", actor.pid)
        before = reserved(actor.pid)
        done = custash("trim", "--deep", actor.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertRegex(done.stdout, rf"^{actor.pid}: \d+ MiB returned, of which \d+ MiB from pages")
        cut = int(re.search(r"of which (\d+) MiB", done.stdout)[1])
        self.assertEqual(before - cut * MIB, reserved(actor.pid))
        self.assertLess(reserved(actor.pid), before / 2)
        self.check_contents(actor)
        self.assertIn(": 0 MiB returned", custash("trim", "--deep", actor.pid).stdout)
        self.assertEqual(actor.quit(), 0)

    def test_an_idle_process_trims_by_itself(self):
        actor, other = self.after_a_peak(",deep_trim_after:1"), self.after_a_peak()
        most = 2 * len(KEPT) * 2 * MIB  # a block lies on two or three pieces of 2 MiB
        self.assertIsNotNone(within(10, lambda: reserved(actor.pid) <= most))
        self.assertGreater(reserved(other.pid), most)
        self.check_contents(actor)
        time.sleep(2.5)  # the copies of the check are work: a deep trim comes after them, too
        # What is freed afterwards, without any work, goes back as well.
        for number in list(KEPT)[1:]:
            actor.ok(f"free {number}")
        self.assertIsNotNone(within(10, lambda: reserved(actor.pid) <= 3 * 2 * MIB))

    def test_what_keeps_pages_whole_is_said(self):
        actor = self.after_a_peak(",free:strict")
        done = custash("trim", "--deep", actor.pid)
        self.assertEqual(done.returncode, 1)
        self.assertIn("free:strict", done.stderr)
        self.assertIn("stay whole", done.stderr)
        wrong = custash("trim", "--deep", actor.pid, "1g")
        self.assertEqual(wrong.returncode, 125)
        self.assertIn("--deep", wrong.stderr)

    # Not run with --all: it would reach the processes of other tests.
    def test_what_it_needs_is_said(self):
        actor = self.after_a_peak()
        for words in (["--all"], ["--device", 0], [], ["--deep", "--all", actor.pid], ["--deep", "--device", "x", actor.pid]):
            wrong = custash("trim", *words)
            self.assertEqual(wrong.returncode, 125, words)
            self.assertNotEqual(wrong.stderr, "", words)
        before = reserved(actor.pid)
        self.assertEqual(custash("trim", "--deep", "--device", 7, actor.pid).returncode, 0)
        self.assertEqual(reserved(actor.pid), before)
        self.assertEqual(custash("trim", "--deep", "--device", 0, actor.pid).returncode, 0)
        self.assertLess(reserved(actor.pid), before / 2)
        self.check_contents(actor)

    def test_from_c_and_python(self):
        self.assertEqual(self.succeed(sys.executable, "-c", PYTHON, PYTHONPATH=MODULE, PYTHONDONTWRITEBYTECODE="1",
                                      CUSTASH_CONF="backing:vmm", CUSTASH_SIM="devices=1,memory=80g"), "")


if __name__ == "__main__":
    program.main()
