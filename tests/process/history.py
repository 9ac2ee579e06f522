# SPDX-License-Identifier: MIT
"""History, snapshots and the report of leaks, of a program whose allocations are known by call site."""
import collections
import itertools
import json
import os
import pickle
import re
import signal
import subprocess
import time

import program as shared
from program import PATHS, InFolder, environment, read, run
from report_data import data_of

MIB = 1 << 20
FORMS = (".html", ".pickle", ".trace.json")


def site_of(snapshot, *names):
    """The call site whose stack begins with functions of these names (innermost first)."""
    found = []
    for site in snapshot["history"]["sites"]:
        if site["stack"] < 0:
            continue
        stack = [snapshot["frames"][i]["name"] for i in snapshot["stacks"][site["stack"]]]
        if stack[:len(names)] == list(names):
            found.append(site)
    assert len(found) == 1, (names, found)
    return found[0]


class History(InFolder):
    def load(self, name="s.json"):
        return super().load(name)

    def work(self, what="work", conf="history:100000", **more):
        out = self.succeed("history", what, self.folder, CUSTASH_CONF=conf, CUSTASH_SIM="devices=1", **more)
        shared.render(self.folder)
        return out

    def test_a_free_is_complete_when_its_block_waits_no_more(self):
        """By PyTorch's form, whose viewer counts memory until then."""
        self.succeed("history", "busy", self.folder, CUSTASH_CONF="history:1000", CUSTASH_SIM="devices=1,mode=told")
        shared.render(self.folder)
        torch = pickle.loads(self.read_bytes("s.pickle"))
        freed = collections.defaultdict(set)
        for entry in torch["device_traces"][0]:
            if entry["action"].startswith("free_"):
                freed[entry["action"]].add(entry["size"])
        waiting = {b["size"] for s in torch["segments"] for b in s["blocks"] if b["state"] == "active_pending_free"}
        self.assertEqual(waiting, {4 * MIB, 6 * MIB, 3072})
        self.assertEqual(freed["free_requested"], {5 * MIB, 6 * MIB, 3000, 4 * MIB})
        self.assertEqual(freed["free_completed"], {5 * MIB})

    def test_a_page_that_moves_is_held_once(self):
        self.work("moves")
        snapshot = self.load()
        device = snapshot["devices"][0]
        ways = {"segment_map": 1, "segment_unmap": -1}
        changes = [ways[each[1]] * each[5] for each in snapshot["history"]["events"] if each[1] in ways]
        self.assertIn(-2 * MIB, changes)
        levels = list(itertools.accumulate(changes))
        self.assertEqual(max(levels), device["stats"]["reserved_bytes.all.peak"])
        self.assertEqual(levels[-1], device["stats"]["reserved_bytes.all.current"])

    def test_call_sites(self):
        for backing in ("vmm", "driver"):
            self.work(conf="history:100000,backing:" + backing)
            snapshot = self.load()
            weights = site_of(snapshot, "allocate", "keep_weights")
            self.assertEqual((weights["blocks"], weights["bytes"], weights["allocations"]), (3, 12 * MIB, 3))
            leak = site_of(snapshot, "allocate", "leak_a_little")
            self.assertEqual((leak["blocks"], leak["bytes"], leak["growing"]), (200, 200_000, True))
            self.assertFalse(weights["growing"])
            for site in snapshot["history"]["sites"]:
                self.assertEqual(site["caller"], "history")
            # The peak is reached in the last round: weights, everything leaked, both scratch blocks.
            peak = 12 * MIB + 200_000 + 8 * MIB
            self.assertEqual(snapshot["history"]["tracked"][0]["peak_bytes"], peak)
            self.assertEqual(sum(s["at_peak_bytes"] for s in snapshot["history"]["sites"]), peak)
            self.assertEqual(weights["at_peak_bytes"], 12 * MIB)
            self.assertEqual(leak["at_peak_bytes"], 200_000)
            lives = snapshot["history"]["tracked"][0]["lifetimes_up_to_ns"]
            self.assertEqual(sum(lives.values()), 400)

    def check_blocks(self, snapshot):
        """The blocks fill the segments, and their sums are the counters."""
        device = snapshot["devices"][0]
        used = requested = held = count = 0
        for segment in device["segments"]:
            at = segment["address"]
            for address, size, asked, state, _ in segment["blocks"]:
                self.assertEqual(address, at)
                at += size
                if state == "used":
                    used, requested, count = used + size, requested + asked, count + 1
            self.assertEqual(at, segment["address"] + segment["size"])
            if segment["made_of"] == "pages":
                self.assertEqual(sum(segment["pages"]), segment["size"])
            held += segment["size"]
        stats = device["stats"]
        self.assertEqual(used, stats["allocated_bytes.all.current"])
        self.assertEqual(requested, stats["requested_bytes.all.current"])
        self.assertEqual(count, stats["allocation.all.current"])
        self.assertEqual(held, stats["reserved_bytes.all.current"])

    def test_every_form_tells_the_same(self):
        self.work()
        snapshot = self.load()
        self.check_blocks(snapshot)
        live = {}
        actions = collections.Counter()
        for event in snapshot["history"]["events"]:
            _, action, device, memory, address, size, _, stack = event[:8]
            self.assertEqual((device, memory), (0, "device"))
            actions[action] += 1
            if action == "alloc":
                self.assertNotIn(address, live)
                self.assertGreaterEqual(stack, 0)
                live[address] = size
            elif action == "free":
                self.assertEqual(live.pop(address), size)
                names = [snapshot["frames"][i]["name"] for of in (stack, event[8]) for i in snapshot["stacks"][of][:1]]
                self.assertEqual(names, ["allocate", "use_scratch"])  # who allocated, who freed
        self.assertEqual((actions["alloc"], actions["free"]), (603, 400))
        blocks = {b[0]: b[2] for s in snapshot["devices"][0]["segments"] for b in s["blocks"] if b[3] == "used"}
        self.assertEqual(blocks, live)

        torch = pickle.loads(self.read_bytes("s.pickle"))
        trace = torch["device_traces"][0]
        counted = collections.Counter(entry["action"] for entry in trace)
        callers = {(entry["action"], entry["frames"][0]["name"]) for entry in trace if not entry["action"].startswith("segment")}
        self.assertEqual(callers, {("alloc", "allocate"), ("free_requested", "use_scratch"), ("free_completed", "use_scratch")})
        segments = {entry["frames"][0]["name"] for entry in trace if entry["action"].startswith("segment")}
        self.assertEqual(segments, {"allocate"})  # not a frame of custash's own
        self.assertEqual(counted["alloc"], 603)
        self.assertEqual((counted["free_requested"], counted["free_completed"]), (400, 400))
        self.assertEqual({k: v for k, v in counted.items() if k.startswith("segment")},
                         {k: v for k, v in actions.items() if k.startswith("segment")})
        self.assertGreater(sum(v for k, v in counted.items() if k.startswith("segment")), 0)
        active = {b["address"]: b["requested_size"] for s in torch["segments"] for b in s["blocks"]
                  if b["state"] == "active_allocated"}
        self.assertEqual(active, live)
        for segment in torch["segments"]:
            self.assertEqual(sum(b["size"] for b in segment["blocks"]), segment["total_size"])
            for block in segment["blocks"]:
                if block["state"] == "active_allocated":
                    self.assertEqual(block["frames"][0]["name"], "allocate")

        trace_events = self.load("s.trace.json")["traceEvents"]
        levels = [e["args"]["in use"] for e in trace_events if e["ph"] == "C"]
        self.assertEqual(levels[-1], sum(live.values()))
        self.assertEqual(max(levels), 20 * MIB + 200_000)

        page = self.read("s.html")
        self.assertEqual(data_of(self.path("s.html"))["devices"], snapshot["devices"])
        self.assertNotIn("http://", page.replace("http://www.w3.org/", ""))
        self.assertNotIn("https://", page)
        self.assertEqual([n for n in os.listdir(self.folder) if n.endswith(".part")], [])

    def test_a_ring_that_is_too_small_says_so(self):
        self.work(conf="history:100")
        history = self.load()["history"]
        self.assertEqual(len(history["events"]), 100)
        self.assertEqual(history["events_lost"], history["events_seen"] - 100)
        self.assertGreater(history["events_lost"], 900)
        self.assertEqual(sum(s["allocations"] for s in history["sites"]), 603)

    def test_switched_on_late(self):
        self.work("late", conf="")
        snapshot = self.load()
        self.assertFalse(snapshot["history"]["on"])
        actions = [(e[1], e[5], e[7] >= 0) for e in snapshot["history"]["events"] if not e[1].startswith("segment")]
        self.assertEqual(actions, [("free", 4 * MIB, False), ("alloc", 2 * MIB, True), ("alloc", 6 * MIB, True),
                                   ("free", 2 * MIB, True), ("free", 6 * MIB, True)])
        self.check_blocks(snapshot)

    def test_off_costs_no_history(self):
        self.work(conf="")
        history = self.load()["history"]
        self.assertEqual((history["on"], history["events_seen"], history["sites"]), (False, 0, []))

    def test_depth(self):
        for depth in (0, 1, 3):
            self.work(conf=f"history:1000,history_depth:{depth}")
            snapshot = self.load()
            longest = max((len(s) for s in snapshot["stacks"]), default=0)
            self.assertEqual(longest, depth)

    def test_leaks_by_call_site(self):
        done = run("history", "quiet", CUSTASH_CONF="leaks:true", CUSTASH_SIM="devices=1")
        self.assertEqual(done.returncode, 0)
        lines = done.stderr.splitlines()
        self.assertRegex(lines[0], r"^custash: still allocated at exit: 12\.2 MiB \(12782912 bytes\) in 203 blocks, from 2 call sites$")
        text = done.stderr
        self.assertLess(text.index("keep_weights"), text.index("leak_a_little"))
        self.assertIn("200 blocks on device 0 (growing: 200 allocations, 195 KiB, none freed), allocated by", text)

    def test_at_exit_and_beside_a_file_that_is_there(self):
        for expected in (1, 2):
            self.work("quiet", conf=f"history:1000,snapshot:{self.path('x.json')}")
            self.assertEqual(len(os.listdir(self.folder)), expected)
        for name in os.listdir(self.folder):
            self.assertRegex(name, r"^x(\.\d+)?\.json$")
            self.assertEqual(self.load(name)["devices"][0]["stats"]["allocation.all.current"], 203)

    def test_when_memory_runs_out(self):
        self.work("oom", conf=f"history:1000,snapshot:{self.path('x.json')}")
        self.assertEqual(sorted(os.listdir(self.folder)), ["x.json", "x.oom.json"])
        events = self.load("x.oom.json")["history"]["events"]
        self.assertEqual((events[-1][1], events[-1][5]), ("oom", 256 * MIB))
        self.assertTrue(0 <= events[-1][4] < 256 * MIB)

    def test_a_signal_to_a_running_process(self):
        env = environment(preload=True, CUSTASH_SIM="devices=1",
                          CUSTASH_CONF=f"snapshot_signal:{int(signal.SIGUSR1)},snapshot:{self.path('x.json')}")
        with subprocess.Popen([os.path.join(PATHS.programs, "history"), "serve"], env=env, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            for expected in (1, 2):
                process.send_signal(signal.SIGUSR1)
                give_up = time.monotonic() + 60
                there = []
                while len(there) < expected and time.monotonic() < give_up:
                    process.stdin.write("go\n")
                    process.stdin.flush()
                    self.assertEqual(process.stdout.readline(), "done\n")
                    there = [n for n in os.listdir(self.folder) if not n.endswith(".part")]
                self.assertEqual(len(there), expected)
            process.stdin.close()
        self.assertEqual(process.returncode, 0)
        on = {self.load(name)["history"]["on"] for name in os.listdir(self.folder)}
        self.assertEqual(on, {False, True})

    def shown(self, *names):
        return "".join(f"custash: {self.path(each)}.json written; custash report {self.path(each)}.json makes {self.path(each)}\n"
                       for each in names)

    def check_form(self, name, last="oom"):
        """The file has the form of its ending, and the last event."""
        data = self.read_bytes(name)
        if name.endswith(".html"):
            self.assertEqual(data_of(self.path(name))["history"]["events"][-1][1], last)
        elif name.endswith(".pickle"):
            self.assertEqual(pickle.loads(data)["device_traces"][0][-1]["action"], last)
        else:
            self.assertIn("out of memory", [each["name"] for each in json.loads(data)["traceEvents"]])

    def test_without_a_launcher_there_is_json_and_a_line(self):
        for form in FORMS:
            for launcher in (None, "r 1 1 " + self.folder):  # none, and one that has gone
                done = run("history", "oom", CUSTASH_CONF=f"history:1000,snapshot:{self.path('x' + form)}", CUSTASH_SIM="devices=1",
                           CUSTASH_LAUNCHER=launcher)
                self.assertEqual((done.returncode, done.stderr), (0, self.shown("x.oom" + form, "x" + form)))
                self.assertEqual(sorted(os.listdir(self.folder)), sorted(["x" + form + ".json", "x.oom" + form + ".json"]))
                for name in os.listdir(self.folder):
                    self.assertIn("oom", [each[1] for each in self.load(name)["history"]["events"]])
                shared.render(self.folder)
                for name in ("x" + form, "x.oom" + form):
                    self.check_form(name)
                    os.unlink(self.path(name))

    def test_from_c_the_log_has_the_line(self):
        for conf, said in (("", ""), ("log:warn", "custash report ")):
            done = run("history", "errors", self.path("x.html"), CUSTASH_CONF=conf, CUSTASH_SIM="devices=1")
            self.assertEqual(done.stdout.splitlines()[0], "1 1 0 a null pointer")
            self.assertEqual((len(done.stderr.splitlines()), done.stderr.count("event=snapshot_as_json")), (bool(said), bool(said)))
            self.assertIn(said + self.path("x.html.json") * bool(said), done.stderr)
            self.assertEqual(os.listdir(self.folder), ["x.html.json"])

    def launched(self, conf):
        return [PATHS.command, "run", "--lib", PATHS.library, "--conf", conf, "--", os.path.join(PATHS.programs, "history")]

    def test_a_launcher_makes_every_form(self):
        for form in FORMS:
            words = [*self.launched(f"history:1000,snapshot:{self.path('x' + form)}"), "oom"]
            self.succeed(*words, preload=False, CUSTASH_SIM="devices=1")
            self.assertEqual(sorted(os.listdir(self.folder)), sorted(["x" + form, "x.oom" + form]))
            self.check_form("x" + form)
            # Files that are there stay.
            before = self.read_bytes("x" + form)
            self.succeed(*words, preload=False, CUSTASH_SIM="devices=1")
            self.assertEqual(self.read_bytes("x" + form), before)
            more, = [name for name in os.listdir(self.folder) if re.fullmatch(r"x\.\d+" + re.escape(form), name)]
            self.check_form(more)
            for name in os.listdir(self.folder):
                os.unlink(self.path(name))

    def test_a_launcher_makes_them_while_the_program_runs(self):
        # Signals that the command waits for anyway, that would end it, that tell it of files, and that are ignored.
        numbers = itertools.cycle((signal.SIGUSR1, signal.SIGALRM, signal.SIGIO, signal.SIGRTMIN, signal.SIGURG))
        for options, form in (("", ".html"), *((f",snapshot:{self.path('custash' + each)}", each) for each in (*FORMS, *FORMS))):
            number = next(numbers)
            words = [*self.launched(f"snapshot_signal:{int(number)}" + options), "serve"]
            with subprocess.Popen(words, env=environment(False, CUSTASH_SIM="devices=1"), cwd=self.folder, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                self.assertEqual(process.stdout.readline(), "ready\n")
                for expected in (1, 2):
                    process.send_signal(number)
                    give_up = time.monotonic() + 60
                    there = []
                    while (len(there) < expected or len(os.listdir(self.folder)) > expected) and time.monotonic() < give_up:
                        time.sleep(0.01)
                        there = [name for name in os.listdir(self.folder) if name.endswith(form)]
                    self.assertEqual(len(there), expected, form)
                self.assertEqual(sorted(os.listdir(self.folder)), sorted(there))
                process.stdin.close()
                self.assertEqual((process.wait(), process.stderr.read()), (0, ""))
            for name in os.listdir(self.folder):
                self.assertRegex(name, r"^custash(\.1)?(\.\d+)?" + re.escape(form) + "$")
                os.unlink(self.path(name))

    def test_a_form_that_the_launcher_cannot_make(self):
        """Another process has damaged its JSON: that stays, and the line says how to try again."""
        words = self.launched(f"snapshot_signal:{int(signal.SIGUSR1)},snapshot:{self.path('x.html')}")
        with subprocess.Popen([*words, "serve"], env=environment(False, CUSTASH_SIM="devices=1"), text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            folder, = re.findall(rf"^CUSTASH_LAUNCHER=r {process.pid} \d+ (.*)$", self.environment_of_child(process.pid), re.M)
            self.write("y.html.json", "damaged")
            os.symlink(self.path("y.html.json"), folder + "/render-1-0")
            process.stdin.close()
            said = process.stderr.read()
        self.assertEqual(process.returncode, 0)
        self.assertRegex(said, rf"^custash: {self.path('y.html.json')}: no snapshot: .*\n{re.escape(self.shown('y.html'))}$")
        self.assertEqual(sorted(os.listdir(self.folder)), ["x.html", "y.html.json"])

    def environment_of_child(self, launcher):
        children = read(f"/proc/{launcher}/task/{launcher}/children").split()
        program = os.path.realpath(os.path.join(PATHS.programs, "history"))
        child, = [each for each in children if os.path.realpath(f"/proc/{each}/exe") == program]
        return read(f"/proc/{child}/environ").replace("\0", "\n")

    def test_files_that_cannot_be_written(self):
        said = self.succeed("history", "errors", "/proc/none/x.html", CUSTASH_SIM="devices=1")
        self.assertEqual(said.splitlines()[0], "1 1 7 /proc/none/x.html.json: No such file or directory")
        self.assertEqual(said.splitlines()[1], "1 1")
        done = run("history", "quiet", CUSTASH_CONF="snapshot:/proc/none/x.html", CUSTASH_SIM="devices=1")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "custash: snapshot:/proc/none/x.html: No such file or directory; no snapshot\n")
        done = run("history", "quiet", CUSTASH_CONF="snapshot:x.txt,snapshot_signal:9", CUSTASH_SIM="devices=1")
        self.assertIn("its ending is none of .html", done.stderr)
        self.assertIn("snapshot_signal:9", done.stderr)


shared.main()
