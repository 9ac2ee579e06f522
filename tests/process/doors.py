# SPDX-License-Identifier: MIT
"""The driver's door, by whichever way a program comes: same codes as bare, and served by custash."""
import program
from program import Case, notes, run


class Doors(Case):
    def served(self, *command, **options):
        """How many allocations custash served, the program saying what it says bare."""
        return int(notes(self.same_as_bare(*command, **options))[-1][0])

    def test_dlopen_and_dlsym(self):
        self.assertGreaterEqual(self.served("doors", "open"), 5)

    def test_cu_get_proc_address(self):
        self.assertGreaterEqual(self.served("doors", "proc"), 5)

    def test_linked(self):
        self.assertGreaterEqual(self.served("doors_linked", "linked"), 5)

    def test_linked_and_bound_at_start(self):
        self.assertGreaterEqual(self.served("doors_linked", "linked", LD_BIND_NOW="1"), 5)

    def test_rtld_next_and_default(self):
        """The names are in the global scope: ours come first there, for dlsym as for the linker."""
        for way in ("next", "default"):
            self.assertGreaterEqual(self.served("doors_linked", way), 5)

    def test_on_plain_driver_memory_too(self):
        self.assertGreaterEqual(self.served("doors", "open", CUSTASH_CONF="backing:driver"), 5)

    def test_switched_off_it_serves_nothing(self):
        self.assertEqual(self.served("doors", "open", CUSTASH_CONF="enabled:false"), -2)

    def test_switched_off_its_summary_says_so(self):
        done = run("doors", "open", CUSTASH_CONF="enabled:false,summary:true")
        self.assertEqual((done.returncode, done.stderr), (0, "custash: enabled:false: 0 allocations served\n"))

    def test_a_constructor_that_uses_cuda(self):
        self.assertEqual(self.served("early_host"), 1)
        self.assertEqual(self.served("early_host", CUSTASH_CONF="enabled:false"), -2)


program.main()
