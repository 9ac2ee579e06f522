# SPDX-License-Identifier: MIT
"""The Python module `custash`: preloaded, and in a Python that opens the library itself."""
import os
import re
import sys
import tempfile

import program
from program import PATHS, Case, run

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/python")
NUMBERS = """
import json
import custash
a = custash.malloc(5000)
b = custash.malloc(3 << 20, device=0, stream=0)
assert a and b and a % 512 == 0, (a, b)
assert custash.memory_allocated() >= 5000 + (3 << 20)
assert custash.memory_reserved(0) >= custash.memory_allocated(0)
stats = custash.memory_stats()
assert stats["allocation.all.current"] == 2 and stats["requested_bytes.all.current"] == 5000 + (3 << 20)
assert "Allocated memory" in custash.memory_summary() and "# TYPE" in custash.statistics_prometheus()
assert json.loads(custash.statistics_json())
custash.free(a)
custash.free(b, stream=0)
assert custash.memory_allocated() == 0 and custash.max_memory_allocated() >= 5000 + (3 << 20)
custash.reset_peak_memory_stats()
assert custash.max_memory_allocated() == 0 and custash.max_memory_reserved() > 0
custash.trim(1)
custash.trim_idle()
custash.empty_cache()
assert custash.memory_reserved() == 0
assert custash.malloc(0) == 0
assert list(custash.host_memory_stats())[0].startswith("allocation")
custash.host_empty_cache()
custash.reset_peak_host_memory_stats()
print(custash.preloaded(), custash.version())
"""
HISTORY = """
import json, os, sys, warnings
import custash
custash.record_history(1000, 8)
kept = custash.malloc(3 << 20)
custash.free(custash.malloc(5000))
assert "3" in custash.leaks(), custash.leaks()
for ending in ("html", "json", "pickle", "trace.json"):
    custash.snapshot(f"{sys.argv[1]}/memory.{ending}")
    assert os.path.getsize(f"{sys.argv[1]}/memory.{ending}") > 100
json.load(open(f"{sys.argv[1]}/memory.json"))
assert open(f"{sys.argv[1]}/memory.html").read().startswith("<!DOCTYPE html>")
open(f"{sys.argv[1]}/mine.html", "w").write("mine")
try:
    custash.snapshot(f"{sys.argv[1]}/mine.html")
except custash.Error as error:
    assert "exists and is not a custash report" in str(error), error
else:
    raise SystemExit("a file that is not custash's was replaced")
os.environ["PATH"] = "/none"
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    custash.snapshot(f"{sys.argv[1]}/later.html")
assert len(said) == 1 and "custash report" in str(said[0].message), said
names = sorted(os.listdir(sys.argv[1]))
assert names == ["later.html.json", "memory.html", "memory.json", "memory.pickle", "memory.trace.json", "mine.html", "mine.html.json"], names
custash.stop_history()
try:
    custash.snapshot(sys.argv[1] + "/none/memory.html")
except custash.Error as error:
    assert "FILE" in str(error), error
else:
    raise SystemExit("a file in a folder that is not there was written")
custash.free(kept)
"""
ERRORS = """
import custash
def refused(kind, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except kind as error:
        return str(error)
    raise SystemExit(f"{call.__name__}{arguments} passed")
assert "INVALID_VALUE" in refused(custash.Error, custash.memory_stats, 99)
assert "/nodir/x.json: No such file" in refused(custash.Error, custash.snapshot, "/nodir/x.json")
assert "its ending is none of .html" in refused(custash.Error, custash.snapshot, "a.txt")
assert custash.Error.__module__ == custash.OutOfMemoryError.__module__ == "custash"
assert "NOT_OURS" in refused(custash.Error, custash.free, 12345)
custash.set_memory_limit(64 << 20)
said = refused(custash.OutOfMemoryError, custash.malloc, 1 << 30)
assert said.startswith("CUDA out of memory. ") and "limit" in said, said
refused(MemoryError, custash.malloc, 1 << 30)  # as host memory's end is
refused(RuntimeError, custash.malloc, 1 << 30)  # as PyTorch's
custash.set_memory_limit(None)
custash.set_per_process_memory_fraction(0.9)
custash.free(custash.malloc(1 << 30))
"""
TYPES = """
import inspect, os
import custash
assert os.path.exists(os.path.join(os.path.dirname(custash.__file__), "py.typed"))
for name in custash.__all__:
    each = getattr(custash, name)
    if inspect.isfunction(each):
        hints = inspect.signature(each)
        assert inspect.Signature.empty not in (hints.return_annotation, *[p.annotation for p in hints.parameters.values()]), name
"""
SLEEP = """
import custash
def refused(call):
    try:
        call()
    except custash.Error as error:
        return str(error)
    raise SystemExit(f"{call.__name__} passed")
memory = custash.malloc(3 << 20)
custash.sleep()
custash.wake()
custash.sleep()
assert "the process is asleep" in refused(custash.sleep)
custash.wake()
custash.free(memory)
"""


class PythonModule(Case):
    def python(self, text, preload, *words, **more):
        return self.succeed(sys.executable, "-c", text, *words, preload=preload, PYTHONPATH=MODULE,
                            CUSTASH_SIM="devices=1,memory=4g", PYTHONDONTWRITEBYTECODE="1",
                            PATH=os.path.dirname(PATHS.command) + ":" + os.environ["PATH"],
                            **({} if preload else {"CUSTASH_LIBRARY": PATHS.library}), **more)

    def test_numbers_and_controls(self):
        self.assertRegex(self.python(NUMBERS, True), "^" + re.escape(f"True {program.VERSION}"))
        self.assertRegex(self.python(NUMBERS, False), "^" + re.escape(f"False {program.VERSION}"))

    def test_the_texts_of_a_process_that_does_not_answer(self):
        text = "import custash\na = custash.malloc(5000)\nassert 'Allocated memory' in custash.memory_summary(0)\n" \
               "assert '# TYPE' in custash.statistics_prometheus(0)"
        self.assertEqual(self.python(text, True, CUSTASH_CONF="control:false,neighbours:false"), "")

    def test_history_and_snapshots(self):
        for preload in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(self.python(HISTORY, preload, folder), "")

    def test_errors(self):
        for preload in (True, False):
            self.assertEqual(self.python(ERRORS, preload), "")

    def test_type_hints(self):
        self.assertEqual(self.python(TYPES, False), "")

    def test_sleep(self):
        with tempfile.TemporaryDirectory() as folder:
            conf = f"backing:vmm,sleep_memory:0,sleep_dir:{folder}"
            self.assertEqual(self.python(SLEEP, True, folder, CUSTASH_CONF=conf), "")

    def test_every_function_of_the_c_api_that_it_declares_is_there(self):
        self.python("import custash._library as l; l.library()", False)

    def test_a_library_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(sys.executable, "-c", "import custash; custash.version()", preload=False, PYTHONPATH=MODULE,
                       PYTHONDONTWRITEBYTECODE="1", CUSTASH_LIBRARY=os.path.join(folder, "none.so"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("set CUSTASH_LIBRARY to its path", done.stderr)
        self.assertIn("none.so", done.stderr)


program.main()
