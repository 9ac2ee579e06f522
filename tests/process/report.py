# SPDX-License-Identifier: MIT
"""The command over snapshots: report, diff, leaks, snapshot; the schema; lines of Python; the page in a
browser."""
import collections
import contextlib
import gzip
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import unittest

import browser
import program as shared
from program import PATHS, InOneFolder, environment, load
from report_data import data_of

MIB = 1 << 20

PYTHON = """
import ctypes, sys
library = getattr(ctypes, sys.argv[1])(None)
def allocate(bytes):
    out = ctypes.c_void_p()
    assert library.custash_malloc_async(ctypes.byref(out), 0, ctypes.c_size_t(bytes), None) == 0
def model():
    for _ in range(int(sys.argv[3])):
        allocate(3 << 20)
model()
assert library.custash_snapshot(sys.argv[2].encode()) == 0
"""


def problems_of(schema, value, rules, where="snapshot"):
    """What a value has against a schema: the keywords that ours is written in."""
    if rules is False:
        return [where + ": not allowed"]
    if "$ref" in rules:
        return problems_of(schema, value, schema["$defs"][rules["$ref"].rsplit("/", 1)[1]], where)
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if "type" in rules and not (isinstance(value, kinds[rules["type"]])
                                and (rules["type"] == "boolean") == isinstance(value, bool)):
        return [f"{where}: no {rules['type']}"]
    found = []
    if "const" in rules and value != rules["const"] or "enum" in rules and value not in rules["enum"]:
        found.append(f"{where}: {value!r}")
    if value.__class__ is int and value < rules.get("minimum", value):
        found.append(f"{where}: {value}")
    if isinstance(value, dict):
        found += [f"{where}.{key}: missing" for key in rules.get("required", ()) if key not in value]
        for key, inner in value.items():
            its = rules.get("properties", {}).get(key, rules.get("additionalProperties", False))
            found += problems_of(schema, inner, its, where + "." + key)
    if isinstance(value, list):
        first = rules.get("prefixItems", [])
        if len(value) < rules.get("minItems", 0):
            found.append(where + ": too short")
        for i, inner in enumerate(value):
            found += problems_of(schema, inner, first[i] if i < len(first) else rules["items"], where)
    return found


class Report(InOneFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = shared.run("history", "work", cls.folder, CUSTASH_CONF="history:100000", CUSTASH_SIM="devices=1")
        assert done.returncode == 0, done.stderr
        shared.render(cls.folder)

    def command(self, *words, code=0, err="", **more):
        done = shared.custash(*words, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertRegex(done.stderr, "^" + err + "$")
        return done.stdout

    @contextlib.contextmanager
    def serving(self, **more):
        """The number of a process that holds memory, until it is killed."""
        with subprocess.Popen([os.path.join(PATHS.programs, "history"), "serve"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env=environment(True, CUSTASH_SIM="devices=1", **more)) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            yield str(process.pid)
            process.kill()

    def test_the_schema_holds(self):
        schema = load(PATHS.schema)
        snapshot = self.load("s.json")
        self.assertEqual(problems_of(schema, snapshot, schema)[:5], [])
        for pointer, value in (("format", "x"), ("pid", "7"), ("extra", 1), ("frames", [{}]), ("stacks", [[-1]])):
            self.assertTrue(problems_of(schema, {**snapshot, pointer: value}, schema), pointer)
        # What the command makes of PyTorch's form is of the same kind.
        self.command("report", self.path("s.pickle"), "-o", self.path("torch.html"))
        self.assertEqual(problems_of(schema, data_of(self.path("torch.html")), schema)[:5], [])

    def fields(self, message):
        """[(number, value)] of a message of protocol buffers: whole numbers and bytes."""
        found, at = [], 0

        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = message[at]
                at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
                if byte < 128:
                    return value
        while at < len(message):
            key = varint()
            value = varint()
            if key & 7 == 2:
                at, value = at + value, message[at:at + value]
            else:
                self.assertEqual(key & 7, 0)
            found.append((key >> 3, value))
        return found

    def profile(self, name, ending):
        snapshot = self.load("s.json")
        self.command("report", self.path("s.json"), "-o", self.path(name + ending))
        return snapshot["history"]["sites"], self.read_bytes(name + ending)

    def test_a_profile_for_pprof(self):
        sites, packed = self.profile("heap", ".pb.gz")
        profile = collections.defaultdict(list)
        for number, value in self.fields(gzip.decompress(packed)):
            profile[number].append(value)
        texts = [each.decode() for each in profile[6]]
        self.assertEqual(texts[0], "")
        types = [texts[dict(self.fields(each))[1]] for each in profile[1]]
        self.assertEqual(types, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"])
        samples = [[value for number, value in self.fields(each) if number == 2] for each in profile[2]]
        self.assertEqual(sorted(samples), sorted([each["allocations"], each["allocated_bytes"], each["blocks"], each["bytes"]]
                                                 for each in sites))
        functions = {dict(self.fields(each))[1]: texts[dict(self.fields(each))[2]] for each in profile[5]}
        lines = {dict(self.fields(each))[1]: dict(self.fields(dict(self.fields(each))[4]))[1] for each in profile[4]}
        stacks = [[functions[lines[value]] for number, value in self.fields(each) if number == 1] for each in profile[2]]
        self.assertIn(["allocate", "keep_weights", "work", "main"], stacks)
        # Its own files are replaced, no others.
        self.command("report", self.path("s.json"), "-o", self.path("heap.pb.gz"))
        with open(self.path("theirs.pb.gz"), "wb") as file:
            file.write(gzip.compress(b"mine"))
        self.command("report", self.path("s.json"), "-o", self.path("theirs.pb.gz"), code=1, err=".*exists and is not a custash profile.*\n")

    def test_pprof_opens_it(self):
        if not shutil.which("go"):
            self.skipTest("no go (golang)")
        sites, _ = self.profile("go", ".pb.gz")
        for kind, member in (("inuse_space", "bytes"), ("alloc_space", "allocated_bytes")):
            done = subprocess.run(["go", "tool", "pprof", "-top", "-unit=bytes", f"-sample_index={kind}", self.path("go.pb.gz")],
                                  env={**os.environ, "HOME": self.folder}, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"Type: {kind}\n", done.stdout)
            self.assertIn(f"of {sum(each[member] for each in sites)}B total", done.stdout)
            self.assertRegex(done.stdout, r"keep_weights")

    def test_folded_stacks(self):
        sites, text = self.profile("heap", ".folded")
        # As flamegraph.pl and speedscope read them.
        found = [re.fullmatch(r"(.+) (\d+)", line).groups() for line in text.decode().splitlines()]
        self.assertEqual(sum(int(bytes) for _, bytes in found), sum(each["bytes"] for each in sites))
        self.assertTrue(any(re.fullmatch(r"custash: on device 0;main;work;keep_weights;allocate", stack) for stack, _ in found), found)

    def test_reports(self):
        self.assertEqual(self.command("report", self.path("s.json")), self.path("s.json.html") + "\n")
        snapshot = self.load("s.json")
        # All but what was given names.
        self.assertEqual({**data_of(self.path("s.json.html")), "frames": 0, "stacks": 0},
                         {**snapshot, "frames": 0, "stacks": 0})
        # A page is made anew under its own name.
        self.assertEqual(self.command("report", self.path("s.json.html")), self.path("s.json.html") + "\n")
        # From PyTorch's form: the same blocks, call sites and peak.
        self.command("report", self.path("s.pickle"), "-o", self.path("p.html"))
        torch = data_of(self.path("p.html"))

        def blocks(of):
            return [[b[:4] for b in s["blocks"]] for s in of["devices"][0]["segments"]]

        def sites(of):
            # PyTorch's frames have no place in the module: two calls of one function are one call site.
            sums = collections.Counter()
            for site in of["history"]["sites"]:
                names = tuple(of["frames"][f]["name"] for f in of["stacks"][site["stack"]][:2])
                for key in ("bytes", "blocks", "at_peak_bytes", "allocations"):
                    sums[names, key] += site[key]
            return sums

        def frees(of):
            return [[of["frames"][i]["name"] for i in of["stacks"][e[8]]] for e in of["history"]["events"] if e[1] == "free"]

        self.assertEqual(frees(torch), frees(data_of(self.path("s.json.html"))))
        self.assertEqual(frees(torch)[0][0], "use_scratch")
        self.assertEqual(blocks(torch), blocks(snapshot))
        self.assertEqual(sites(torch), sites(snapshot))
        self.assertEqual(torch["history"]["tracked"][0]["peak_bytes"], snapshot["history"]["tracked"][0]["peak_bytes"])

    def test_standard_input_is_read(self):
        text = self.read("s.json")
        self.assertEqual(self.command("leaks", "-", input=text),
                         self.command("leaks", self.path("s.json")).replace(self.path("s.json"), "standard input"))
        self.write("from_stdin.html", self.command("report", "-", input=text))
        self.assertEqual(data_of(self.path("from_stdin.html"))["history"]["sites"], json.loads(text)["history"]["sites"])
        self.command("leaks", "-", input="", code=1, err="custash: -: no snapshot: .*\n")

    def test_nothing_in_a_file_becomes_part_of_the_page(self):
        snapshot = self.load("s.json")
        snapshot["program"] = "</script><script>alert(1)</script>"
        self.write("evil.json", json.dumps(snapshot))
        self.command("report", self.path("evil.json"))
        self.assertNotIn("<script>alert", self.read("evil.json.html"))
        self.assertEqual(data_of(self.path("evil.json.html"))["program"], snapshot["program"])

    def test_leaks_and_differences(self):
        said = self.command("leaks", self.path("s.json"))
        self.assertRegex(said, r"^custash: allocated in .*s\.json: 12\.2 MiB \(12782912 bytes\) in 203 blocks, from 2 call sites\n")
        self.assertIn("195 KiB (200000 bytes) in 200 blocks on device 0 (growing: 200 allocations, 195 KiB, none freed), "
                      "allocated by\ncustash:     allocate (", said)
        self.assertEqual(self.command("leaks", self.path("s.html")), said.replace("s.json", "s.html"))
        self.assertIn("\ncustash:   and 1 more call site\n", self.command("leaks", "--most", "1", self.path("s.json")))
        done = shared.run("history", "late", self.folder + "/later", CUSTASH_SIM="devices=1")
        self.assertNotEqual(done.returncode, 0)  # no such folder
        os.mkdir(self.path("later"))
        done = shared.run("history", "work", self.path("later"), CUSTASH_CONF="history:1000,backing:driver",
                          CUSTASH_SIM="devices=1")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.command("diff", self.path("s.json"), self.path("later/s.json")),
                         "no change\n")
        snapshot = self.load("s.json")
        for site in snapshot["history"]["sites"]:
            if site["blocks"] == 200:
                site["blocks"], site["bytes"] = 300, 300_000
        self.write("more.json", json.dumps(snapshot))
        self.assertRegex(self.command("diff", self.path("s.json"), self.path("more.json")),
                         r"^\+97\.7 KiB \(\+100000 bytes\) at 1 call site\n\n\+97\.7 KiB \(\+100000 bytes\), \+100 blocks\n")
        (change,) = json.loads(self.command("diff", "--json", self.path("s.json"), self.path("more.json")))
        self.assertEqual((change["bytes_before"], change["bytes_after"]), (200_000, 300_000))
        self.assertIn("leak_a_little", change["place"])

    def test_files_that_are_none(self):
        whole = self.read_bytes("s.json")
        for name, text, why in (("cut.json", whole[:5000], "no snapshot: "), ("empty.json", b"", "no snapshot: "),
                                ("cut.pickle", b"\x80\x04}(", "byte "), ("code.pickle", b"\x80\x04cos\nsystem\n.", "byte ")):
            with open(self.path(name), "wb") as file:
                file.write(text)
            for verb in ("report", "leaks"):
                self.command(verb, self.path(name), code=1, err=rf"custash: {re.escape(self.path(name))}: {why}.*\n")
            self.assertFalse(os.path.exists(self.path(name + ".html")))
        self.command("report", "/none/at/all", code=1, err="custash: /none/at/all: No such file or directory\n")

    def test_custash_linked_in_shows_no_frames_of_its_own(self):
        linked = os.path.join(PATHS.programs, "linked")
        stripped = self.path("stripped")
        subprocess.run(["strip", "-o", stripped, linked], check=True)
        for program, names in ((linked, ("by_malloc", "on_a_stream", "pinned")), (stripped, None)):
            out = self.path("linked.json")
            done = subprocess.run([program, out], env=environment(False, CUSTASH_SIM="devices=1", CUSTASH_CONF="history:100"),
                                  capture_output=True, text=True, timeout=60, check=True)
            said = self.command("leaks", out)
            for text in (done.stdout, said):
                stacks = re.findall(r"allocated by\n((?:custash:     .*\n)+)", text)
                self.assertEqual(len(stacks), 3, text)
                self.assertNotRegex(text, r"custash_|custash::|__libc_start")
                for stack in stacks:
                    self.assertEqual(stack.count("\n"), 2, text)  # the function, and main()
            self.assertIn("functions and lines: CUSTASH_CONF=snapshot:FILE.json, then custash leaks FILE.json\n", done.stdout)
            if names:
                self.assertEqual(re.findall(r"allocated by\ncustash:     (\w+)", said), list(names))

    def test_memory_that_is_older_than_history(self):
        older = r"0 B since history was switched on; 12\.0 MiB in 13 blocks are older and have no call site \(.*\)\n$"
        with self.serving() as number:
            self.assertRegex(self.command("snapshot", number, "--history"), f"custash leaks {number}")
            self.assertRegex(self.command("leaks", number), "^custash: allocated now: " + older)
            self.command("snapshot", number, "-o", self.path("old.json"))
            self.assertRegex(self.command("leaks", self.path("old.json")), r"^custash: allocated in .*old\.json: " + older)
        by_hand = ("import ctypes\nlibrary = ctypes.CDLL(None)\n"
                   "def allocate(size):\n    assert library.custash_malloc_async(ctypes.byref(ctypes.c_void_p()), 0, ctypes.c_size_t(size), None) == 0\n"
                   "def told():\n    size = ctypes.c_size_t(4096)\n    text = ctypes.create_string_buffer(size.value)\n"
                   "    assert library.custash_leaks_text(text, ctypes.byref(size)) == 0\n    print(text.value.decode().splitlines()[0])\n"
                   "allocate(4096)\nlibrary.custash_history_start(0, 8)\ntold()\nallocate(100)\ntold()\n")
        said = shared.run(sys.executable, "-c", by_hand, CUSTASH_SIM="devices=1").stdout.splitlines()
        self.assertRegex(said[0], r"allocated now: 0 B since .*; 4\.00 KiB in 1 block is older and has no call site")
        self.assertRegex(said[1], r"allocated now: 100 B in 1 block, from 1 call site since .*; 4\.00 KiB in 1 block is older")

    def test_of_a_running_process(self):
        with self.serving(CUSTASH_CONF="leaks:true") as number:
            said = self.command("leaks", number)
            self.assertIn("allocated now: 12.0 MiB (12592912 bytes) in 13 blocks", said)
            self.command("snapshot", number, "-o", self.path("live.json"), "--history")
            self.assertTrue(self.load("live.json")["history"]["on"])
            self.command("snapshot", number, "-o", self.path("live.pickle"))
            self.command("leaks", self.path("live.pickle"))
            self.command("snapshot", number, "-o", self.path("live.txt"), code=1, err=".*its ending is none of .*\n")
        self.command("leaks", number, code=1, err=f"custash: there is no process {number}\n")
        self.command("snapshot", "app", code=1, err="custash: app: not a process's number\n")

    def test_without_history_no_call_sites_are_claimed(self):
        with self.serving() as number:
            self.command("leaks", number, code=1, err="custash: .*: knows no call sites, as history is off .*\n")
            self.command("snapshot", number, "-o", self.path("off.json"))
        for words in (["leaks", "off.json"], ["diff", "s.json", "off.json"], ["diff", "off.json", "s.json"]):
            words[1:] = map(self.path, words[1:])
            self.command(*words, code=1, err=".*off.json: knows no call sites, as history was off.*\n")
        self.command("report", self.path("off.json"))

    def test_run_with_history_and_leaks(self):
        program = os.path.join(PATHS.programs, "history")
        for _ in range(2):  # the older file is replaced
            self.command("run", "--lib", PATHS.library, "--conf", "backing:driver", "--record-history",
                         self.path("run.json"), "--", program, "quiet",
                         err=r"custash: .*/run\.json written \(\d+ KB, 603 allocations\)\n")
        history = self.load("run.json")["history"]
        self.assertEqual(sum(e[1] == "alloc" for e in history["events"]), 603)
        self.command("run", "--lib", PATHS.library, "--conf", "history:10", "--record-history", self.path("few.json"),
                     "--", program, "quiet", err=".*few.json written .*\n")
        self.assertEqual(len(self.load("few.json")["history"]["events"]), 10)
        self.command("run", "--lib", PATHS.library, "--leaks", "--", program, "quiet",
                     err=r"custash: still allocated at exit: 12\.2 MiB (.|\n)*leak_a_little(.|\n)*")
        self.command("run", "--lib", PATHS.library, "--record-history", self.path("a,b.html"), "--", program, "quiet",
                     code=125, err="custash: --record-history takes a path without commas\n")

    def lines_of_python(self, name):
        snapshot = self.load(name)
        lines = set()
        for site in snapshot["history"]["sites"]:
            stack = [snapshot["frames"][i] for i in snapshot["stacks"][site["stack"]]]
            lines.add(tuple((f["name"], f["line"]) for f in stack if f["file"] == "<string>"))
            if name == "killed.json":
                self.assertFalse([f for f in stack if "EvalFrame" in f["name"]])
        return lines

    def test_lines_of_python_that_was_killed(self):
        program = PYTHON + "\nimport os; os.kill(os.getpid(), 9)\n"
        self.command("run", "--lib", PATHS.library, "--record-history", self.path("killed.json"), "--", sys.executable,
                     "-c", program, "PyDLL", self.path("not_used.json"), "1", code=-9, err=".*killed.json written .*\ncustash: SIGKILL ended the program: .*\n")
        lines = self.lines_of_python("killed.json")
        if lines == {()}:
            self.skipTest("this Python shows no functions to others")
        self.assertEqual(lines, {(("allocate", 6), ("model", 9), ("<module>", 10))})

    def test_lines_of_python(self):
        # PyDLL keeps the interpreter's lock in a call. CDLL lets it go, so that another thread is asked for the
        # lines, for 2 ms: on a busy machine it may miss some.
        for how, calls in (("PyDLL", 1), ("CDLL", 200)):
            for attempt in range(3):  # a machine that is busy for a moment may miss all
                name = f"{how}{attempt}.json"
                self.succeed(sys.executable, "-c", PYTHON, how, self.path(name), str(calls), CUSTASH_CONF="history:1000",
                             CUSTASH_SIM="devices=1")
                lines = self.lines_of_python(name)
                if lines != {()}:
                    break
            if how == "PyDLL" and lines == {()}:
                self.skipTest("this Python shows no functions to others")
            if how == "CDLL":
                lines.discard(())
            self.assertEqual(lines, {(("allocate", 6), ("model", 9), ("<module>", 10))}, how)

    def on_a_terminal(self, *words):
        """What the command writes to standard error when that is a terminal."""
        terminal, its = pty.openpty()
        with subprocess.Popen([PATHS.command, *words], env=environment(preload=False), stdout=subprocess.DEVNULL,
                              stderr=its) as process:
            os.close(its)
            written = b""
            with contextlib.suppress(OSError):  # how the end of a terminal is told
                while part := os.read(terminal, 4096):
                    written += part
        os.close(terminal)
        self.assertEqual(process.returncode, 0, written)
        return written.decode()

    def test_progress_is_shown_on_a_terminal_and_nowhere_else(self):
        snapshot = self.read("s.json")
        self.write("long.json", snapshot + " " * (20 * len(snapshot)))
        with open(self.path("long.trace"), "w", encoding="utf-8") as file:
            for i in range(1, 5001):
                file.write(f"{2 * i} 0 a {i} 5000 -\n{2 * i + 1} 0 f {i} 5000 -\n")
        for words in (["report", self.path("long.json")], ["leaks", self.path("long.json")],
                      ["report", self.path("s.pickle")], ["replay", self.path("long.trace")]):
            with self.subTest(words[0]):
                shown = self.on_a_terminal(*words)
                percents = [int(each) for each in re.findall(r"(\d+) %", shown)]
                self.assertEqual(percents, sorted(percents))
                self.assertGreater(len(percents), 10)
                self.assertLess(percents[0], 10)
                self.assertTrue(shown.endswith("\r\033[K"), shown[-40:])  # the line is taken away
                self.command(*words)  # through a pipe: nothing

    def test_the_page_in_a_browser(self):
        if browser.found() is None:
            raise unittest.SkipTest("no Chromium here")
        self.command("report", self.path("s.pickle"), "-o", self.path("browser.html"))
        self.command("report", self.path("s.html"), "-o", self.path("packed.html"))
        shows = browser.Browser()
        self.addCleanup(shows.close)
        for page in ("s.html", "packed.html", "browser.html"):
            shows.open(self.path(page))
            shown = shows.run("document.body.textContent")
            for words in ("Memory over time", "Where the peak came from", "Every segment and page", "Fragmentation",
                          "Leaks", "allocate", "keep_weights", "use_scratch", "peak 20.2 MiB", "603 rows"):
                self.assertIn(words, shown, page)
            # PyTorch's form does not tell what grows.
            self.assertEqual(shows.run("Boolean(document.querySelector('.note'))"), page != "browser.html")
            # Counted from a real program's events it is what the recording has counted.
            sums = "past().sum(0, past().length).rows.map(r => [r.stack, r.calls, r.allocated, r.now, r.atPeak, r.own])"
            counted = {row[0]: row[1:] for row in shows.run(sums)}
            data = data_of(self.path(page))
            self.assertEqual(counted, {site["stack"]: [site[key] for key in ("allocations", "allocated_bytes", "bytes", "at_peak_bytes", "peak_bytes")]
                                       for site in data["history"]["sites"]})
            stats = data["devices"][0]["stats"]
            self.assertEqual(shows.run("[past().usedAt(past().length), past().heldAt(past().length), past().heldAt(0)]"),
                             [stats["requested_bytes.all.current"], stats["reserved_bytes.all.current"], 0])
            self.assertEqual(shows.complaints, [])


shared.main()
