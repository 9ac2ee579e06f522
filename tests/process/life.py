# SPDX-License-Identifier: MIT
"""First uses that race, a fork, an exit beside threads, a free after the driver is gone; wrong options."""
import program
from program import Case, notes, run, said


class Life(Case):
    def test_a_static_destructor_frees_after_the_driver_is_gone(self):
        self.assertIn("late free 4\n", self.same_as_bare("life", "static"))

    def test_exit_while_threads_allocate(self):
        for _ in range(5):
            self.same_as_bare("life", "threads")

    def test_first_uses_race(self):
        for _ in range(5):
            self.assertEqual(notes(self.same_as_bare("life", "race")), [["400"]])

    def test_a_forked_child_gets_answers_and_the_parent_goes_on(self):
        done = run("life", "fork")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("child exit 7\n", said(done.stdout))
        self.assertIn("free 0\n", said(done.stdout))
        self.assertIn(["parent", "served", "1"], notes(done.stdout))
        self.assertEqual([n[-1] for n in notes(done.stdout) if n[0] == "child"], ["-2"])

    def test_contexts_end_while_other_threads_reach_into_all(self):
        """None of our calls names a context whose end has begun, which cuda.h forbids at cuCtxDestroy."""
        for conf in ("", "backing:driver"):
            done = run("ends", CUSTASH_SIM="report=stderr,teardown_us=300", CUSTASH_CONF=conf)
            self.assertEqual((done.returncode, done.stdout), (0, "wrong 0\n"))
            self.assertIn("cuCtxDestroy_v2", done.stderr)
            self.assertNotIn("late_uses", done.stderr)

    def test_a_forked_child_prints_no_summary(self):
        done = run("life", "fork", CUSTASH_CONF="summary:true")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


class Options(Case):
    def test_each_bad_option_is_one_clear_line_and_is_ignored(self):
        done = run("life", "static", CUSTASH_CONF="nonsense:1,backing:paper,free:never")
        lines = done.stderr.splitlines()
        self.assertEqual((done.returncode, len(lines)), (0, 2), done.stderr)
        self.assertIn("nonsense", lines[0])
        self.assertIn("paper", lines[1])
        for line in lines:
            self.assertTrue(line.startswith("custash: CUSTASH_CONF: "), line)


program.main()
