# SPDX-License-Identifier: MIT
"""Names of call sites: functions and lines of a program that is built with debug information, without, stripped, with a
separate debug file, and by nvcc; the same name in every form; never a wrong one."""
import json
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import unittest

import browser
import program as shared
from program import PATHS, InOneFolder, environment, lines_marked, run
from report_data import data_of

PATHS.compiler = PATHS.cuda = PATHS.nvcc = ""
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "names.cpp")
MIB = 1 << 20
# By what they hold, the most first; of `inlined` the function that holds it comes next.
PLACES = ["weights", "static_cache", "layer", "grow", "inlined", "templated", "plain_c", "hidden", "recursive", "main"]
LINES = lines_marked(SOURCE)


class Names(InOneFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.debug = cls.build("debug", "-g")

    @classmethod
    def build(cls, name, *options, compiler=None, link=None):
        out = os.path.join(cls.folder, name)
        if not os.path.exists(out):
            runtime = link or [os.path.join(PATHS.runtime, "libcudart.so")]
            subprocess.run([*(compiler or [*PATHS.compiler.split(), "-I" + PATHS.cuda + "/include"]), "-O1", *options, SOURCE,
                            "-o", out, *runtime, "-ldl"], check=True, timeout=300, capture_output=True)
        return out

    def command(self, *words, code=0, err="", **more):
        done = shared.custash(*words, **more)
        self.assertEqual((done.returncode, done.stderr), (code, err))
        return done.stdout

    def record(self, program):
        """A snapshot that the process has written by itself, without a name for what it does not export."""
        out = program + ".json"
        with open(out + ".out", "w", encoding="utf-8") as said:
            subprocess.run([program], stdout=said, timeout=60, check=True, env=environment(
                preload=True, CUSTASH_SIM="devices=1", CUSTASH_CONF="history:1000,snapshot:" + out))
        data = self.load(out)
        for site in data["history"]["sites"]:  # not in CUDA's libraries, nor in ours
            self.assertEqual(data["frames"][data["stacks"][site["stack"]][0]]["module"], program)
        return out

    def sites(self, snapshot):
        """(MiB, frames) of each call site in its report, the most first."""
        self.command("report", snapshot, "-o", snapshot + ".html")
        data = data_of(snapshot + ".html")
        found = sorted(data["history"]["sites"], key=lambda site: -site["bytes"])
        return [(s["bytes"] // MIB, [data["frames"][i] for i in data["stacks"][s["stack"]]]) for s in found]

    def check_lines(self, snapshot):
        sites = self.sites(snapshot)
        self.assertEqual([mib for mib, _ in sites], list(range(11, 1, -1)))
        for place, (_, frames) in zip(PLACES, sites):
            self.assertRegex(frames[0]["name"], rf"\b{place}\b")
            self.assertEqual((frames[0]["file"], frames[0]["line"]), (SOURCE, LINES[place]), place)
        frames = sites[PLACES.index("inlined")][1]
        self.assertEqual((frames[1]["name"], frames[1]["line"]), ("holder()", LINES["holder"]))
        self.assertEqual(sites[2][1][0]["name"], "net::layer(int)")
        said = self.command("leaks", snapshot)
        self.assertIn(f"custash:     weights() ({SOURCE}:{LINES['weights']})\n", said)
        # What lies between the program and the driver is dropped.
        self.assertNotRegex(said, "cudaMalloc|libcudart|libcustash|libcuda")

    def test_debug_information(self):
        self.check_lines(self.record(self.debug))

    def test_debug_information_of_a_program_that_is_not_relocated(self):
        self.check_lines(self.record(self.build("fixed", "-g", "-no-pie", "-fno-pie")))

    def test_separate_debug_file(self):
        apart = self.path("apart")
        shutil.copy(self.debug, apart)
        subprocess.run(["objcopy", "--only-keep-debug", apart, apart + ".debug"], check=True)
        subprocess.run(["strip", apart], check=True)
        subprocess.run(["objcopy", "--add-gnu-debuglink=" + apart + ".debug", apart], check=True)
        self.check_lines(self.record(apart))
        os.remove(apart + ".debug")
        self.assertEqual(self.sites(apart + ".json")[0][1][0]["name"], "")

    def test_a_folder_whose_name_is_not_ascii(self):
        os.makedirs(self.path("проект-メモリ"), exist_ok=True)
        self.check_lines(self.record(self.build("проект-メモリ/größe", "-g")))

    def test_functions_of_python_whose_names_are_not_ascii(self):
        place = self.path("обучение")
        os.makedirs(place, exist_ok=True)
        script = os.path.join(place, "größe.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("import ctypes\nruntime = ctypes.PyDLL('libcudart.so.13')\ndef выделить(n):\n"
                       "    return runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(n))\nassert выделить(4096) == 0\n")
        for form in ("json", "pickle", "trace.json", "html"):
            out = self.path("python." + form)
            done = run(sys.executable, script, CUSTASH_SIM="devices=1", CUSTASH_CONF=f"history:1000,snapshot:{out}")
            self.assertEqual(done.returncode, 0, done.stderr)
            shared.render(self.folder)
            data = json.dumps(data_of(out), ensure_ascii=False).encode() if form == "html" else self.read_bytes(out)
            for name in (script,) if form == "trace.json" else ("выделить", script):
                self.assertIn(name.encode(), data, form)
        entries = pickle.loads(self.read_bytes("python.pickle"))["device_traces"][0]
        self.assertIn(("выделить", script, 4), {(f["name"], f["filename"], f["line"]) for entry in entries for f in entry["frames"]})
        self.assertIn(f"выделить ({script}:4)", self.command("leaks", self.path("python.json")))

    def test_clang(self):
        clang = shutil.which("clang++")
        if clang is None:
            raise unittest.SkipTest("no clang++ here")
        self.check_lines(self.record(self.build("clang", "-g", "-I" + PATHS.cuda + "/include", compiler=[clang])))

    def test_nvcc(self):
        if not PATHS.nvcc:
            raise unittest.SkipTest("no nvcc here")
        self.check_lines(self.record(self.build("nvcc", "-g", "-x", "cu", compiler=[PATHS.nvcc], link=["-cudart", "shared"])))

    def test_symbols_only(self):
        for place, (_, frames) in zip(PLACES, self.sites(self.record(self.build("symbols")))):
            expected = "holder" if place == "inlined" else place
            self.assertRegex(frames[0]["name"], rf"\b{expected}\b")
            self.assertEqual(frames[0]["file"], "")

    def test_stripped(self):
        stripped = self.build("stripped", "-s")
        for _, frames in self.sites(self.record(stripped)):
            self.assertEqual((frames[0]["module"], frames[0]["name"]), (stripped, ""))
        said = self.command("leaks", stripped + ".json")
        self.assertEqual(len(re.findall(r"allocated by\ncustash:     stripped\+0x[0-9a-f]+\n", said)), 10)
        # The file itself says so, too, to PyTorch's viewer.
        self.check_forms(stripped)
        self.assertRegex(self.read_bytes(stripped + ".s.pickle"), rb"stripped\+0x[0-9a-f]+")

    def test_a_program_that_was_built_again_gets_no_wrong_names(self):
        again = self.path("again")
        shutil.copy(self.debug, again)
        snapshot = self.record(again)
        self.assertIn("weights()", self.command("leaks", snapshot))
        shutil.copy(self.build("moved", "-g", "-DMOVED"), again)
        said = self.command("leaks", snapshot)
        self.assertEqual(len(re.findall(r"allocated by\ncustash:     again\+0x[0-9a-f]+\n", said)), 10)
        self.assertNotIn("names.cpp", said)

    def test_without_a_build_id_a_file_that_was_changed_later_gives_no_names(self):
        program = self.build("unmarked", "-g", "-Wl,--build-id=none")
        snapshot = self.record(program)
        self.check_lines(snapshot)
        later = os.stat(snapshot).st_mtime + 100
        os.utime(program, (later, later))
        self.assertNotIn("names.cpp", self.command("leaks", snapshot))

    def test_without_libdw(self):
        snapshot = self.record(self.debug)
        broken = self.path("broken")
        os.makedirs(broken, exist_ok=True)
        self.write(os.path.join(broken, "libdw.so.1"), "no library")
        lacks = "custash: libdw.so.1 not found: call sites have no lines (Debian: apt-get install libdw1)\n"
        for words in (["leaks", snapshot], ["report", snapshot], ["diff", snapshot, snapshot]):
            said = self.command(*words, err=lacks, LD_LIBRARY_PATH=broken)
            if words[0] == "leaks":
                self.assertRegex(said, r"allocated by\ncustash:     debug\+0x[0-9a-f]+\n")
        env = environment(preload=False, CUSTASH_SIM="devices=1")
        env["LD_LIBRARY_PATH"] = broken + ":" + env["LD_LIBRARY_PATH"]
        done = subprocess.run([PATHS.command, "run", "--lib", PATHS.library, "--leaks", "--", self.debug], env=env, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.stderr.count(lacks), 1, done.stderr)

    def check_forms(self, program):
        """Live and in files, what the process has written and what the command has: one name for one place."""
        where = program + ".s"
        env = environment(preload=True, CUSTASH_SIM="devices=1", CUSTASH_CONF="history:1000")
        with subprocess.Popen([program, where], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            number = str(process.pid)
            shared.render(self.folder)
            files = [where + ending for ending in (".json", ".pickle", ".html")]
            for ending in (".json", ".pickle", ".html"):
                files.append(where + ".live" + ending)
                self.command("snapshot", number, "-o", files[-1])
            self.command("report", files[1], "-o", where + ".report.html")
            live = self.command("leaks", number)
            self.assertEqual(self.command("leaks", "--most", "3", number).count("allocated by"), 3)
            self.assertEqual(self.command("diff", files[0], number), "no change\n")
            process.send_signal(signal.SIGKILL)
        files.append(where + ".report.html")
        for file in files:
            self.assertEqual(self.command("diff", files[0], file), "no change\n", file)
            self.assertEqual(self.command("leaks", file).replace("allocated in " + file, "allocated now"), live)
        return live

    def test_the_same_name_in_every_form(self):
        self.assertIn(f"inlined ({SOURCE}:{LINES['inlined']})", self.check_forms(self.debug))

    def test_labels_of_the_page(self):
        if browser.found() is None:
            raise unittest.SkipTest("no Chromium here")
        shows = browser.Browser()
        self.addCleanup(shows.close)
        stripped = self.build("stripped", "-s")
        for program, label in ((self.debug, rf"weights\(\) names.cpp:{LINES['weights']}  ‹  main names.cpp:\d+"),
                               (stripped, r"stripped\+0x[0-9a-f]+  ‹  stripped\+0x[0-9a-f]+")):
            page = self.record(program) + ".html"
            self.command("report", program + ".json")
            shows.open(page)
            labels = shows.run("[...document.querySelectorAll('summary')].map(each => each.textContent)")
            self.assertEqual(len(set(labels)), 10)
            self.assertRegex(labels[0], "^" + label + "$")
            self.assertNotRegex(" ".join(labels), "_start|libc")

    def test_a_runtime_that_is_linked_in(self):
        archive = os.path.join(PATHS.runtime, "libcudart_double.a")
        if not os.path.exists(archive):
            raise unittest.SkipTest("no static runtime here")
        self.check_lines(self.record(self.build("linked", "-g", link=[archive, "-lpthread"])))

    def test_servers_are_asked_for_files_only(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            asked = []

            def refuse():
                while True:
                    try:
                        connection, _ = server.accept()
                    except OSError:
                        return
                    asked.append(connection)
                    connection.close()

            threading.Thread(target=refuse, daemon=True).start()
            servers = {"DEBUGINFOD_URLS": f"http://127.0.0.1:{server.getsockname()[1]}", "HOME": self.folder}
            program = self.build("remote", "-s")
            env = environment(preload=True, CUSTASH_SIM="devices=1", CUSTASH_CONF="history:1000")
            with subprocess.Popen([program, program], env=env, text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) as process:
                self.assertEqual(process.stdout.readline(), "ready\n")
                self.command("leaks", str(process.pid), **servers)
                self.command("snapshot", str(process.pid), "-o", self.path("remote.live.json"), **servers)
                process.send_signal(signal.SIGKILL)
            self.assertEqual(asked, [])
            self.command("leaks", program + ".json", **servers)
            if not asked:
                raise unittest.SkipTest("no libdebuginfod here")
            server.shutdown(socket.SHUT_RDWR)


shared.main()
