# SPDX-License-Identifier: MIT
"""No cache line that one thread's hit writes is touched by another's: seen in a trace of the addresses (valgrind's lackey).

Such lines make threads slow, and no clock shows it on a machine of few cores. Device memory only: the pinned cache
takes one lock. Skips (77) without valgrind.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

import program

LINE = 64
ACCESS = re.compile(r"(I | [LSM]) ([0-9a-f]+),(\d+)")
RUNS = re.compile(r".*SCHED\[(\d+)\]: +acquired lock")  # which thread goes on
# What these do they do for their callers; the simulator is not looked at.
HELPERS = ("libc.so", "ld-linux", "libstdc++", "libgcc", "vgpreload")
SIMULATOR = ("libcuda.so.1", "libcudart.so")


class Trace:
    """What each thread loaded and stored in its turns: {kind: {cache line: {thread: {"L" or "S": instruction}}}}."""

    def __init__(self, path, said):
        self.turns, self.modules, self.end = {}, [], 0
        for word, *rest in (line.split() for line in said.splitlines()):
            if word == "begin":
                self.turns[int(rest[0], 16)] = rest[1], int(rest[2])
            elif word == "end":
                self.end = int(rest[0], 16)
            elif word == "module":
                self.modules.append((*(int(x, 16) for x in rest[:3]), rest[3] if rest[3:] else ""))
        self.lines = {kind: collections.defaultdict(lambda: {0: {}, 1: {}}) for kind, _ in self.turns.values()}
        self.accesses = collections.Counter()
        with open(path, encoding="ascii", errors="replace") as trace:
            self.read(trace)

    def read(self, trace):
        begins = {f" S {address:08x},4\n": turn for address, turn in self.turns.items()}
        running, turn, instruction, ours = None, None, 0, False
        for text in trace:
            if text[0] == "-":
                scheduled = RUNS.match(text)
                running = scheduled[1] if scheduled else running
            elif turn is None:
                turn = begins.get(text)
                whose = running
            elif whose == running and (found := ACCESS.match(text)):
                what, address, size = found[1].strip(), int(found[2], 16), int(found[3])
                if what == "I":
                    instruction = address
                    ours = self.is_ours(address, ours)
                elif address == self.end:
                    turn = None
                elif ours:
                    self.touch(*turn, what, address, size, instruction)

    def touch(self, kind, thread, what, address, size, instruction):
        self.accesses[kind] += 1
        for line in range(address // LINE, (address + size - 1) // LINE + 1):
            for way in {"L": "L", "S": "S", "M": "LS"}[what]:
                self.lines[kind][line][thread].setdefault(way, instruction)

    def is_ours(self, address, before):
        name = os.path.basename(self.module(address)[3])
        return before if name.startswith(HELPERS) else not name.startswith(SIMULATOR)

    def module(self, address):
        return next((m for m in self.modules if m[1] <= address < m[2]), (0, 0, 0, "?"))

    def shared(self, kind):
        """[(line, an instruction that writes it, one of the other thread that touches it)]."""
        found = []
        for line, threads in sorted(self.lines[kind].items()):
            for who in (0, 1):
                other = threads[1 - who]
                if "S" in threads[who] and other:
                    found.append((line * LINE, threads[who]["S"], other.get("S", other.get("L"))))
                    break
        return found

    def place(self, address):
        """Function and line, where the compiler left word of them."""
        base, _, _, name = self.module(address)
        if shutil.which("addr2line") is None or not os.path.exists(name):
            return f"{name}+{address - base:#x}"
        done = subprocess.run(["addr2line", "-Cfspie", name, f"{address - base:#x}"],
                              capture_output=True, text=True, check=False)
        return f"{os.path.basename(name)}+{address - base:#x} {done.stdout.splitlines()[0]}"


def traced(folder):
    path = os.path.join(folder, "trace")
    done = program.run(shutil.which("valgrind"), "--tool=lackey", "--basic-counts=no", "--trace-mem=yes", "--trace-sched=yes",
                       f"--log-file={path}", os.path.join(program.PATHS.programs, "lines"), timeout=170,
                       # Mapped pages go to the thread whose turn it is: no more is held than was ever in use.
                       # Nobody else may have memory given back meanwhile: that ends the hits.
                       CUSTASH_CONF="backing:driver,decay:0,neighbours:false,control:false")
    if done.returncode != 0:
        sys.exit(f"lines: {done.stdout}{done.stderr}")
    return Trace(path, done.stdout)


class Lines(program.Case):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.trace = traced(folder)

    def test_a_line_shared_on_purpose_is_found(self):
        self.assertEqual(len(self.trace.shared("planted")), 1)

    def test_no_hit_writes_what_another_threads_hit_touches(self):
        for kind in self.trace.lines:
            with self.subTest(kind):
                self.assertGreater(self.trace.accesses[kind], 500)
                shared = [] if kind == "planted" else self.trace.shared(kind)
                self.assertEqual(shared, [], "\n" + "\n".join(
                    f"{line:#x}: {self.trace.place(writer)} writes, {self.trace.place(other)} touches"
                    for line, writer, other in shared))


if __name__ == "__main__":
    if shutil.which("valgrind") is None:
        print("skip: no valgrind")
        sys.exit(77)
    program.main()
