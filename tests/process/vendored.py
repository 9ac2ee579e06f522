# SPDX-License-Identifier: MIT
"""Programs whose packages carry a renamed runtime, a static one or a copy of the driver: each says what it says
without custash, custash serves it, and custash doctor names what will not work."""
import json
import os
import subprocess

import program as shared
from program import PATHS, Case, custash, environment, must_load_the_library, notes


def carried(name):
    return os.path.join(PATHS.programs, "vendored", name)


def built(name):
    return os.path.join(PATHS.programs, f"lib{name}.so")


class Carried(Case):
    def setUp(self):
        if not PATHS.runtime:
            self.skipTest("no runtime double")


class Served(Carried):
    def served(self, *command):
        """How many allocations custash had served after each plug-in, or the program."""
        return [int(words[0]) for words in notes(self.same_as_bare(*command)) if len(words) == 1]

    def plugins(self, *paths):
        return self.served("plugin_host", *paths)

    def test_a_renamed_runtime(self):
        (count,) = self.plugins(carried("libplugin_renamed.so"))
        self.assertGreaterEqual(count, 1000)

    def test_a_static_runtime(self):
        (count,) = self.plugins(carried("libplugin_static.so"))
        self.assertGreaterEqual(count, 1000)

    def test_each_of_two_runtimes_keeps_its_last_error(self):
        renamed, other, static = carried("libplugin_renamed.so"), built("runtime_plugin"), carried("libplugin_static.so")
        for first, second in ((renamed, other), (other, renamed), (static, renamed)):
            counts = self.plugins(first, second)
            self.assertGreaterEqual(counts[0], 1000)
            self.assertGreaterEqual(counts[1], counts[0] + 1000)

    def test_a_runtime_in_the_program_s_scope_comes_before_a_renamed_one(self):
        """The loader binds the plug-in's calls to it, without custash as well."""
        command = ["plugin_host", carried("libplugin_renamed.so"), built("runtime_plugin")]
        runtime = os.path.join(PATHS.runtime, "libcudart.so.13")
        bare = self.succeed(*command, preload=False, LD_PRELOAD=runtime)
        out = self.succeed(*command, LD_PRELOAD=f"{PATHS.library}:{runtime}")
        self.assertEqual(shared.said(out), shared.said(bare))
        self.assertGreaterEqual(int(notes(out)[-1][0]), 2000)

    def test_a_thread_that_a_constructor_waits_for(self):
        """Its first calls, from code that custash has not seen, while another thread holds the loader's lock."""
        self.same_as_bare("plugin_host", "in-turn", built("runtime_plugin"), carried("libearly_thread.so"), timeout=20)

    def test_a_runtime_that_is_closed_and_loaded_elsewhere(self):
        self.same_as_bare("plugin_host", "closed", built("runtime_plugin"), built("runtime_plugin"))

    def test_a_library_that_is_only_named_like_the_runtime_or_the_driver(self):
        runtime, driver = carried("libcudart_tools.so"), carried("libcuda-helpers.so")
        (count,) = self.plugins(runtime, built("runtime_plugin"))
        self.assertGreaterEqual(count, 1000)
        (count,) = self.plugins(driver, carried("libplugin_driver.so"))
        self.assertGreaterEqual(count, 5)

    def test_a_renamed_stub_before_a_renamed_driver(self):
        counts = self.served("plugin_host", "in-turn", carried("libplugin_renamed_stub.so"), carried("libplugin_driver.so"))
        self.assertEqual(counts[0], -2)
        self.assertGreaterEqual(counts[1], 5)

    def test_a_renamed_driver(self):
        for command in ([carried("renamed_driver"), "linked"], ["plugin_host", carried("libplugin_driver.so")]):
            (count,) = self.served(*command)
            self.assertGreaterEqual(count, 5)

    def test_a_stub_that_comes_before_the_driver(self):
        self.assertEqual(self.served(carried("stub_linked"), "linked"), [-2])
        self.assertEqual(self.plugins(carried("libplugin_stub.so")), [-2])

    def test_a_renamed_stub_keeps_no_other_library_from_being_served(self):
        counts = self.plugins(carried("libplugin_renamed_stub.so"), built("runtime_plugin"))
        self.assertEqual(counts[0], -2)
        self.assertGreaterEqual(counts[1], 1000)


class Told(Carried):
    def doctor(self, *words):
        """The findings, by the subject's file name."""
        done = custash("doctor", "--json", "--lib", PATHS.library, *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return {os.path.basename(f["subject"]): (f["level"], f["what"]) for f in json.loads(done.stdout)["findings"]}

    def of_process(self, *plugins):
        """The findings about a Python that has opened these."""
        code = "import ctypes, sys\nfor path in sys.argv[1:]: ctypes.CDLL(path)\nprint(flush=True); input()"
        must_load_the_library("python3")
        with subprocess.Popen(["python3", "-c", code, *plugins], env=environment(preload=True),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "\n")
            findings = self.doctor("--pid", str(process.pid))
            process.communicate("\n", timeout=20)
            return findings

    def assert_copy(self, finding):
        self.assertEqual(finding[0], "warning")
        self.assertRegex(finding[1], "a copy of the driver, or the toolkit's stub; this machine's driver is .*libcuda.so.1$")

    def test_a_renamed_runtime_and_who_is_linked_with_it(self):
        findings = self.of_process(carried("libplugin_renamed.so"), carried("libplugin_static.so"))
        (runtime,) = [name for name in findings if name.startswith("libcudart-")]
        self.assertEqual(findings[runtime], ("ok", "the shared CUDA runtime; served at the runtime's names and below them"))
        self.assertEqual(findings["libplugin_renamed.so"], ("ok", f"linked with {runtime}; served at its names"))
        self.assertEqual(findings["libplugin_static.so"],
                         ("ok", "holds a static CUDA runtime; served through its look-up of the driver"))

    def test_copies_of_the_driver(self):
        self.assert_copy(self.doctor("--", carried("renamed_driver"))["libcuda-0a1b2c3d.so.1"])
        self.assert_copy(self.doctor("--", carried("stub_linked"))["libcuda.so.1"])
        self.assert_copy(self.of_process(carried("libplugin_driver.so"))["libcuda-0a1b2c3d.so.1"])

    def test_the_machine_s_driver_is_no_copy(self):
        self.assertNotIn("libcuda.so.1", self.doctor("--", os.path.join(PATHS.programs, "doors_linked")))
        self.assertNotIn("libcuda.so.1", self.of_process(built("runtime_plugin"), os.path.join(PATHS.driver, "libcuda.so.1")))


shared.main()
