# SPDX-License-Identifier: MIT
"""Pinned memory, by the runtime and the driver: answers, fork, device reset, exit."""
import program
from program import Case, notes, run, said


class Pinned(Case):
    def served(self, *command, **options):
        return int(notes(self.same_as_bare(*command, **options))[-1][1])

    def test_flags_of_small_portable_buffers_as_the_driver_tells_them(self):
        for told, word in (("0", "512 bytes, flags 1: 0 0 0, 2 2"), ("1", "512 bytes, flags 1: 0 0 0, 3 3")):
            out = self.same_as_bare("pinned_shared", "answers", CUSTASH_SIM="portable_told=" + told)
            self.assertIn(word, out)

    def test_answers_where_memory_cannot_be_registered(self):
        self.assertGreater(self.served("pinned_shared", "answers", CUSTASH_SIM="register=0"), 50)

    def test_switched_off_the_driver_serves(self):
        self.assertEqual(self.served("pinned_shared", "answers", CUSTASH_CONF="pinned:false"), 0)
        self.assertEqual(self.served("pinned_shared", "answers", CUSTASH_CONF="enabled:false"), -2)

    def test_every_buffer_of_a_churn_is_served(self):
        self.assertEqual(self.served("pinned_shared", "churn"), 1000)

    def test_a_device_reset_with_buffers_in_flight(self):
        self.assertGreater(self.served("pinned_shared", "reset"), 0)

    def test_frees_at_exit(self):
        self.same_as_bare("pinned_shared", "atexit")
        self.same_as_bare("pinned_static", "atexit")

    def test_a_static_destructor_frees_after_the_driver_is_gone(self):
        self.same_as_bare("pinned_shared", "static")
        self.same_as_bare("pinned_static", "static")

    def test_a_forked_child_shares_the_memory_and_the_parent_goes_on(self):
        bare = run("pinned_shared", "fork", preload=False)
        done = run("pinned_shared", "fork")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(said(done.stdout), said(bare.stdout))
        self.assertIn("7 *at(p, kBytes - 1)\n", done.stdout)
        self.assertIn("8 *at(large, 0)\n", done.stdout)
        child = [note for note in notes(done.stdout) if note[0] == "child"]
        self.assertEqual([note[-1] for note in child], ["-2"])  # custash does not serve it


program.main()
