# SPDX-License-Identifier: MIT
"""Libraries that the loader keeps to themselves, and other libraries that hook the same calls."""
import os
import re
import tempfile

import program
from program import PATHS, Case, notes, run, said


def built(name):
    return os.path.join(PATHS.programs, f"lib{name}.so")


class Scopes(Case):
    """What one side allocates, the other frees."""

    def scopes(self, how, **more):
        return self.same_as_bare("scopes", how, built("runtime_plugin"), **more)

    def test_a_library_of_its_own_scope_is_served(self):
        self.assertGreaterEqual(int(notes(self.scopes("local"))[-1][1]), 1000)

    def test_a_namespace_of_its_own_has_a_driver_of_its_own(self):
        """Bare, too, the one side's memory is unknown to the other."""
        out = self.scopes("new")
        self.assertIn("plug-in frees the host's 1\n", out)
        # At exit newer C libraries (2.41) also print what the plug-in's own has kept.
        self.assertIn(["served", "1"], notes(out))

    def test_deepbind_finds_the_driver_before_us(self):
        """It is not served; what is the driver's may be freed by the host. What is ours may not be freed by it:
        on mapped pages the driver refuses that, and the host still owns it."""
        plugin = built("runtime_plugin")
        bare = said(self.succeed("scopes", "deepbind", plugin, preload=False))
        out = self.succeed("scopes", "deepbind", plugin, CUSTASH_SIM="devices=1")
        self.assertEqual(notes(out)[-1], ["served", "1"])
        changed = {"plug-in frees the host's 0": "plug-in frees the host's 1", "host frees it 1": "host frees it 0"}
        self.assertEqual(said(out).splitlines(), [changed.get(line, line) for line in bare.splitlines()])

    def test_deepbind_without_caching_is_as_bare(self):
        self.scopes("deepbind", CUSTASH_CONF="caching:never")


class Hooks(Case):
    """Other preloaded libraries, before and behind custash."""

    def beside(self, other, sim="devices=1", conf=""):
        """Each order's notes and standard error; what the program says is as bare."""
        bare = said(self.succeed("runtime_shared", preload=False))
        for order in ([built(other), PATHS.library], [PATHS.library, built(other)]):
            done = run("runtime_shared", LD_PRELOAD=":".join(order), CUSTASH_SIM=sim, CUSTASH_CONF=conf)
            self.assertEqual((done.returncode, said(done.stdout)), (0, bare), done.stderr)
            self.assertGreaterEqual(int(notes(done.stdout)[-1][0]), 1000)
            yield done.stderr

    def test_a_library_that_hooks_by_name_sees_what_is_behind_it(self):
        """In front of custash each call of the program, behind it what custash hands on; it asks about the memory
        from inside its hook."""
        front, behind = (re.search(r"^chain (\d+) (\d+) (\d+)$", err, re.M).groups() for err in self.beside("chain"))
        self.assertGreaterEqual(int(front[0]), 1000)
        self.assertLess(int(behind[0]), int(front[0]))
        self.assertEqual((front[2], behind[2]), ("0", "0"))

    def test_a_library_that_patches_the_driver_may_come_back(self):
        """As UCX does: its hook, in which it uses CUDA, is entered by our calls of the driver."""
        for sim in ("devices=1", "devices=2"):
            for err in self.beside("patch_hook", sim):
                self.assertRegex(err, r"^events [1-9]")

    def test_a_malloc_that_uses_cuda(self):
        """From inside our own bookkeeping, under its locks: those calls go to the driver."""
        for sim in ("devices=1", "devices=2"):
            for err in self.beside("malloc_cuda", sim):
                self.assertEqual(err, "malloc used CUDA often, refused 0\n")

    def test_a_malloc_that_uses_cuda_while_history_is_on(self):
        with tempfile.TemporaryDirectory() as folder:
            for err in self.beside("malloc_cuda", conf=f"history:1000,snapshot:{folder}/%p.json"):
                self.assertEqual(err, "malloc used CUDA often, refused 0\n")


program.main()
