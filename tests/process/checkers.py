# SPDX-License-Identifier: MIT
"""compute-sanitizer and cuda-gdb beside us, as far as they can be told: their variables and libraries."""
import os
import re
import subprocess
import sys
import tempfile

import program
from program import PATHS, Case, notes, run, said

BY_HAND = """
import ctypes
api = ctypes.CDLL(None)
size, stream, codes = ctypes.c_size_t(5000), ctypes.c_void_p(), []
for free in (api.custash_free, lambda p: api.custash_free_async(p, stream)):
    p = ctypes.c_void_p()
    codes.append(api.custash_malloc_async(ctypes.byref(p), 0, size, stream))
    codes.append(api.custash_record_stream(p, stream))
    codes.append(free(p))
q = ctypes.c_void_p()
codes.append(api.custash_host_malloc(ctypes.byref(q), size, 0))
codes.append(api.custash_host_free(q))
print(codes)
"""


class Checkers(Case):
    def driver_calls(self, preload, **more):
        """How often the driver was asked for memory in a run that says what it says bare; and how many were served."""
        done = run("runtime_shared", preload=preload, CUSTASH_SIM="report=stderr", **more)
        self.assertEqual(said(done.stdout), said(self.bare.stdout))
        calls = re.search(r"^cuMemAlloc_v2 +(\d+) calls", done.stderr, re.M)
        return int(calls.group(1)), int(notes(done.stdout)[-1][0])

    def setUp(self):
        self.bare = run("runtime_shared", preload=False)
        self.asked, _ = self.driver_calls(False)
        self.assertGreaterEqual(self.asked, 1000)

    def assert_passed_through(self, **more):
        self.assertEqual(self.driver_calls(True, **more), (self.asked, 0), more)

    def assert_cached(self, **more):
        asked, served = self.driver_calls(True, **more)
        self.assertLess(asked, 50, more)
        self.assertGreaterEqual(served, 1000, more)

    def test_under_compute_sanitizer_each_allocation_is_the_driver_s(self):
        for more in ({"NV_SANITIZER_INJECTION_PORT_BASE": "49152"}, {"NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN": "1"},
                     {"CUDA_INJECTION64_PATH": "/opt/compute-sanitizer/libsanitizer-collection.so"}):
            self.assert_passed_through(**more)
            self.assert_cached(CUSTASH_CONF="caching:always", **more)

    def test_a_loaded_collector_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            collector = os.path.join(folder, "libsanitizer-collection.so")
            subprocess.run(["cc", "-shared", "-o", collector, "-xc", "/dev/null"], check=True)
            self.assert_passed_through(LD_PRELOAD=f"{collector}:{PATHS.library}")

    def test_a_profiler_changes_nothing(self):
        self.assert_cached(CUDA_INJECTION64_PATH="/opt/nsight/libToolsInjection64.so")

    def test_a_debugger_is_noted_and_changes_nothing(self):
        done = run("runtime_shared", CUSTASH_CONF="log:info", CUSTASH_SIM="debugger=1")
        self.assertIn("event=debugger seen=cudbgIpcFlag", done.stderr)
        self.assertGreaterEqual(int(notes(done.stdout)[-1][0]), 1000)
        self.assertNotIn("event=debugger", run("runtime_shared", CUSTASH_CONF="log:info").stderr)

    def test_the_log_says_why_nothing_is_cached(self):
        done = run("runtime_shared", CUSTASH_CONF="log:warn", NV_SANITIZER_INJECTION_PORT_BASE="1")
        self.assertIn('event=caching_off reason="compute-sanitizer" seen=NV_SANITIZER_INJECTION_PORT_BASE',
                      done.stderr)

    def test_without_caching_all_is_as_bare(self):
        self.assert_passed_through(CUSTASH_CONF="caching:never")
        for name in ("pinned_shared", "doors"):
            arguments = ["open"] if name == "doors" else []
            self.same_as_bare(name, *arguments, CUSTASH_CONF="caching:never")

    def test_the_c_api_without_caching(self):
        for conf in ("caching:never", "caching:auto"):
            self.assertEqual(self.succeed(sys.executable, "-c", BY_HAND, CUSTASH_CONF=conf), f"{[0] * 8}\n", conf)


program.main()
