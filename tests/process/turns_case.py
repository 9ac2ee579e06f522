# SPDX-License-Identifier: MIT
"""Processes on a simulated device that take turns at it: for the tests of the option turns."""
import itertools
import os
import re
import subprocess
import sys
import tempfile

import program
from actor import Actor, connect, ask, services
from program import Case

MIB = 1 << 20
MOST = 90 * MIB  # 70 % of the device
SLICE = 1


class TurnsCase(Case):
    def setUp(self):
        machine = tempfile.NamedTemporaryFile(prefix="custash-machine-")
        self.addCleanup(machine.close)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.settings = f"devices=2,memory=128m,machine={machine.name}"
        self.logs, self.numbers = [], itertools.count()

    def put_to_sleep(self, actor):
        with connect(services(actor.pid)[0]) as link:
            self.assertEqual(ask(link, "sleep -1 1000")[0], 0)

    def actor(self, *, turns=SLICE, backing="vmm", conf="", **more):
        log = os.path.join(self.folder.name, str(next(self.numbers)))
        self.logs.append(log)
        actor = Actor(CUSTASH_CONF=f"backing:{backing},turns:{turns},log:info,log_file:{log}{conf}", CUSTASH_SIM=self.settings, **more)
        self.addCleanup(actor.__exit__)
        return actor

    def filled(self, size=MOST, value=7, **more):
        actor = self.actor(**more)
        actor.ok(f"alloc {size}")
        actor.ok(f"fill 0 {value}")
        actor.ok("sync")
        return actor

    def times(self, event):
        """When each process did so, in seconds."""
        found = []
        for log in self.logs:
            with open(log, encoding="utf-8") as file:
                found += [line.split()[1] for line in file if f" event={event} " in line]
        return sorted(float(at[17:19]) + 60 * float(at[14:16]) + float("0" + at[19:]) for at in found)

    def in_blocks(self, count=9, size=10 * MIB, **more):
        actor = self.actor(**more)
        for block in range(count):
            actor.ok(f"alloc {size}")
            actor.ok(f"fill {block} {block + 1}")
        actor.ok("sync")
        return actor

    def moved(self, log):
        """MiB that went to sleep, by the log; how often; how often it woke."""
        with open(log, encoding="utf-8") as file:
            text = file.read()
        sleeps = [int(each) for each in re.findall(r'event=asleep text="(\d+) MiB asleep', text)]
        return sum(sleeps), len(sleeps), text.count(" event=awake ")

    def lacks(self, log):
        """MiB for which other processes were asked."""
        with open(log, encoding="utf-8") as file:
            return [int(each) >> 20 for each in re.findall(r"event=turn_asked .*bytes=(\d+) ", file.read())]

    def whole(self, actor, count=9):
        self.assertEqual([actor.ok(f"check {block} {block + 1}") for block in range(count)], [["0"]] * count)

    def uuid(self):
        code = ("import ctypes; d, u = ctypes.CDLL('libcuda.so.1'), (ctypes.c_ubyte * 16)(); d.cuInit(0); "
                "d.cuDeviceGetUuid(u, 0); print(bytes(u).hex())")
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60,
                              env=program.environment(False, CUSTASH_SIM=self.settings)).stdout.strip()
