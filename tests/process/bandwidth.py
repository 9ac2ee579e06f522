# SPDX-License-Identifier: MIT
"""The demo bandwidth over the simulated driver, without and with custash."""
import json
import os
import signal
import subprocess
import time
import xml.etree.ElementTree

import program as shared
from program import PATHS, InFolder, environment, read


KEYS = {"bytes", "direction", "memory", "allocation", "processes", "gb_per_s", "gb_per_s_all", "copy_ms",
        "whole_ms"}
COLD_KEYS = {"first_allocation_ms", "allocation_ms", "free_ms"}
# What the simulated driver takes: milliseconds a copy, and GB/s with each kind of host memory.
START_MS = 0.0015
GB_PER_S = {"pageable": 10, "pinned": 50}
# The copy's own call and an event's, which may lie between the two events.
SLACK_MS = 0.005


def program():
    return os.path.join(PATHS.programs, "bandwidth")


class Bandwidth(InFolder):
    def ask(self, *words, preload=False, code=0, **more):
        """Runs the program; returns what it said, on standard error where it fails."""
        done = shared.run("bandwidth", *words, preload=preload, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout if code else done.stderr, "")
        return done.stderr if code else done.stdout

    def measure(self, *words, **more):
        return json.loads(self.ask("--json", "--repetitions", "3", *words, **more))

    def only_cell(self, *words, **more):
        cells = self.measure(*words, **more)["cells"]
        self.assertEqual(len(cells), 1)
        return cells[0]

    def test_every_cell_is_there_once(self):
        told = self.measure("--sizes", "4k,1m", "--processes", "1,2")
        self.assertEqual((told["device"], told["simulated"], told["custash"], told["repetitions"]),
                         ("Simulated GPU", True, None, 3))
        names = [(c["bytes"], c["direction"], c["memory"], c["allocation"], c["processes"]) for c in told["cells"]]
        self.assertEqual(len(names), 32)
        self.assertEqual(set(names), {(b, d, m, a, p) for b in (4096, 1 << 20) for d in ("h2d", "d2h")
                                      for m in ("pageable", "pinned") for a in ("cached", "cold") for p in (1, 2)})
        for cell in told["cells"]:
            self.assertEqual(set(cell), KEYS | (COLD_KEYS if cell["allocation"] == "cold" else set()))

    def test_copies_take_what_the_model_says(self):
        told = self.measure("--sizes", "64k,16m")
        for cell in told["cells"]:
            modelled = START_MS + cell["bytes"] / GB_PER_S[cell["memory"]] / 1e6
            self.assertGreaterEqual(cell["copy_ms"], modelled - 1e-5, cell)
            self.assertLess(cell["copy_ms"], modelled + SLACK_MS, cell)
            self.assertAlmostEqual(cell["gb_per_s"], cell["bytes"] / cell["copy_ms"] / 1e6, delta=0.01)
            self.assertGreater(cell["whole_ms"], cell["copy_ms"] + cell.get("allocation_ms", 0)
                               + cell.get("free_ms", 0), cell)
        for direction in ("h2d", "d2h"):
            speed = {c["memory"]: c["gb_per_s"] for c in told["cells"]
                     if (c["bytes"], c["direction"], c["allocation"]) == (16 << 20, direction, "cached")}
            self.assertGreater(speed["pinned"], 4 * speed["pageable"])

    def test_each_cold_cell_begins_with_nothing_cached(self):
        told = self.measure("--sizes", "1m", "--memory", "pinned", "--allocation", "cold", preload=True)
        self.assertEqual(len(told["cells"]), 2)
        for cell in told["cells"]:
            self.assertGreater(cell["first_allocation_ms"], 100 * cell["allocation_ms"], cell)

    def test_custash_run_starts_it(self):
        done = shared.launch("--summary", "--", program(), "--json", "--sizes", "4k", "--processes", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIsNotNone(json.loads(done.stdout)["custash"])
        self.assertEqual(done.stderr.count("custash: device 0:"), 3, done.stderr)

    def test_modelled_times_are_called_so(self):
        text = self.ask("--sizes", "1536,2m", "--repetitions", "1")
        self.assertIn("times are modelled", text)
        self.assertEqual(len(text.splitlines()), 3 + 16)
        self.assertIn("1536 B", text)
        self.assertIn("2 MiB", text)
        text = self.ask("--mistakes")
        for words in ("Start-up in the timing:", "Handed to a process:", "Right:", "not pinned", "modelled"):
            self.assertIn(words, text)

    def test_the_plot_is_one_picture_with_a_line_for_each_series(self):
        path = self.path("out.svg")
        self.measure("--sizes", "64k,1m,2m", "--processes", "1,2", "--plot", path)
        text = self.read(path)
        self.assertNotIn("href", text)
        root = xml.etree.ElementTree.fromstring(text)
        names = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
        for name in ("d2h, pinned, 2 processes", "h2d, pageable, 1 process",
                     "pinned, 2 processes: first allocation", "pageable, 1 process: later ones", "64 KiB", "2 MiB"):
            self.assertEqual(names.count(name), 2 if name.endswith("iB") else 1, name)
        dots = [float(dot.get("cx")) for dot in root.iter("{http://www.w3.org/2000/svg}circle")]
        self.assertEqual(len([x for x in dots if 80 <= x <= 660]), 2 * 8 * 3)
        self.assertEqual(dots.count(688), 2 * 8)  # of the keys
        self.assertEqual(len(dots), 2 * 8 * 4)

    def test_in_a_plot_of_one_size_no_series_hides_another(self):
        path = self.path("out.svg")
        self.measure("--sizes", "64k", "--plot", path)
        root = xml.etree.ElementTree.parse(path)
        dots = [dot.get("cx") for dot in root.iter("{http://www.w3.org/2000/svg}circle") if dot.get("cx") != "688"]
        self.assertEqual((len(dots), len(set(dots))), (2 * 4, 4))

    def test_a_plot_that_cannot_be_written_loses_no_figures(self):
        mine = self.path("mine.svg")
        self.write(mine, "not custash's\n")
        self.assertEqual(self.ask("--plot", mine, code=125),
                         f"custash: {mine}: exists and is not a custash picture; --force replaces it\n")
        fifo = self.path("fifo")  # that nobody reads shows at the end only
        os.mkfifo(fifo)
        for path, code, why in ((fifo, 1, "no process reads from it"),
                                (self.folder + "/none/out.svg", 125, "No such file or directory")):
            done = subprocess.run([program(), "--json", "--sizes", "4k", "--plot", path],
                                  env=environment(preload=False), capture_output=True, text=True, timeout=60,
                                  check=False)
            self.assertEqual((done.returncode, done.stderr), (code, f"custash: {path}: {why}\n"))
            self.assertEqual(len(json.loads(done.stdout)["cells"]) if done.stdout else 0, 8 if code == 1 else 0)

    def test_the_command_says_where_it_went(self):
        done = shared.custash("bandwidth", "--mistakes")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (125, "", "custash: bandwidth: moved to tools/demos/bandwidth of custash's sources\n"))

    def test_wrong_options_are_told(self):
        for words, message in [(("--sizes", "12x"), "--sizes 12x is not a size"),
                               (("--sizes", "4k,0"), "--sizes 0 is not a size"),
                               (("--direction", "up"), "--direction up: it is h2d or d2h"),
                               (("--memory", "pinned,warm"), "--memory warm: it is pageable or pinned"),
                               (("--allocation", "hot"), "--allocation hot: it is cached or cold"),
                               (("--processes", "0"), "--processes takes 1 to 256"),
                               (("--processes", "two"), "--processes"),
                               (("--repetitions", "0"), "--repetitions takes 1 to 10000"),
                               (("--device", "-1"), "--device takes 0 or more"),
                               (("--mistakes", "--sizes", "4k"), "--mistakes excludes --sizes")]:
            self.assertIn(message, self.ask(*words, code=125), words)

    def test_no_such_device(self):
        self.assertEqual(self.ask("--device", "2", code=1), "custash: there is no device 2: the driver has 2\n")
        self.assertEqual(self.ask(code=1, CUSTASH_SIM="devices=0"),
                         "custash: cuInit: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)\n")
        cell = self.only_cell("--sizes", "4k", "--device", "1", "--memory", "pinned", "--allocation", "cached",
                              "--direction", "h2d")
        self.assertGreater(cell["gb_per_s"], 0)

    def test_no_driver(self):
        self.write("libcuda.so.1", "no library\n")
        for words in ((), ("--mistakes",)):
            self.assertIn("custash: there is no CUDA driver: ",
                          self.ask(*words, code=1, LD_LIBRARY_PATH=self.folder))

    def test_too_little_memory(self):
        for processes in ("1", "3"):
            message = self.ask("--sizes", "4k,64m", "--processes", processes, code=1, CUSTASH_SIM="memory=32m")
            self.assertEqual(message, "custash: 64 MiB of device memory: CUDA_ERROR_OUT_OF_MEMORY (out of memory)\n")
        message = self.ask("--sizes", "16m", code=1, preload=True, CUSTASH_CONF="pinned:1M")
        self.assertIn("custash: 16 MiB of pinned memory: CUDA_ERROR_OUT_OF_MEMORY (out of memory)\n", message)

    def test_a_process_that_dies_ends_the_others(self):
        with subprocess.Popen([program(), "--sizes", "4m", "--processes", "3", "--repetitions",
                               "10000"], env=environment(preload=False), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as running:
            deadline = time.monotonic() + 30
            children = []
            while len(children) < 3 and time.monotonic() < deadline:
                children = read(f"/proc/{running.pid}/task/{running.pid}/children").split()
            self.assertEqual(len(children), 3)
            os.kill(int(children[1]), signal.SIGKILL)
            out, err = running.communicate(timeout=30)
        self.assertEqual((running.returncode, out), (1, ""))
        self.assertEqual(err, "custash: a measuring process was ended by signal 9 (Killed)\n")


shared.main()
