# SPDX-License-Identifier: MIT
"""Programs that have nothing to do with CUDA do not notice the preload library."""
import os
import statistics
import sys
import time

import program
from program import Case, run


class Loading(Case):
    def test_programs_without_cuda_are_silent(self):
        for command in (["true"], ["sh", "-c", "echo out"], [sys.executable, "-c", "print('out')"]):
            self.same_as_bare(*command)

    def test_options_are_not_read_where_no_cuda_is(self):
        self.assertEqual(self.succeed("sh", "-c", ":", CUSTASH_CONF="nonsense,summary:true"), "")

    def test_children_of_children_work(self):
        out = self.succeed("sh", "-c", f"sh -c '{sys.executable} -c \"print(7)\"'; cd / && true")
        self.assertEqual(out, "7\n")

    def test_no_file_is_opened_and_no_thread_started(self):
        maps = self.succeed("sh", "-c", "ls /proc/self/fd | wc -l; ls /proc/self/task | wc -l")
        bare = self.succeed("sh", "-c", "ls /proc/self/fd | wc -l; ls /proc/self/task | wc -l",
                            preload=False)
        self.assertEqual(maps, bare)

    def test_loading_costs_next_to_nothing(self):
        """Best of many, alternating: a millisecond would be far more than is spent (0.1 ms)."""
        best = {False: [], True: []}
        for _ in range(40):
            for preload in best:
                started = time.perf_counter()
                run("/bin/true", preload=preload)
                best[preload].append(time.perf_counter() - started)
        cost = min(best[True]) - min(best[False])
        medians = {k: statistics.median(v) * 1e3 for k, v in best.items()}
        print(f"loading costs {cost * 1e3:.3f} ms (medians {medians[False]:.3f}, {medians[True]:.3f})")
        self.assertLess(cost, 1e-3)

    def test_a_library_that_is_not_there_is_not_needed(self):
        """The loader's own message aside, a moved library stops nothing."""
        done = run("true", LD_PRELOAD=os.path.join(os.path.dirname(program.PATHS.library), "gone.so"))
        self.assertEqual(done.returncode, 0)


program.main()
