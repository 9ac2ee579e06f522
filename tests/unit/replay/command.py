# SPDX-License-Identifier: MIT
"""`custash replay`, the command. Arguments: the command; the folder of the small traces; a folder with a
libcuda.so.1, or nothing; the tests to run."""
import contextlib
import fcntl
import gzip
import json
import lzma
import os
import pickle
import pty
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
import xml.dom.minidom

COMMAND, TRACES, DRIVER, *TESTS = sys.argv[1:]
# The most that each trace may hold, as a share of the most that it has in use.
HELD = {"diffusion": 1.0165, "frames": 1.051, "serving": 1.0835, "streams": 1.5335,
        "training/gnn": 1.018, "training/gpt2": 1.016, "training/lora": 1.0305, "training/vision": 1.0165}
SMALL = "1 0 a 1 3000000 -\n2 0 a 2 5000 -\n3 0 f 1 3000000 -\n4 0 a 3 2000000 -\n"


def run(*words):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CUSTASH", "LD_"))}
    if DRIVER:
        env.update(LD_LIBRARY_PATH=DRIVER, CUSTASH_SIM="devices=1,memory=8g")
    return subprocess.run([COMMAND, "replay", *words], env=env, capture_output=True, text=True, timeout=60,
                          check=False)


def entry(action, address, size, stream=0):
    return {"action": action, "addr": address, "size": size, "stream": stream, "time_us": 1700000000000000,
            "frames": [{"filename": "app.py", "name": "main", "line": 7}], "device": 0}


class Bed(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def json_of(self, *words, code=0):
        done = run("--json", *words)
        self.assertEqual((done.returncode, done.stderr), (code, ""), done.stdout)
        return json.loads(done.stdout)

    def fails(self, why, *words, code=125):
        done = run(*words)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertIn(why, done.stderr)

    def refuses(self, why, path):
        self.fails(why, path, code=1)

    def held(self, name, *words):
        told, = self.json_of(*words, os.path.join(TRACES, name + ".trace.xz"))
        self.assertTrue(told["fits"] and told["sound"])
        return told

    def hold_less_than_expandable_segments_would(self, *names):
        for name in names:
            with self.subTest(name):
                told = self.held("long/" + name, "--expandable-model")
                self.assertLess(told["peak_held_bytes"], told["pytorch_expandable_model"]["peak_held_bytes"])


class AtNight(Bed):
    def test_the_longest_traces(self):
        self.hold_less_than_expandable_segments_would("experts", "graphs")


class Replay(Bed):
    def test_no_trace_holds_more_than_it_did_nor_than_pytorch_would(self):
        for name, most in HELD.items():
            with self.subTest(name):
                told = self.held(name, "--expandable-model")
                self.assertGreaterEqual(told["utilisation"], 1)
                self.assertLessEqual(told["utilisation"], most)
                self.assertLess(told["peak_held_bytes"], told["pytorch_native_model"]["peak_held_bytes"])
                self.assertEqual(told["num_ooms"], 0)

    def test_long_traces(self):
        self.hold_less_than_expandable_segments_would("detect", "lanes", "recurrent", "reinforce", "tiles")

    def test_idle_says_what_is_held_after_the_peak(self):
        told, = self.json_of("--idle", os.path.join(TRACES, "frames.trace.xz"))
        self.assertEqual(len(told["idle"]), 9)
        for moment in told["idle"]:
            self.assertTrue(moment["sound"])
            self.assertLessEqual(moment["in_use_bytes"], moment["deep_trimmed_bytes"])
            self.assertLessEqual(moment["deep_trimmed_bytes"], moment["trimmed_bytes"])
            self.assertLessEqual(moment["trimmed_bytes"], moment["held_bytes"])
            self.assertLessEqual(moment["deep_trimmed_bytes"], 1.1 * moment["in_use_bytes"])
        streams = self.held("streams", "--idle")
        self.assertGreater(max(each["trimmed_bytes"] / max(1, each["in_use_bytes"]) for each in streams["idle"]), 1.3)
        self.assertIn("deep trim", run("--idle", self.file("small", SMALL)).stdout)
        self.fails("--idle needs", "--idle", "--through", "driver", self.file("t", SMALL))

    def test_text_says_what_json_says(self):
        path = self.file("t", SMALL)
        told = self.json_of(path)[0]
        done = run(path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(told["peak_in_use_bytes"], 3005000)
        self.assertIn(f"\n  utilisation: {told['utilisation']:.4f}\n", done.stdout)
        self.assertIn(f"{told['driver_time_ns'] / 1e6:.3f} ms in all", done.stdout)
        self.assertEqual(sum(row["time_ns"] for row in told["driver_calls"].values()), told["driver_time_ns"])

    def test_a_driver_that_is_loaded_serves_as_the_one_inside_does(self):
        if not DRIVER:
            self.skipTest("no libcuda.so.1 here")
        path = os.path.join(TRACES, "streams.trace.xz")
        for through in ("custash", "driver", "pool"):
            inside = self.json_of("--through", through, "--in-flight", "0", path)[0]
            loaded = self.json_of("--through", through, "--backend", "cuda", path)[0]
            self.assertEqual((loaded["fits"], loaded["sound"], loaded["driver_time"]), (True, True, "measured"))
            self.assertEqual(loaded["peak_in_use_bytes"], inside["peak_in_use_bytes"])
            self.assertGreaterEqual(loaded["peak_held_bytes"], loaded["peak_in_use_bytes"])
            self.assertGreater(loaded["driver_time_ns"], 0)
            self.assertEqual(set(inside["driver_calls"]) - set(loaded["driver_calls"]), set())

    def test_options_reach_the_allocator(self):
        path = self.file("t", SMALL)
        self.assertIn("cuMemCreate", self.json_of(path)[0]["driver_calls"])
        self.assertNotIn("cuMemCreate", self.json_of("--conf", "backing:driver", path)[0]["driver_calls"])

    def test_a_device_of_a_given_size(self):
        path = self.file("t", SMALL)
        for size in ("64m", "64MiB", "64MB", "65536k", "0.0625G", str(64 << 20)):
            self.assertEqual(self.json_of("--capacity", size, path)[0]["device_bytes"], 64 << 20)
        told = self.json_of("--capacity=2m", path, code=1)[0]
        self.assertEqual((told["fits"], told["num_ooms"]), (False, 1))

    def test_progress_on_a_terminal_of_40_columns_stays_in_its_line(self):
        path = os.path.join(self.folder, "a" * 40, "frames.trace.xz")
        os.mkdir(os.path.dirname(path))
        shutil.copy(os.path.join(TRACES, "frames.trace.xz"), path)
        for words in ((path,), ("--capacity", path)):
            leader, follower = pty.openpty()
            fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
            with subprocess.Popen([COMMAND, "replay", *words], stdout=subprocess.DEVNULL, stderr=follower) as process:
                os.close(follower)
                shown = b""
                with contextlib.suppress(OSError):  # the terminal's other end is closed
                    while some := os.read(leader, 65536):
                        shown += some
                self.assertEqual(process.wait(60), 0)
            os.close(leader)
            lines = [line.replace("\x1b[K", "") for line in shown.decode().split("\r")]
            self.assertGreater(len(lines), 3)
            self.assertTrue(all(len(line) < 40 and "\n" not in line for line in lines), lines)
            self.assertTrue(any("frames.trace.xz" in line and "%" in line for line in lines), lines)
            self.assertEqual(lines[-1], "")

    def test_the_smallest_device(self):
        path = self.file("t", "".join(f"1 0 a {i} 8388608 -\n" for i in range(1, 6)))
        for words in (("--capacity", path), (path, "--capacity")):
            told = self.json_of(*words)[0]
            self.assertEqual(told["smallest_device_bare_bytes"], 40 << 20)
            self.assertGreaterEqual(told["smallest_device_bytes"], 40 << 20)

    def test_snapshots_of_every_protocol(self):
        segments = [{"device": 0, "address": 0x7F0000000000, "total_size": 4096, "stream": 0,
                     "blocks": [{"size": 4096, "requested_size": 4000, "address": 0x7F0000000000,
                                 "state": "active_allocated", "frames": []}]}]
        entries = [entry("alloc", 0x7F0000100000, 1 << 20), entry("alloc", 0x7F0000300000, 3 << 20, 0x55AA00),
                   entry("free_requested", 0x7F0000100000, 1 << 20),
                   entry("free_completed", 0x7F0000100000, 1 << 20)]
        snapshot = {"segments": segments, "device_traces": [[], entries[:1], entries], "pi": 3.14, "big": 1 << 62,
                    "negative": -5, "none": None, "yes": True, "tuple": (1, 2, 3, 4), "set": [],
                    "settings": {"expandable_segments": False}}
        for segment in segments:
            segment["device"] = 2
        for protocol in range(2, 6):
            if protocol > 2:  # which has no opcode for them
                snapshot["bytes"] = b"x" * 300
            for packed in (False, True):
                content = pickle.dumps(snapshot, protocol=protocol)
                path = self.file("s.pickle", lzma.compress(content) if packed else content)
                told = self.json_of(path)[0]
                self.assertEqual((told["events"], told["peak_in_use_bytes"], told["sound"]),
                                 (4, (4 << 20) + 4000, True), protocol)

    def test_a_pickle_is_not_executed(self):
        witness = os.path.join(self.folder, "witness")

        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {witness}",)

        for protocol in range(2, 6):
            path = self.file("s.pickle", pickle.dumps({"device_traces": [Evil()]}, protocol=protocol))
            self.refuses("it would run code (GLOBAL)", path)
        self.assertFalse(os.path.exists(witness))

    def test_what_is_wrong_with_a_file_is_told_with_its_place(self):
        self.refuses("t:3: op is none of a, f, h, g", self.file("t", SMALL.replace("3 0 f", "3 0 x")))
        self.refuses("nowhere: No such file", os.path.join(self.folder, "nowhere"))
        packed = lzma.compress(SMALL.encode() * 1)
        self.refuses("t.xz: the .xz file ends too early", self.file("t.xz", packed[:-9]))
        self.refuses(": not six fields", self.file("t", os.urandom(50).hex()))

    def test_a_file_that_is_no_trace_is_refused(self):
        self.refuses("/bin/ls: no trace: it is an ELF program or library", "/bin/ls")
        for name in ("/dev/null", self.file("empty", ""), self.file("comments", "# one\n\n# two\n"),
                     self.file("zeros", bytes(5000)), self.file("empty.xz", lzma.compress(b""))):
            self.refuses(f"{name}: no events in it", name)
        self.refuses("custash report ", self.file("s.json", '{"format": "custash snapshot"}'))
        self.refuses("custash report ", self.file("s.html", "<!doctype html>"))
        self.refuses("packed with gzip", self.file("t.gz", gzip.compress(SMALL.encode())))
        for seed in range(30):
            with self.subTest(seed=seed):
                self.refuses("noise", self.file("noise", random.Random(seed).randbytes(100_000)))

    def test_zeros_count_only_at_the_end(self):
        good = self.json_of(self.file("t", SMALL))[0]["events"]
        self.assertEqual(self.json_of(self.file("t", SMALL.encode() + bytes(9)))[0]["events"], good)
        damaged = self.file("t", SMALL.encode().replace(b"3 0 f", b"3\0\0\0f") + bytes(9))
        self.refuses("t:3: zero bytes: the file is damaged", damaged)

    def test_the_traces_beside_a_bad_one_are_replayed(self):
        good, bad = self.file("good", SMALL), self.file("bad", "x")
        done = run("--json", bad, good)
        self.assertEqual((done.returncode, [each["trace"] for each in json.loads(done.stdout)]), (1, [good]))
        self.assertIn("bad:1: not six fields", done.stderr)

    def test_what_is_wrong_with_an_option_is_told(self):
        path = self.file("t", SMALL)
        self.fails("missing: files")
        self.fails("--backend is sim or cuda, not gpu", "--backend", "gpu", path)
        self.fails("--through is custash, driver or pool, not torch", "--through", "torch", path)
        self.fails("custash: --conf: unknown option 'nonsense' (see custash run --help)\n", "--conf", "nonsense:1", path)
        for size in ("12x", "99999999t", "17T", "1.5"):
            for words in ((f"--capacity={size}",), ("--capacity", size)):
                self.fails(f"--capacity {size} is not a size", *words, path)
        self.fails("--plot writes SVG, not png", "--plot", "p.png", path)
        self.fails("--backend needs a value: sim|cuda (custash replay --help)", path, "--backend")
        self.fails("--plot takes one trace", "--plot", "p.svg", path, path)
        self.fails("No such file or directory", "--plot", os.path.join(self.folder, "no", "p.svg"), path)
        self.fails("--capacity needs --backend sim", "--backend", "cuda", "--capacity", path)
        self.fails("--wrong", "--wrong", path)

    def test_a_plot_is_well_formed(self):
        path = os.path.join(self.folder, "p.svg")
        self.json_of("--plot", path, os.path.join(TRACES, "frames.trace.xz"))
        document = xml.dom.minidom.parse(path)
        curves = [p for p in document.getElementsByTagName("path") if p.getAttribute("stroke-width")]
        self.assertEqual(len(curves), 2)
        self.assertIn("in use", document.toxml())

    def test_no_label_of_a_plot_is_cut_at_the_edge(self):
        path = os.path.join(self.folder, "p.svg")
        self.json_of("--plot", path, self.file("t", SMALL))  # four events: the last tick is at the edge
        texts = [t for t in xml.dom.minidom.parse(path).getElementsByTagName("text") if float(t.getAttribute("x")) > 930]
        self.assertEqual(len(texts), 2)
        self.assertEqual({t.getAttribute("text-anchor") for t in texts}, {"end"})

    def test_a_plot_has_the_models(self):
        path = os.path.join(self.folder, "p.svg")
        told = self.json_of("--plot", path, "--expandable-model", os.path.join(TRACES, "frames.trace.xz"))[0]
        text = xml.dom.minidom.parse(path).toxml()
        self.assertIn("PyTorch (model), most held", text)
        self.assertIn("expandable segments (model), most held", text)
        self.assertGreater(told["pytorch_native_model"]["peak_held_bytes"], 0)


unittest.main(argv=["replay", *TESTS], verbosity=2)
