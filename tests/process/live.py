# SPDX-License-Identifier: MIT
"""custash top, stat and trim, and the pages of shared memory behind them."""
import glob
import json
import os
import pathlib
import re
import signal
import stat
import struct
import subprocess
import sys
import threading
import time

import program
from actor import Actor, connect, packet, services
from program import PATHS, Case, custash, processes, within

SHM = "/dev/shm"
MIB = 1 << 20
PAGE_HEAD = struct.Struct("<QQqQQQ64sQ")  # to `sequence`


def pages(pid):
    prefix = f"custash.{os.geteuid()}.{pid}."
    return [os.path.join(SHM, name) for name in os.listdir(SHM) if name.startswith(prefix)]


class Live(Case):
    def refused(self, *words):
        done = custash(*words)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertTrue(done.stderr.startswith("custash: process ") or "there is no" in done.stderr, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        return done.stderr


class Top(Live):
    def test_two_processes_and_what_each_holds(self):
        with Actor() as one, Actor() as two:
            one.ok(f"alloc {100 * MIB}")
            two.ok("alloc 5000")
            two.ok(f"alloc {3 * MIB}")
            two.ok("free 1")
            seen = processes()
            (device,) = seen[one.pid]["devices"]
            self.assertTrue(seen[one.pid]["answered"])
            self.assertEqual(seen[one.pid]["program"], "actor")
            self.assertEqual((device["device"], device["allocated_bytes"], device["allocations"]), (0, 100 * MIB, 1))
            self.assertGreaterEqual(device["reserved_bytes"], 100 * MIB)
            (device,) = seen[two.pid]["devices"]
            self.assertEqual((device["allocated_bytes"], device["allocations"], device["frees"]), (5120, 2, 1))
            self.assertEqual(device["stalls_avoided"], 1)
            self.assertGreaterEqual(device["allocated_bytes_peak"], 3 * MIB)
            self.assertTrue(device["bus"])
            table = custash("top", "--once", "--delay", "0.05").stdout
            self.assertRegex(table, rf"(?m)^ +{one.pid}( +-)? +0 +100 MiB ")
            self.assertRegex(table, rf"(?m)^ +{two.pid}( +-)? +0 +5\.00 KiB .*  actor$")

    def test_a_look_leaves_a_capture_valid(self):
        """It asks the driver about pools, which the driver refuses during a capture and then ends that."""
        with Actor() as process:
            process.ok(f"alloc {MIB}")
            process.ok("begin_capture")
            self.assertIn(process.pid, processes())
            process.ok("end_capture")

    def test_moved_pages(self):
        with Actor() as actor:
            for slot, size in enumerate((44 * MIB, 512 * 1024, 44 * MIB)):
                actor.ok(f"alloc {size}")
                actor.ok(f"free {slot}")
            (device,) = processes()[actor.pid]["devices"]
            self.assertGreater(device["pages_moved"], 0)
            self.assertIn("pages_moved", device["per_second"])

    def test_rates_are_between_two_looks(self):
        with Actor() as actor:
            actor.ok("alloc 1000")
            watching = subprocess.Popen([PATHS.command, "top", "--json", "--delay", "0.3"], stdout=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, text=True)
            looks = [json.loads(watching.stdout.readline())]
            for _ in range(20):
                actor.ok("alloc 1000")
            def all_seen(look):  # other tests' processes may be there, too
                return any(each["pid"] == actor.pid and each["devices"] and each["devices"][0]["allocations"] == 21
                           for each in look["processes"])
            while not all_seen(looks[-1]):
                looks.append(json.loads(watching.stdout.readline()))
            watching.terminate()
            watching.wait()
            watching.stdout.close()
        mine = [each for look in looks for each in look["processes"] if each["pid"] == actor.pid]
        self.assertIsNone(mine[0]["devices"][0]["per_second"]["allocations"])
        self.assertGreater(mine[-1]["devices"][0]["per_second"]["allocations"], 0)

    def test_it_ends_when_nobody_reads(self):
        watching = subprocess.Popen([PATHS.command, "top", "--json", "--delay", "0.05"], stdout=subprocess.PIPE,
                                    stdin=subprocess.DEVNULL)
        watching.stdout.readline()
        watching.stdout.close()
        self.assertIn(watching.wait(timeout=20), (0, -signal.SIGPIPE))

    def test_a_stopped_process_is_told_from_its_page(self):
        with Actor() as actor:
            actor.ok(f"alloc {8 * MIB}")
            self.assertTrue(processes()[actor.pid]["answered"])
            os.kill(actor.pid, signal.SIGSTOP)
            seen = processes()[actor.pid]
            os.kill(actor.pid, signal.SIGCONT)
            self.assertFalse(seen["answered"])
            self.assertEqual(seen["devices"][0]["allocated_bytes"], 8 * MIB)
            self.assertTrue(processes()[actor.pid]["answered"])

    def test_a_page_that_was_never_written_is_no_process(self):
        with Actor() as actor:
            actor.ok(f"alloc {8 * MIB}")
            self.assertIn(actor.pid, processes())  # which has its page written
            page, = glob.glob(f"/dev/shm/custash.*.{actor.pid}.*")
            bare = re.sub(rf"\.{actor.pid}\.", f".{os.getpid()}.", page)
            with open(bare, "xb") as made:
                made.truncate(os.path.getsize(page))
            self.addCleanup(os.unlink, bare)
            seen = processes()
            self.assertIn(actor.pid, seen)
            self.assertNotIn(os.getpid(), seen)


class LoaderLock(Live):
    """A library's constructor ends a context: no verb may run then, and none may wait for the loader."""

    def loading(self, milliseconds, conf):
        library = os.path.join(PATHS.programs, "libends_while_loading.so")
        program.must_load_the_library(sys.executable)
        process = subprocess.Popen([sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", library], text=True,
                                   stdout=subprocess.PIPE, env=program.environment(True, CUSTASH_CONF=conf, CUSTASH_SIM="devices=1",
                                                                                   CUSTASH_TEST_NAP=str(milliseconds)))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def test_the_first_look(self):
        for nap in (0, 1, 300):
            with self.subTest(nap):
                self.assertEqual(self.loading(nap, "").communicate(timeout=30)[0], "0\n")

    def test_requests(self):
        for conf in ("", "history:100"):
            asking = {}
            for words in (("snapshot",), ("leaks",), ("snapshot", "--history"), ("stat",), ("trim",), ("sleep",), ("trim", "--deep")):
                process = self.loading(1200, conf)
                within(20, lambda process=process: services(process.pid))
                command = [PATHS.command, *words, str(process.pid), *(("-o", "/dev/null") if words == ("snapshot",) else ())]
                asking[words] = process, subprocess.Popen(command, env=program.environment(False), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for words, (process, asked) in asking.items():
                self.assertEqual(process.communicate(timeout=30)[0], "0\n", (words, conf))
                asked.communicate(timeout=30)


class Pages(Live):
    def test_private_and_gone_at_exit(self):
        with Actor() as actor:
            self.assertEqual(pages(actor.pid), [])
            actor.ok("alloc 1000")
            processes()
            (page,) = pages(actor.pid)
            self.assertEqual(stat.S_IMODE(os.stat(page).st_mode), 0o600)
            self.assertEqual(actor.number("fork"), 0)  # a child's end leaves it
            self.assertEqual(pages(actor.pid), [page])
            self.assertEqual(actor.quit(), 0)
            self.assertEqual(pages(actor.pid), [])

    def test_what_a_crash_leaves_is_removed_by_readers_and_by_other_processes(self):
        for clean in (lambda: processes(), lambda: None):
            with Actor() as crashed, Actor() as other:
                crashed.ok("alloc 1000")
                processes()
                crashed.process.kill()
                crashed.process.wait()
                self.assertEqual(len(pages(crashed.pid)), 1)
                clean()
                other.ok("alloc 1000")
                self.assertIsNotNone(within(4, lambda: not pages(crashed.pid)))  # its service's thread starts beside it

    def test_old_wrecks_of_dead_processes_are_removed(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        paths = []
        for pid, age in ((ended.pid, 7200), (ended.pid, 60), (os.getpid(), 7200)):
            paths.append(f"/dev/shm/custash.{os.geteuid()}.{pid}.{len(paths):016x}")
            with open(paths[-1], "wb"):
                pass
            os.utime(paths[-1], (time.time() - age,) * 2)
            self.addCleanup(lambda path=paths[-1]: os.path.exists(path) and os.remove(path))
        custash("top", "--once")
        self.assertEqual([os.path.exists(path) for path in paths], [False, True, True])

    def test_none_where_control_is_off(self):
        with Actor(CUSTASH_CONF="control:off,neighbours:off") as actor:
            actor.ok("alloc 1000")
            self.assertNotIn(actor.pid, processes())
            self.assertEqual(pages(actor.pid), [])
            self.assertIn("control:off", self.refused("stat", actor.pid))

    def test_hostile_pages_are_passed_over(self):
        with Actor() as actor:
            actor.ok("alloc 1000")
            processes()
            with open(pages(actor.pid)[0], "rb") as file:
                good = file.read()
            head = list(PAGE_HEAD.unpack_from(good))
            made = []

            def plant(name, data=None, **changed):
                path = os.path.join(SHM, f"custash.{os.geteuid()}.{os.getpid()}.{name}")
                made.append(path)
                if data is None:
                    values = list(head)
                    values[2], values[5] = os.getpid(), 0  # ours, alive: it is read, not removed
                    for at, value in changed.items():
                        values[int(at[1:])] = value
                    data = PAGE_HEAD.pack(*values) + good[PAGE_HEAD.size:]
                with open(path, "wb") as file:
                    file.write(data)
            try:
                plant("empty", b"")
                plant("short", good[:100])
                plant("long", good + b"x")
                plant("noise", os.urandom(len(good)))
                plant("odd", _7=head[7] + 1)
                plant("size", _1=1)
                plant("nobody", _2=-1)
                many = bytearray(good)
                struct.pack_into("<q", many, PAGE_HEAD.size + 16, 1 << 40)
                plant("many", bytes(many))
                link = os.path.join(SHM, f"custash.{os.geteuid()}.{os.getpid()}.link")
                os.symlink("/dev/zero", link)
                made.append(link)
                pipe = os.path.join(SHM, f"custash.{os.geteuid()}.{os.getpid()}.pipe")
                os.mkfifo(pipe)
                made.append(pipe)
                self.assertNotIn(os.getpid(), processes())
                plant("name", _6=b"\x1b[2J" + b"x" * 60)
                self.assertIn(os.getpid(), processes())
                self.assertNotIn("\x1b", custash("top", "--once", "--delay", "0.05").stdout)
            finally:
                for path in made:
                    os.unlink(path)

    def test_no_reader_sees_half_a_write(self):
        """The process is stopped anywhere in its writing: what is read is one of the states it was in."""
        with Actor() as actor:
            actor.ok(f"alloc {4 * MIB}")
            over = threading.Event()

            def hammer():
                try:
                    with connect(services(actor.pid)[0], timeout=60) as link:
                        while not over.is_set():
                            link.send(packet("live"))
                            link.recv(65536)
                except OSError:
                    pass
            processes()
            hammering = threading.Thread(target=hammer)
            hammering.start()
            read = 0
            for _ in range(8):
                actor.ok("alloc 1000")
                os.kill(actor.pid, signal.SIGSTOP)
                seen = processes().get(actor.pid)
                os.kill(actor.pid, signal.SIGCONT)
                if seen is not None:  # in the middle: nothing is told of it
                    read += 1
                    (device,) = seen["devices"]
                    self.assertEqual(device["allocated_bytes"], 4 * MIB + 1024 * (device["allocations"] - 1))
            over.set()
            hammering.join()
            self.assertGreater(read, 0)

    @program.unittest.skipUnless(os.geteuid() == 0, "mounts: needs root")
    def test_without_shared_memory_the_service_answers_all_the_same(self):
        script = ("mount -t tmpfs -o ro none /dev/shm && "
                  f"exec {sys.executable} -c 'import sys; sys.exit(0)'")
        if subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, check=False).returncode:
            self.skipTest("no mount namespaces here")
        words = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o ro none /dev/shm && exec "$0"',
                 os.path.join(PATHS.programs, "actor")]
        process = subprocess.Popen(words, env=program.environment(True), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        pid = int(process.stdout.readline().split()[1])
        for line in ("device 0", "alloc 1000"):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline().split()[0], "0")
        seen = processes()[pid]
        self.assertTrue(seen["answered"])
        self.assertEqual(seen["devices"][0]["allocated_bytes"], 1024)
        self.assertEqual(pages(pid), [])
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=20)


class StatAndTrim(Live):
    def test_the_statistics_in_every_form(self):
        with Actor() as actor:
            actor.ok(f"alloc {8 * MIB}")
            done = custash("stat", actor.pid)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("Allocated memory      |   8192 KiB", done.stdout)
            (line,) = custash("stat", "--json", actor.pid).stdout.splitlines()
            self.assertEqual(json.loads(line)["stats"]["allocated_bytes.all.current"], 8 * MIB)
            self.assertIn("# TYPE", custash("stat", "--prometheus", actor.pid).stdout)
            self.assertEqual(json.loads(custash("stat", "--json", "--device", 1, actor.pid).stdout)["device"], 1)
            self.assertIn("no such device", self.refused("stat", "--device", 99, actor.pid))
            self.assertEqual(custash("stat", "--device", -1, actor.pid).returncode, 125)

    def test_the_statistics_of_several_processes(self):
        with Actor() as one, Actor() as two:
            one.ok(f"alloc {8 * MIB}")
            two.ok(f"alloc {4 * MIB}")
            said = custash("stat", "--device", 0, one.pid, two.pid).stdout
            self.assertEqual(re.findall(r"(?m)^process \d+$", said), [f"process {one.pid}", f"process {two.pid}"])
            self.assertEqual(re.findall(r"Allocated memory +\| +(\d+) KiB", said), ["8192", "4096"])
            told = [json.loads(line) for line in custash("stat", "--json", "--device", 0, one.pid, two.pid).stdout.splitlines()]
            self.assertEqual([(each["pid"], each["stats"]["allocated_bytes.all.current"]) for each in told],
                             [(one.pid, 8 * MIB), (two.pid, 4 * MIB)])
            done = custash("stat", 999999999, two.pid)
            self.assertEqual((done.returncode, done.stdout.count("process "), done.stderr.count("\n")), (1, 1, 1))
            self.assertEqual(custash("stat", "--prometheus", one.pid, two.pid).returncode, 125)

    def both(self, *form):
        """The JSON of a process, and what `custash stat` prints of it."""
        with Actor() as actor:
            for size in (100, 5000, 700, MIB, 3 * MIB, 50 * MIB):
                actor.ok(f"alloc {size}")
            for number in (1, 4):
                actor.ok(f"free {number}")
            actor.ok("device 1")
            actor.ok("alloc 2000")
            outs = []
            for words in (["--json", "--device", 0], form):
                done = custash("stat", *words, actor.pid)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                outs.append(done.stdout)
        return json.loads(outs[0]), outs[1]

    def test_prometheus_has_the_numbers_of_the_json(self):
        types, samples, helps = {}, {}, set()
        told, said = self.both("--prometheus")  # of both devices
        for line in said.splitlines():
            if not line:
                continue
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.assertNotIn(name, types)
                types[name] = kind
                self.assertIn(name, helps)
                continue
            if line.startswith("# HELP "):
                self.assertRegex(line, r"^# HELP [a-z_]+ [A-Z][^\\]+\.$")
                helps.add(line.split()[2])
                continue
            match = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? (-?[0-9.e+-]+)', line)
            self.assertTrue(match, line)
            self.assertNotIn((match[1], match[2]), samples)
            samples[match[1], match[2]] = float(match[3])
            self.assertIn(re.sub("_(bucket|sum|count)$", "", match[1]) if match[1] not in types else match[1], types)
        for name, kind in types.items():
            counts = name.endswith("_total") or "_num_" in name or name.endswith("_time_ns") or name.startswith("custash_host_") and name.endswith(
                ("_allocated", "_freed", "_count", "_total"))
            self.assertEqual(kind, "histogram" if name.endswith("_seconds") else "counter" if counts else "gauge", name)
        told = told["stats"]
        for pool in ("all", "small_pool", "large_pool"):
            self.assertEqual(samples["custash_allocated_bytes", f'{{device="0",pool="{pool}"}}'],
                             told[f"allocated_bytes.{pool}.current"])
        self.assertEqual(samples["custash_free_bytes", '{device="0"}'], told["custash.free_bytes"])
        self.assertIn(("custash_num_ooms", '{device="1"}'), samples)

    def test_the_table_has_the_numbers_of_the_json(self):
        told, said = self.both("--device", 0)
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines() if line.count("|") == 6]
        table = {row[0]: row[1:] for row in rows[1:] if not row[0].startswith("from ")}
        self.assertEqual(rows[0], ["Metric", "Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed"])
        stats = told["stats"]
        for title, key in (("Allocations", "allocation"), ("Active allocs", "active"), ("GPU reserved segments", "segment")):
            self.assertEqual([int(cell) for cell in table[title]],
                             [stats[f"{key}.all.{part}"] for part in ("current", "peak", "allocated", "freed")], title)
        for title, key in (("Allocated memory", "allocated_bytes"), ("Requested memory", "requested_bytes")):
            self.assertEqual(table[title], [f"{stats[f'{key}.all.{part}'] // 1024} KiB" for part in ("current", "peak", "allocated", "freed")])

    def test_trim_gives_back_what_is_free(self):
        def trimmed(*words):
            number, unit, _ = custash("trim", actor.pid, *words).stdout.split()
            return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": MIB}[unit]

        with Actor() as actor:
            for _ in range(3):
                actor.ok(f"alloc {64 * MIB}")
            for number in range(2):
                actor.ok(f"free {number}")
            actor.ok("fill 2 7")
            given = trimmed("64m")
            self.assertTrue(64 * MIB <= given < 128 * MIB, given)
            self.assertGreaterEqual(given + trimmed(), 128 * MIB)
            self.assertEqual(custash("trim", actor.pid).stdout, "0 B returned\n")
            self.assertEqual(actor.ok("check 2 7"), ["0"])
            self.assertEqual(custash("trim", actor.pid, "lots").returncode, 125)

    def test_a_process_that_is_not_there_or_not_ours(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        for verb in ("stat", "trim"):
            self.assertIn("there is no process", self.refused(verb, gone.pid))
            self.assertIn("does not run under custash", self.refused(verb, os.getpid()))
            self.assertEqual(custash(verb, "-5").returncode, 125)
            self.assertEqual(custash(verb, "many").returncode, 125)
            self.assertEqual(custash(verb).returncode, 125)

    @program.unittest.skipUnless(os.geteuid() == 0, "becomes another user: needs root")
    def test_another_users_process(self):
        with Actor() as actor:
            actor.ok("alloc 1000")
            done = custash("stat", actor.pid, user=65534)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"process {actor.pid} belongs to root", done.stderr)
            done = custash("top", "--once", "--json", "--delay", "0.05", user=65534)
            self.assertEqual(json.loads(done.stdout)["processes"], [])

    def wait_until_stopped(self, pid):
        """Each thread stops when it next looks at its signals."""
        end = time.monotonic() + 10
        while {task.read_text().rpartition(")")[2].split()[0]
               for task in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")} != {"T"}:
            self.assertLess(time.monotonic(), end, "it does not stop")
            time.sleep(0.001)

    def test_a_stopped_process_is_not_waited_for_without_end(self):
        with Actor() as actor:
            actor.ok("alloc 1000")
            os.kill(actor.pid, signal.SIGSTOP)
            self.wait_until_stopped(actor.pid)
            self.assertIn("does not answer", self.refused("stat", "--patience", "0.5", actor.pid))
            os.kill(actor.pid, signal.SIGCONT)
            self.assertEqual(custash("stat", actor.pid).returncode, 0)


program.main()
