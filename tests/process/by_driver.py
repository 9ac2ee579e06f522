# SPDX-License-Identifier: MIT
"""Memory that the driver serves itself: handles of cuMemCreate, arrays, mipmaps and memory of other interfaces. How it is counted,
where it is shown, and who made it."""
import json
import os
import subprocess

import program
from actor import Actor, Actors, machine
from program import PATHS, InFolder, processes

MIB = 1 << 20


def command(*words):
    done = program.custash(*words)
    if done.returncode or done.stderr:
        raise AssertionError(f"{words}: {done.returncode} {done.stdout}{done.stderr}")
    return done.stdout


class ByDriver(Actors, InFolder):
    def both(self, **more):
        """A process with two handles and no memory of custash's, and one that has let go of one of three."""
        actor = self.actor(CUSTASH_SIM=f"devices=2,{machine()}", **more)
        for device, size in ((0, 2), (1, 4), (1, 8)):
            actor.ok(f"create {size * MIB} {device}")
        actor.ok("release 1")
        return actor

    def test_top_shows_it_by_device_and_by_kind(self):
        actor = self.both()
        its = processes()[actor.pid]
        self.assertEqual({each["device"]: each["by_driver_bytes"] for each in its["devices"]}, {0: 2 * MIB, 1: 8 * MIB})
        self.assertEqual(its["passed"], [{"kind": "handles", "allocations": 3, "allocated_bytes": 14 * MIB, "live": 2,
                                          "live_bytes": 10 * MIB}])
        lines = command("top", "--once").splitlines()
        self.assertTrue(any("BY DRIVER" in line for line in lines), lines)
        self.assertEqual(len([line for line in lines if line.split()[:1] == [str(actor.pid)]]), 2, lines)

    def test_a_stream_s_memory_is_served_without_a_context_too(self):
        with Actor(CUSTASH_SIM=f"devices=1,{machine()}") as actor:
            actor.ok("alloc_without_context 1000")
            its = processes()[actor.pid]
            self.assertEqual((its["passed"], its["devices"][0]["allocated_bytes"]), ([], 1024))

    def test_the_driver_gives_no_pitched_memory_beyond_the_limit(self):
        """Of one width, whose first allocation is the driver's, and where the first is too large already."""
        for conf, pieces in (("limit:1G", 64), (None, 300)):
            more = {"CUSTASH_CONF": conf} if conf else {}
            with Actor(CUSTASH_SIM=f"devices=1,{machine()}", **more) as actor:
                codes = [actor.code(f"alloc_pitch {1 << 14} {1 << 10}") for _ in range(300)]
                self.assertEqual((codes.count(0), set(codes[codes.count(0):])), (pieces, {2} if conf else set()))
                self.assertEqual(actor.code(f"alloc_pitch {1 << 15} {1 << 16}"), 2 if conf else 0)
                actor.ok("free 1")
                self.assertEqual(actor.code(f"alloc_pitch {1 << 14} {1 << 10}"), 0)

    def test_pitched_memory_counts_alike_whoever_serves_it(self):
        for whole_last_row, size in ((1, 7 * 512), (0, 6 * 512 + 100)):
            with Actor(CUSTASH_SIM=f"devices=1,whole_last_row={whole_last_row},{machine()}") as actor:
                actor.ok("alloc_pitch 100 7")
                actor.ok("alloc_pitch 100 7")
                stats = json.loads(command("stat", "--json", "--device", "0", actor.pid))
            self.assertEqual([(each["kind"], each["allocations"], each["allocated_bytes"]) for each in stats["passed"]],
                             [("pitched", 1, size)])
            self.assertEqual(stats["stats"]["requested_bytes.all.current"], size)

    def test_a_question_about_the_default_pool_s_use_ends_no_service(self):
        with Actor(CUSTASH_SIM=f"devices=2,{machine()}") as actor:
            actor.ok("alloc_async 4096")
            self.assertEqual(actor.number("pool_used 0"), 4096)
            for device, size in ((0, 8192), (1, 512)):
                actor.ok(f"device {device}")
                actor.ok(f"alloc_async {size}")
            self.assertEqual([actor.number(f"pool_used {device}") for device in (0, 1)], [12288, 512])
            actor.ok("device 0")
            actor.ok("free 0")
            self.assertEqual(actor.number("pool_used 0"), 8192)
            its = processes()[actor.pid]
            self.assertEqual((its["passed"], [each["allocations"] for each in its["devices"]]), ([], [2, 1]))

    def test_metrics_have_it(self):
        actor = self.both()
        text = command("stat", "--prometheus", actor.pid)
        for line in ('custash_passed_total{kind="handles"} 3', 'custash_passed_bytes_total{kind="handles"} 14680064',
                     'custash_passed_live{kind="handles"} 2', 'custash_passed_live_bytes{kind="handles"} 10485760',
                     'custash_passed_live{kind="arrays"} 0'):
            self.assertIn(line, text.splitlines())
        server = subprocess.Popen([PATHS.command, "serve", "--textfile", self.path("all.prom"), "--interval", "1"],
                                  env=program.environment(False), stdout=subprocess.DEVNULL)
        try:
            while not os.path.exists(self.path("all.prom")):
                self.assertIsNone(server.poll())
            lines = [line for line in self.read("all.prom").splitlines() if f'pid="{actor.pid}"' in line]
        finally:
            server.terminate()
            server.wait()
        values = {line.split("{")[0] + ("/" + line.split('kind="')[1].split('"')[0] if "kind=" in line else ""): line.rsplit(" ", 1)[1]
                  for line in lines if 'device="1"' in line or "kind=" in line}
        self.assertEqual(values["custash_process_by_driver_bytes"], str(8 * MIB))
        self.assertEqual(values["custash_process_passed_total/handles"], "3")
        self.assertEqual(values["custash_process_passed_live_bytes/handles"], str(10 * MIB))

    def test_the_library_that_made_it_is_named(self):
        actor = self.both(CUSTASH_CONF="stats:detailed")
        callers = json.loads(command("stat", "--json", "--device", "0", actor.pid))["callers"]
        self.assertEqual([(os.path.basename(each["module"]), each["in_use"], each["in_use_requested_bytes"], each["allocations"])
                          for each in callers], [("actor", 2, 10 * MIB, 3)])

    def test_a_report_has_it(self):
        actor = self.both(CUSTASH_CONF="history:1000")
        command("snapshot", actor.pid, "--output", self.path("it.json"))
        snapshot = self.load("it.json")
        command("report", self.path("it.json"), "-o", self.path("it.html"))
        self.assertGreater(os.path.getsize(self.path("it.html")), 0)
        self.assertEqual(snapshot["passed"], [{"kind": "handles", "allocations": 3, "allocated_bytes": 14 * MIB, "live": 2,
                                               "live_bytes": 10 * MIB}])
        sites = [each for each in snapshot["history"]["sites"] if each["memory"] == "other"]
        self.assertEqual({(os.path.basename(each["caller"]), each["allocations"]) for each in sites}, {("actor", 3)})


class Arrays(Actors):
    """What is counted of arrays, mipmaps and external memory, and what is live of it."""

    LAYERED = 1
    DEFERRED = 0x80

    def actor(self, **more):
        return super().actor(CUSTASH_SIM=f"devices=2,{machine()}", **more)

    def counts(self, actor):
        """{kind: (calls, bytes, live, bytes of these)}"""
        passed = json.loads(command("stat", "--json", "--device", "0", actor.pid))["passed"]
        return {each["kind"]: (each["allocations"], each["allocated_bytes"], each["live"], each["live_bytes"]) for each in passed}

    def test_they_count_with_their_bytes_and_live_until_they_are_destroyed(self):
        actor = self.actor()
        _, _, free = actor.number("array 1000 100 4"), actor.number("array 64 0 1"), actor.number("array3 64 32 16 0")
        layers = actor.number(f"array3 64 32 5 {self.LAYERED}")
        size = (1000 * 100 * 4 + 64 + 64 * 32 * 16 + 64 * 32 * 5) * 4
        self.assertEqual(self.counts(actor), {"arrays": (4, size, 4, size)})
        actor.ok(f"end_array {free}")
        actor.ok(f"end_array {layers}")
        self.assertEqual(self.counts(actor), {"arrays": (4, size, 2, (1000 * 100 * 4 + 64) * 4)})
        sparse = actor.number(f"array3 64 64 0 {self.DEFERRED}")  # its memory will come from a handle
        self.assertEqual(self.counts(actor), {"arrays": (5, size, 3, (1000 * 100 * 4 + 64) * 4)})
        actor.ok(f"end_array {sparse}")
        actor.ok("external 5000")
        actor.ok("external 7000")
        actor.ok("end_external 5")
        self.assertEqual(self.counts(actor)["external"], (2, 12000, 1, 7000))
        actor.ok("end_external 6")
        self.assertEqual(self.counts(actor)["external"], (2, 12000, 0, 0))

    def test_normalised_formats_count_by_their_channels(self):
        actor = self.actor()
        size = 0
        for first in (0xc0, 0xc6):  # of those without a sign, and of those with one
            for number, (channels, each) in enumerate(((1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (4, 2))):
                actor.ok(f"array 100 10 {channels} {first + number:x}")
                size += 100 * 10 * channels * each
                self.assertEqual(self.counts(actor)["arrays"][3], size, hex(first + number))

    def test_the_levels_of_a_mipmap_count_as_the_driver_makes_them(self):
        for sides, levels, elements in (("256 64 0 0", 3, 256 * 64 + 128 * 32 + 64 * 16),
                                        ("16 2 0 0", 5, 16 * 2 + 8 + 4 + 2 + 1),
                                        ("4 4 4 0", 2, 4 * 4 * 4 + 2 * 2 * 2),
                                        (f"4 4 3 {self.LAYERED}", 3, (16 + 4 + 1) * 3),
                                        ("8 0 0 0", 0, 8),  # at least one, at most as many as there are
                                        ("8 0 0 0", 4000000000, 8 + 4 + 2 + 1)):
            actor = self.actor()
            before = int(actor.ok("info")[0])
            actor.ok(f"levels {sides} {levels}")
            self.assertEqual(self.counts(actor), {"mipmaps": (1, elements * 4, 1, elements * 4)}, sides)
            self.assertLess(int(actor.ok("info")[0]), before)
            actor.ok("end_levels 0")
            self.assertEqual(self.counts(actor), {"mipmaps": (1, elements * 4, 0, 0)}, sides)
            self.assertEqual(int(actor.ok("info")[0]), before)

    def test_calls_that_fail_change_nothing(self):
        actor = self.actor()
        actor.ok("array 64 64 1")
        actor.ok("levels 64 64 0 0 2")
        actor.ok("external 64")
        before = self.counts(actor)
        for line, code in (("array 0 64 1", 1), ("array 64 64 3", 1), ("array 131073 1 1", 1), ("array3 16384 16384 16384 0", 2),
                           ("levels 64 64 16385 0 1", 1), ("levels 0 0 0 0 1", 1), ("external 0", 1),
                           ("end_array 1", 400), ("end_array 2", 400), ("end_levels 0", 400), ("end_external 0", 400)):
            self.assertEqual((line, actor.code(line)), (line, code))
            self.assertEqual(self.counts(actor), before, line)
        actor.ok("current 9")  # none: what lives stays
        for line in ("array 64 64 1", "end_array 0", "end_levels 1", "end_external 2"):
            self.assertEqual((line, actor.code(line)), (line, 201))
            self.assertEqual(self.counts(actor), before, line)
        actor.ok("device 0")
        for line, kind in (("end_array 0", "arrays"), ("end_levels 1", "mipmaps"), ("end_external 2", "external")):
            actor.ok(line)
            calls, size, *_ = before[kind]
            self.assertEqual(self.counts(actor)[kind], (calls, size, 0, 0))
            self.assertEqual(actor.code(line), 400)
            self.assertEqual(self.counts(actor)[kind], (calls, size, 0, 0))

    def test_they_end_with_their_context(self):
        actor = self.actor()
        actor.ok("array 64 64 1")
        before = self.counts(actor)
        actor.ok("context 0")
        actor.ok("array 128 64 1")
        actor.ok("levels 64 64 0 0 2")
        actor.ok("external 64")
        self.assertEqual(self.counts(actor)["arrays"], (2, 3 * 64 * 64 * 4, 2, 3 * 64 * 64 * 4))
        actor.ok("destroy 0")
        counts = self.counts(actor)
        self.assertEqual(counts.pop("arrays"), (2, 3 * 64 * 64 * 4, *before["arrays"][2:]))
        self.assertEqual({kind: each[2:] for kind, each in counts.items()}, {"mipmaps": (0, 0), "external": (0, 0)})
        actor.ok("device 0")
        actor.ok("reset 0")
        self.assertEqual(self.counts(actor)["arrays"][2:], (0, 0))

    def test_what_was_served_is_told_after_the_contexts_end(self):
        """A program that resets its device last, or destroys its only context."""
        for begin, end in (("device 0", "reset 0"), ("context 0", "destroy 0")):
            actor = self.actor(CUSTASH_CONF="summary:true", stderr=subprocess.PIPE)
            actor.ok(begin)
            for _ in range(3):
                actor.ok("alloc 1048576")
            actor.ok(end)
            actor.quit()
            text = actor.process.stderr.read()
            actor.process.stderr.close()
            self.assertIn("3 allocations, 3 frees; peak in use 3.0 MiB", text)

    def test_top_and_the_summary_show_them(self):
        actor = self.actor(CUSTASH_CONF="summary:true", stderr=subprocess.PIPE)
        actor.ok("array 512 512 4")
        actor.ok("device 1")
        actor.ok("levels 512 512 0 0 2")
        actor.ok("external 3145728")
        actor.ok("end_external 2")
        actor.ok("alloc 1000")
        its = processes()[actor.pid]
        self.assertEqual({each["device"]: each["by_driver_bytes"] for each in its["devices"]}, {0: 4 * MIB, 1: 5 * MIB // 4})
        actor.quit()
        text = actor.process.stderr.read()
        actor.process.stderr.close()
        self.assertIn("custash: served 1 of 1 allocations (100.0 %) and 100.0 % of their bytes; by the driver: "
                      "arrays 1 (4.0 MiB, 1 live: 4.0 MiB), mipmaps 1 (1.2 MiB, 1 live: 1.2 MiB), external 1 (3.0 MiB)\n", text)


class Complete(Actors):
    """All of a process's memory is counted: NVML's figure for it, but for what it does not tell from contexts and code."""

    def setUp(self):
        super().setUp()
        self.sim = f"devices=1,{machine()},context=8m"

    def start(self, **more):
        return self.actor(CUSTASH_SIM=self.sim, **more)

    def top(self, *actors):
        seen = processes(CUSTASH_SIM=self.sim)
        return [seen[each.pid] for each in actors]

    def live(self, process):
        return {each["kind"]: each["live_bytes"] for each in process["passed"] if each["live"]}

    def test_the_sum_explains_what_nvml_reports(self):
        actor = self.start()
        actor.ok(f"alloc {5 * MIB}")
        empty = self.top(actor)[0]["devices"][0]["unexplained_bytes"]
        graph = actor.number(f"graph_memory {6 * MIB}")
        actor.ok(f"create {4 * MIB} 0")
        actor.ok("array 512 512 4")
        actor.ok("levels 1024 512 0 0 1")
        its = self.top(actor)[0]
        self.assertEqual(self.live(its), {"handles": 4 * MIB, "arrays": 4 * MIB, "mipmaps": 2 * MIB, "graph memory": 6 * MIB})
        device = its["devices"][0]
        self.assertEqual(device["by_driver_bytes"], (4 + 4 + 2 + 6) * MIB)
        self.assertLessEqual(abs(device["unexplained_bytes"] - empty), device["nvml_bytes"] // 50, device)
        actor.ok(f"end_graph {graph}")
        its = self.top(actor)[0]
        self.assertNotIn("graph memory", self.live(its))
        self.assertEqual(self.live(its)["driver pools"], 6 * MIB)
        self.assertLessEqual(abs(its["devices"][0]["unexplained_bytes"] - empty), its["devices"][0]["nvml_bytes"] // 50)
        actor.ok(f"alloc_managed {8 * MIB}")  # counted on neither side
        its = self.top(actor)[0]
        self.assertLessEqual(abs(its["devices"][0]["unexplained_bytes"] - empty), its["devices"][0]["nvml_bytes"] // 50)
        actor.ok("context 0")  # a control: nobody counts it
        self.assertGreater(self.top(actor)[0]["devices"][0]["unexplained_bytes"] - empty, 7 * MIB)

    def test_without_nvml_nothing_is_said(self):
        actor = self.start()
        actor.ok("alloc 1000")
        device = json.loads(command("top", "--once", "--json"))["processes"][0]["devices"][0]
        self.assertEqual((device["nvml_bytes"], device["unexplained_bytes"]), (None, None))

    def test_what_sleeps_is_not_on_the_device(self):
        actor = self.start()
        actor.ok(f"alloc {5 * MIB}")
        actor.ok("array 512 512 4")  # stays awake
        before = self.top(actor)[0]["devices"][0]["unexplained_bytes"]
        handle = actor.number(f"create {4 * MIB} 0")
        actor.ok(f"map {handle}")
        command("sleep", actor.pid)
        device = self.top(actor)[0]["devices"][0]
        self.assertEqual((device["by_driver_bytes"], device["unexplained_bytes"]), (8 * MIB, before))
        command("wake", actor.pid)
        device = self.top(actor)[0]["devices"][0]
        self.assertEqual((device["by_driver_bytes"], device["unexplained_bytes"]), (8 * MIB, before))

    def test_memory_of_another_process_is_imported(self):
        owner, user = self.start(), self.start(CUSTASH_CONF="stats:detailed")
        user.ok("alloc 1000")
        before = self.top(user)[0]["devices"][0]["unexplained_bytes"]
        handle = owner.number(f"create {4 * MIB} 0 1")
        descriptor = owner.ok(f"export_fd {handle}")[0]
        mine = user.number(f"import_fd {owner.pid} {descriptor} {4 * MIB}")
        self.assertEqual(self.live(self.top(user)[0]), {})  # its size is known once it is mapped
        mapping = user.number(f"map {mine}")
        block = owner.number(f"alloc {3 * MIB}")
        opened = user.number(f"open {owner.ok(f'export {block}')[0]} {3 * MIB}")
        its, owners = self.top(user, owner)
        self.assertEqual((self.live(its), its["devices"][0]["imported_bytes"]), ({"imported": 7 * MIB}, 7 * MIB))
        self.assertEqual((its["devices"][0]["by_driver_bytes"], self.live(owners)), (0, {"handles": 4 * MIB}))
        self.assertEqual(its["devices"][0]["unexplained_bytes"], before)
        callers = json.loads(command("stat", "--json", "--device", "0", user.pid))["callers"]
        self.assertEqual([each["in_use_requested_bytes"] for each in callers], [7 * MIB + 1000])
        user.ok(f"close {opened}")
        user.ok(f"release {mine}")
        self.assertEqual(self.live(self.top(user)[0]), {"imported": 4 * MIB})  # its mapping keeps it
        user.ok(f"unmap {mapping}")
        self.assertEqual(self.live(self.top(user)[0]), {})


program.main()
