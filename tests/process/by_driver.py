# SPDX-License-Identifier: MIT
"""Memory that the driver serves itself, here handles of cuMemCreate: where it is shown, who made it, and who has what custash
keeps of it (option handle_cache)."""
import json
import os
import subprocess
import tempfile

import program
from actor import Actor, machine
from program import PATHS, Case

PATHS.command = ""
PATHS.schema = ""
MIB = 1 << 20
KEPT = "handle_cache:1G"


def command(*words):
    done = subprocess.run([PATHS.command, *map(str, words)], env=program.environment(False), capture_output=True, text=True,
                          timeout=60, check=False)
    if done.returncode or done.stderr:
        raise AssertionError(f"{words}: {done.returncode} {done.stdout}{done.stderr}")
    return done.stdout


class ByDriver(Case):
    def both(self, **more):
        """A process with two handles and no memory of custash's, and one that has let go of one of three."""
        actor = Actor(CUSTASH_SIM=f"devices=2,{machine()}", **more)
        self.addCleanup(actor.__exit__)
        for device, size in ((0, 2), (1, 4), (1, 8)):
            actor.ok(f"create {size * MIB} {device}")
        actor.ok("release 1")
        return actor

    def test_top_shows_it_by_device_and_by_kind(self):
        actor = self.both()
        its = next(each for each in json.loads(command("top", "--once", "--json"))["processes"] if each["pid"] == actor.pid)
        self.assertEqual({each["device"]: each["by_driver_bytes"] for each in its["devices"]}, {0: 2 * MIB, 1: 8 * MIB})
        self.assertEqual(its["passed"], [{"kind": "handles", "allocations": 3, "allocated_bytes": 14 * MIB, "live": 2,
                                          "live_bytes": 10 * MIB}])
        lines = command("top", "--once").splitlines()
        self.assertTrue(any("BY DRIVER" in line for line in lines), lines)
        self.assertEqual(len([line for line in lines if line.split()[:1] == [str(actor.pid)]]), 2, lines)

    def test_top_has_no_column_for_it_where_there_is_none(self):
        with Actor() as actor:
            actor.ok("alloc 1000")
            self.assertNotIn("BY DRIVER", command("top", "--once"))

    def test_a_stream_s_memory_is_served_without_a_context_too(self):
        with Actor(CUSTASH_SIM=f"devices=1,{machine()}") as actor:
            actor.ok("alloc_without_context 1000")
            its = next(each for each in json.loads(command("top", "--once", "--json"))["processes"] if each["pid"] == actor.pid)
            self.assertEqual((its["passed"], its["devices"][0]["allocated_bytes"]), ([], 1024))

    def test_metrics_have_it(self):
        actor = self.both()
        text = command("stat", "--prometheus", actor.pid)
        for line in ('custash_passed_total{kind="handles"} 3', 'custash_passed_bytes_total{kind="handles"} 14680064',
                     'custash_passed_live{kind="handles"} 2', 'custash_passed_live_bytes{kind="handles"} 10485760',
                     'custash_passed_live{kind="arrays"} 0'):
            self.assertIn(line, text.splitlines())
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "all.prom")
            server = subprocess.Popen([PATHS.command, "serve", "--textfile", file, "--interval", "1"],
                                      env=program.environment(False), stdout=subprocess.DEVNULL)
            try:
                while not os.path.exists(file):
                    self.assertIsNone(server.poll())
                with open(file, encoding="utf-8") as written:
                    lines = [line for line in written.read().splitlines() if f'pid="{actor.pid}"' in line]
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
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "it.json")
            command("snapshot", actor.pid, "--output", file)
            with open(file, encoding="utf-8") as written:
                snapshot = json.load(written)
            page = os.path.join(folder, "it.html")
            command("report", file, "-o", page)
            self.assertGreater(os.path.getsize(page), 0)
        self.assertEqual(snapshot["passed"], [{"kind": "handles", "allocations": 3, "allocated_bytes": 14 * MIB, "live": 2,
                                               "live_bytes": 10 * MIB}])
        sites = [each for each in snapshot["history"]["sites"] if each["memory"] == "other"]
        self.assertEqual({(os.path.basename(each["caller"]), each["allocations"]) for each in sites}, {("actor", 3)})


class Kept(Case):
    def kept(self, actor):
        return json.loads(command("stat", "--json", "--device", "0", actor.pid))["handle_cache"]

    def test_the_command_gives_it_back(self):
        with Actor(CUSTASH_CONF=KEPT, CUSTASH_SIM=f"devices=1,{machine()}") as actor:
            for number in range(3):
                actor.ok(f"create {4 * MIB}")
            for number in range(3):
                actor.ok(f"release {number}")
            self.assertEqual(self.kept(actor), {"served": 0, "handles": 3, "bytes": 12 * MIB})
            self.assertEqual(command("trim", actor.pid, "4M"), f"{4 * MIB} bytes returned\n")
            self.assertEqual(self.kept(actor), {"served": 0, "handles": 2, "bytes": 8 * MIB})
            actor.ok(f"create {4 * MIB}")
            self.assertEqual(self.kept(actor), {"served": 1, "handles": 1, "bytes": 4 * MIB})
            command("trim", actor.pid)
            self.assertEqual(self.kept(actor), {"served": 1, "handles": 0, "bytes": 0})

    def test_a_neighbour_has_it(self):
        sim = f"devices=1,memory=256m,{machine()}"
        with Actor(CUSTASH_CONF=KEPT, CUSTASH_SIM=sim) as one, Actor(CUSTASH_SIM=sim) as other:
            one.ok(f"create {160 * MIB}")
            one.ok("release 0")
            self.assertEqual(self.kept(one)["bytes"], 160 * MIB)
            other.ok(f"alloc {160 * MIB}")
            self.assertEqual(self.kept(one)["bytes"], 0)

    def test_a_forked_child_does_without(self):
        with Actor(CUSTASH_CONF=KEPT) as actor:
            actor.ok(f"create {4 * MIB}")
            actor.ok("release 0")
            actor.ok("fork")
            actor.ok("reap")
            actor.ok(f"create {4 * MIB}")
            self.assertEqual(self.kept(actor)["served"], 1)


program.main()
