# SPDX-License-Identifier: MIT
"""The runtime's fast path: shared runtime, linked and as a plug-in's; and the static form."""
import os
import re

import program
from program import Case, notes


class Runtime(Case):
    def served(self, *command, **options):
        return int(notes(self.same_as_bare(*command, **options))[-1][0])

    def test_shared_runtime(self):
        self.assertGreaterEqual(self.served("runtime_shared"), 1000)

    def test_shared_runtime_on_plain_driver_memory(self):
        self.assertGreaterEqual(self.served("runtime_shared", CUSTASH_CONF="backing:driver"), 1000)

    def test_a_runtime_outside_the_global_scope(self):
        plugin = os.path.join(program.PATHS.programs, "libruntime_plugin.so")
        self.assertGreaterEqual(self.served("plugin_host", plugin), 1000)

    def test_static_runtime(self):
        self.assertGreaterEqual(self.served("runtime_static"), 1000)

    def test_a_registration_cache_that_patches_the_driver_hears_of_all_memory(self):
        for name in ("registration_cache_shared", "registration_cache_static"):
            out = self.same_as_bare(name)
            for line, calls in ((out.splitlines()[1], 100), (out.splitlines()[2].removeprefix("# "), 100)):
                words = line.split()
                self.assertEqual(words[:2], ["failed", "0"], line)
                self.assertGreaterEqual(min(int(n) for each, n in zip(words[2::2], words[3::2])
                                            if each in ("cuMemAlloc_v2", "cuMemFree_v2", "cuMemFreeAsync", "cuMemFreeHost")),
                                        calls, line)

    def test_no_runtime_at_all(self):
        self.assertEqual(self.succeed("orphan", preload=False), "none\n")
        self.assertEqual(self.succeed("orphan"), "302 302\n")


class StaticForm(Case):
    def same_as(self, bare, *command, **more):
        """A program with custash linked in says what it says without, and is served."""
        out = self.succeed(*command, preload=False, **more)
        self.assertGreaterEqual(int(notes(out)[-1][0]), 1000)
        self.assertEqual(program.said(out), program.said(self.succeed(*bare, preload=False)))

    def test_a_linked_program_is_served_without_preload(self):
        self.same_as(["runtime_static"], "runtime_custash")

    def test_beside_the_shared_runtime(self):
        self.same_as(["runtime_shared"], "runtime_custash_shared")

    def test_preloaded_too_the_linked_copy_alone_serves(self):
        for name in ("runtime_custash", "runtime_custash_shared"):
            done = program.run(name, CUSTASH_CONF="summary:true")
            self.assertEqual(done.returncode, 0, done.stderr)
            served = re.findall(r"device 0: ([\d,]+) allocations", done.stderr)
            self.assertEqual(len(served), 1, done.stderr)
            self.assertGreaterEqual(int(served[0].replace(",", "")), 1000)

    def test_the_shared_runtime_of_a_plug_in(self):
        plugin = os.path.join(program.PATHS.programs, "libruntime_plugin.so")
        self.same_as(["plugin_host", plugin], "plugin_host_custash", plugin)

    def test_linked_into_a_plug_in_it_knows_that_it_was_opened_late(self):
        plugin = os.path.join(program.PATHS.programs, "libplugin_custash.so")
        done = program.run("plugin_host", plugin, preload=False, CUSTASH_CONF="log:info")
        self.assertGreaterEqual(int(notes(done.stdout)[-1][0]), 1000)
        self.assertIn("event=opened_late", done.stderr)
        done = program.run("runtime_custash_shared", preload=False, CUSTASH_CONF="log:info")
        self.assertIn("event=started", done.stderr)
        self.assertNotIn("event=opened_late", done.stderr)

    def test_behind_a_library_that_hooks_malloc(self):
        """It calls dlsym, which is the program's, from inside malloc."""
        hook = os.path.join(program.PATHS.programs, "libmalloc_hook.so")
        self.same_as(["runtime_shared"], "runtime_custash_shared", LD_PRELOAD=hook)

    def test_a_tool_that_hooks_dlsym_still_sees_the_look_ups(self):
        hook = os.path.join(program.PATHS.programs, "libdlsym_hook.so")
        done = program.run("runtime_custash_shared", preload=False, LD_PRELOAD=hook)
        self.assertGreaterEqual(int(notes(done.stdout)[-1][0]), 1000)
        self.assertRegex(done.stderr, r"^look-ups [1-9]")

    def test_switched_off_it_serves_nothing(self):
        out = self.succeed("runtime_custash", preload=False, CUSTASH_CONF="enabled:false")
        self.assertEqual(int(notes(out)[-1][0]), -2)


program.main()
