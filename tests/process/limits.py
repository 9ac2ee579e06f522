# SPDX-License-Identifier: MIT
"""Limits of device memory, over the simulator. A matrix of kinds of memory, orders, runtimes and threads says whether each holds
option limit_all; NVML's double counts what the process really has. Option limit of what custash serves, groups, the questions about
free memory, and the environment that schedulers of containers set."""
import glob
import os
import select
import signal
import struct
import subprocess
import tempfile
import time
import uuid

import program
from actor import DONE, Actor, Actors, ask, connect, machine, machine_file, services
from program import PATHS, Case, must_load_the_library, within

MIB = 1 << 20
LIMIT = 1 << 30
PAGE = 2 * MIB
POOL = 32 * MIB  # the step by which a driver's pool may grow
OOM = 2
NOT_SUPPORTED = 801
ALL = f"limit_all:{LIMIT},decay:1"

# Refused before the fact: each allocation fails by which the process would have more than the limit. Kinds whose pools the driver
# serves stop up to a step of the pool before it.
BEFORE = ["plain", "async", "pool", "pitched", "handle", "array", "array_3d", "mipmap", "external"]
# By its full size, wherever it lies.
FULL_SIZE = ["managed"]
# Counted after the fact, and charged to later calls.
AFTER = ["context", "module", "graph"]
ORDERS = ["fill", "varied", "again", "cached", "mixed", "racing"]
RUNTIME = ["plain", "async", "pool", "pitched", "managed"]
BYTES = 8 * MIB
OWN = ",context=64m,module=16m"  # what the driver takes for itself
CONTEXT = 64 * MIB


def used_on(path):
    """The bytes of device 0 that the processes of a machine use (tests/sim/machine_slots.hpp)."""
    with open(path, "rb") as file:
        slots = list(struct.iter_unpack("<i4x32Q", file.read()))
    return sum(used for pid, used, *_ in slots if pid and os.path.exists(f"/proc/{pid}"))


def rows():
    """(name, class, program, kind, order, threads, options of custash)."""
    for kind in BEFORE + FULL_SIZE:
        its = "before" if kind in BEFORE else "full size"
        for order in ORDERS:
            yield f"{kind}, {order}, driver", its, "limits", kind, order, 16, ""
    for runtime in ("shared", "static"):
        for kind in RUNTIME:
            for order in ("fill", "again", "racing"):
                its = "before" if kind in BEFORE else "full size"
                yield f"{kind}, {order}, {runtime} runtime", its, "limits_" + runtime, kind, order, 16, ""
    for kind in ("plain", "async", "pool", "pitched"):
        for options in ("pools:driver", "backing:driver", "caching:never"):
            for order in ("fill", "again", "cached", "racing"):
                yield f"{kind}, {order}, {options}", "before", "limits", kind, order, 16, options
    for kind in ("plain", "async", "pool", "handle", "managed"):
        yield f"{kind}, changing, driver", "full size" if kind in FULL_SIZE else "before", "limits", kind, "changing", 16, ""
    yield "async, released by the driver's pool", "after", "limits", "async", "released", 64, "pools:driver"
    for kind in AFTER:
        yield f"{kind}, then plain memory", "after", "limits", kind, "later", 1, ""
    # What HAMi-core has published of itself.
    yield "HAMi-core 55: the code of a refusal is out of memory", "before", "limits", "plain", "fill", 1, ""
    yield "HAMi-core 187: handles in a thread without a context", "before", "limits", "handle", "without_context", 1, ""
    yield "HAMi-core 187: handles of the host are no device's", "none", "limits", "host_handle", "fill", 1, ""
    yield "refused calls cost nothing", "before", "limits", "handle", "failing", 1, ""


def conf_of(*words):
    return ",".join(filter(None, words))


class Limits(Case):
    def limited(self, name, kind, order, threads, *, conf, simulator="", size=BYTES, **more):
        """(bytes that it had, code of the refusal, the most that it used, (free, total) of CUDA, and (free, total, used) of NVML)."""
        settings = f"devices=1,{machine()}{simulator}"
        done = program.run(name, kind, order, str(threads), str(size), timeout=120, CUSTASH_CONF=conf, CUSTASH_SIM=settings, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        had, code, most, *told = map(int, done.stdout.split())
        return had, code, most, tuple(told[:2]), tuple(told[2:])

    def holds(self, kind, order, klass, had, code, most, context=0):
        self.assertEqual(code, OOM)
        if kind == "external":
            most = had  # the simulator imports no more than a name
        if kind == "managed":  # NVML counts it for no process
            most = max(most, had + context)
        self.assertLessEqual(most, LIMIT + PAGE)
        # All of it can be had, but for what rounding takes and a pool's step.
        if kind != "managed" or order != "varied":
            self.assertGreaterEqual(most, LIMIT - POOL - BYTES * (8 if kind == "external" else 1))
        if order != "varied" and klass != "after":
            self.assertGreaterEqual(had, LIMIT - context - POOL - BYTES)

    def test_matrix(self):
        count = 0
        for name, klass, binary, kind, order, threads, options in rows():
            if "runtime" in name and not PATHS.runtime:
                continue
            count += 1
            with self.subTest(name, klass=klass):
                had, code, most, cuda, nvml = self.limited(binary, kind, order, threads, conf=conf_of(ALL, options), simulator=OWN)
                self.assertEqual((cuda[1], nvml[1]), (LIMIT, LIMIT))
                self.assertEqual(nvml, (cuda[0], LIMIT, LIMIT - cuda[0]))
                if klass == "none":
                    self.assertEqual((had, code, most, cuda[0]), (0, NOT_SUPPORTED, CONTEXT, LIMIT - CONTEXT))
                else:
                    self.holds(kind, order, klass, had, code, most, CONTEXT)
        self.assertGreaterEqual(count, 64)

    def test_what_custash_serves_respects_plain_limit(self):
        for kind in ("plain", "async", "pool", "pitched"):
            for order in ORDERS:
                with self.subTest(kind, order=order):
                    had, code, most, cuda, nvml = self.limited("limits", kind, order, 16, conf=f"limit:{LIMIT},decay:1")
                    self.holds(kind, order, "before", had, code, most)
                    self.assertEqual(cuda[1], LIMIT)
                    self.assertGreater(nvml[1], LIMIT, "without limit_all NVML is untouched")

    def test_the_answers_never_pass_below_zero(self):
        """HAMi-core 200 and 181: more is used than the limit, by what is counted after the fact, and CUDA and NVML agree on it."""
        _, code, _, cuda, nvml = self.limited("limits", "context", "later", 1, conf="limit_all:128M", simulator=OWN)
        self.assertEqual((code, cuda, nvml), (OOM, (0, 128 * MIB), (0, 128 * MIB, 128 * MIB)))

    def test_the_environment_of_schedulers(self):
        for value, limit in (("1024m", LIMIT), ("1G", LIMIT), ("1Gi", LIMIT), ("1073741824", LIMIT), ("0", 8 << 30), ("0m", 8 << 30)):
            with self.subTest(value):
                self.assertEqual(self.limited("limits", "module", "later", 1, conf=None, CUDA_DEVICE_MEMORY_LIMIT=value)[3][1], limit)
        both = {"CUDA_DEVICE_MEMORY_LIMIT": "2G", "CUDA_DEVICE_MEMORY_LIMIT_0": "1G"}
        self.assertEqual(self.limited("limits", "plain", "fill", 1, conf=None, **both)[3][1], LIMIT)
        self.assertEqual(self.limited("limits", "plain", "fill", 1, conf="limit_all:512M", **both)[3][1], LIMIT // 2)
        other = {"CUDA_DEVICE_MEMORY_LIMIT_1": "1G"}
        self.assertEqual(self.limited("limits", "plain", "fill", 1, conf=None, **other)[3][1], 8 << 30)
        done = program.run("limits", "plain", "fill", "1", str(BYTES), CUDA_DEVICE_MEMORY_LIMIT="4 apples", CUSTASH_SIM="devices=1")
        self.assertIn("CUDA_DEVICE_MEMORY_LIMIT=4 apples is no size", done.stderr)

    def test_it_steps_aside_where_hami_limits(self):
        hami = os.path.join(PATHS.programs, "libvgpu.so")
        done = program.run("limits", "plain", "fill", "1", str(BYTES), LD_PRELOAD=f"{hami}:{PATHS.library}", CUSTASH_CONF=ALL,
                           CUSTASH_SIM=f"devices=1,{machine()}")
        self.assertEqual(done.stderr, "custash: HAMi's libvgpu.so limits this process; limit_all is off\n")
        self.assertGreater(int(done.stdout.split()[0]), LIMIT)

    def test_a_refusal_says_who_holds_what(self):
        done = program.run("limits", "handle", "mixed", "16", str(BYTES), CUSTASH_CONF=conf_of(ALL, "log:warn"),
                           CUSTASH_SIM=f"devices=1,{machine()}{OWN}")
        line = next(line for line in done.stderr.splitlines() if "limit_reached" in line)
        self.assertIn("(handles); limit_all 1024 MiB: custash holds 128 MiB, the driver serves 832 MiB, "
                      "contexts, code and graphs have 64 MiB", line)
        done = program.run("limits", "plain", "fill", "1", str(BYTES), CUSTASH_CONF=conf_of(ALL, "log:warn"),
                           CUSTASH_SIM=f"devices=1,{machine()}")
        self.assertIn("limit_all 1024 MiB: custash holds 1024 MiB", done.stderr)

    def test_without_nvml_s_figure_the_rest_is_counted(self):
        done = program.run("limits", "plain", "fill", "1", str(BYTES), CUSTASH_CONF=conf_of(ALL, "log:warn"), CUSTASH_SIM="devices=1")
        self.assertEqual(done.stderr.count("limit_unmeasured"), 1)
        self.assertEqual(int(done.stdout.split()[0]), LIMIT)

    def test_a_charge_leaves_a_capture_valid(self):
        """So does the first use of a pool. Both ask the driver about it, which ends captures unless the thread's mode is relaxed."""
        for conf in (ALL, f"{ALL},pools:driver"):
            with self.subTest(conf), Actor(CUSTASH_CONF=conf, CUSTASH_SIM=f"devices=1,{machine()}") as process:
                for line in ("begin_capture", f"alloc_async {BYTES}", "end_capture"):
                    process.ok(line)


class Groups(Actors):
    def setUp(self):
        self.machine = machine_file()
        self.group = "test-" + uuid.uuid4().hex[:12]
        self.addCleanup(self.remove)

    def remove(self):
        for path in glob.glob(f"/dev/shm/custash-limit.{os.geteuid()}.{self.group}.*"):
            os.unlink(path)

    def environment(self, *options):
        return {"CUSTASH_CONF": conf_of(ALL, f"limit_group:{self.group}", *options), "CUSTASH_SIM": f"devices=1,machine={self.machine}"}

    def actor(self, *options, **more):
        return super().actor(**{**self.environment(*options), **more})

    def count(self, actor, line):
        return sum(1 for _ in iter(lambda: actor.code(line), OOM))

    def test_members_share_one_limit(self):
        first, second = self.actor(), self.actor()
        self.assertEqual([first.code(f"alloc {BYTES}") for _ in range(64)], [0] * 64)
        self.assertEqual(self.count(second, f"create {BYTES} 0"), 64)
        self.assertEqual(first.code(f"alloc {BYTES}"), OOM)
        free, total = map(int, first.ok("info"))
        self.assertEqual((free, total), (0, LIMIT))
        stranger = super().actor(CUSTASH_CONF=ALL, CUSTASH_SIM=f"devices=1,machine={self.machine}")
        self.assertEqual(self.count(stranger, f"create {BYTES} 0"), LIMIT // BYTES)

    def test_a_killed_member_s_share_returns_within_a_second(self):
        """Whether or not its parent has waited for it."""
        first, second = self.actor(), self.actor()
        self.assertEqual(self.count(first, f"create {BYTES} 0"), LIMIT // BYTES)
        self.assertEqual(second.code(f"alloc {BYTES}"), OOM)
        os.kill(first.pid, signal.SIGKILL)
        self.assertIsNotNone(within(1, lambda: second.code(f"alloc {BYTES}") == 0))
        self.assertEqual(self.count(second, f"create {BYTES} 0"), LIMIT // BYTES - 1)

    def test_what_other_members_cache_is_asked_for(self):
        first, second = self.actor(), self.actor()
        for _ in range(96):
            first.ok(f"alloc {BYTES}")
        for number in range(96):
            first.ok(f"free {number}")
        self.assertEqual([second.code(f"alloc {BYTES}") for _ in range(64)], [0] * 64)

    def test_members_beyond_the_room_have_a_limit_of_their_own(self):
        path = f"/dev/shm/custash-limit.{os.geteuid()}.{self.group}."
        first = self.actor()
        first.ok(f"alloc {BYTES}")
        [whole] = glob.glob(path + "*")
        self.assertEqual(os.stat(whole).st_mode & 0o777, 0o600)
        os.unlink(whole)
        os.symlink("/dev/null", whole)
        with tempfile.TemporaryFile("w+") as errors:
            second = self.actor("log:warn", stderr=errors)
            self.assertEqual(self.count(second, f"create {BYTES} 0"), LIMIT // BYTES)
            errors.seek(0)
            self.assertIn("event=no_limit_group", errors.read())

    def members_with_contexts(self):
        """A member with four contexts beside its primary one and eight blocks, and one that takes all that is left."""
        own = {"CUSTASH_SIM": f"devices=1,machine={self.machine}{OWN}"}
        first, second = self.actor(**own), self.actor(**own)
        contexts = [first.ok("context 0")[0] for _ in range(4)]
        first.ok("device 0")
        for _ in range(8):
            first.ok(f"alloc {BYTES}")
        return first, second, contexts

    def test_what_an_idle_member_s_contexts_had_returns(self):
        first, second, contexts = self.members_with_contexts()
        self.assertEqual(self.count(second, f"create {BYTES} 0"), (LIMIT - 6 * CONTEXT) // BYTES - 8)
        for number in contexts:
            first.ok(f"destroy {number}")
        self.assertEqual(self.count(second, f"create {BYTES} 0"), 4 * CONTEXT // BYTES)
        first.ok("reset 0")  # NVML lists it no more
        self.assertEqual(self.count(second, f"create {BYTES} 0"), CONTEXT // BYTES + 8)

    def test_a_member_asleep_still_has_its_contexts(self):
        first, second, _ = self.members_with_contexts()
        with connect(services(first.pid)[0], 30) as link:
            self.assertEqual(ask(link, "sleep 0 20000")[0], DONE)
        self.assertEqual(self.count(second, f"create {BYTES} 0"), (LIMIT - 6 * CONTEXT) // BYTES - 8)

    def test_sixteen_processes_race(self):
        most = 0
        env = program.environment(True, **self.environment(), STAY="1")
        must_load_the_library(os.path.join(PATHS.programs, "limits"))
        members = [subprocess.Popen([os.path.join(PATHS.programs, "limits"), kind, "racing", "2", str(BYTES)], env=env,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                   for kind in ("plain", "handle", "array", "managed") * 4]
        path = self.machine
        waiting = list(members)
        begin = time.monotonic()
        while waiting and time.monotonic() - begin < 90:
            if os.path.exists(path):
                most = max(most, used_on(path))
            waiting = [each for each in waiting if not select.select([each.stdout], [], [], 0)[0]]
        self.assertEqual(waiting, [])
        lines = [each.stdout.readline().split() for each in members]
        self.assertEqual([line[1] for line in lines], [str(OOM)] * 16)
        end = used_on(path)
        for each in members:
            each.kill()
            each.communicate()
        self.assertLessEqual(max(most, end), LIMIT + PAGE)
        self.assertGreaterEqual(end, LIMIT - POOL - BYTES)


if __name__ == "__main__":
    program.main()
