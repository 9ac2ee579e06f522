# SPDX-License-Identifier: MIT
"""Two jobs that together need more than the device: one after the other, and by turns (option turns).

  turns.py --build build [--budget 64] [--share 0.7] [--rounds 300] [--slice 5] [--pinned] [--logs FOLDER]

A third process takes what the device has beyond the budget in GiB. Each job fills its share of the budget, then writes
all of it again in each round and reads some of it. All contents are compared with what was written. Prints a line of
JSON for each way, with the MiB that went to sleep and came back. Exits with 0, with 1 where something is wrong, with 77 where there is no GPU.
"""
import argparse
import ctypes
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import sleep

BLOCK, PART = 256 * sleep.MIB, 4096


class Job:
    """Blocks that hold one byte each, another one in each round."""

    def __init__(self, size):
        self.cuda, self.rng, self.wrong = sleep.cuda_or_exit(), random.Random(3), 0
        self.out = ctypes.create_string_buffer(PART)
        self.blocks = [[self.cuda.allocate(BLOCK), None] for _ in range(size // BLOCK)]

    def round(self, number):
        for i, block in enumerate(self.blocks):
            block[1] = (number + i) % 256
            self.cuda.fill(block[0], block[1], BLOCK)
        self.cuda.synchronize()
        for block in self.rng.sample(self.blocks, min(8, len(self.blocks))):
            self.compare(block)

    def compare(self, block):
        self.cuda.to_host(self.out, block[0] + self.rng.randrange(BLOCK // PART) * PART, PART)
        self.wrong += self.out.raw != bytes([block[1]]) * PART


def job(gib, rounds):
    begin = time.monotonic()
    mine = Job(int(gib * sleep.GIB))
    for number in range(rounds):
        mine.round(number)
    for block in mine.blocks:
        mine.compare(block)
    print(json.dumps({"blocks": len(mine.blocks), "wrong": mine.wrong, "seconds": round(time.monotonic() - begin, 1)}), flush=True)
    return 0


def hold(budget):
    """Takes all of the device but the budget, until its input ends."""
    cuda = sleep.cuda_or_exit()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cuda.check(cuda.driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    if free.value > budget * sleep.GIB:
        cuda.allocate(free.value - int(budget * sleep.GIB))
    print(json.dumps({"free_gib": round(min(free.value / sleep.GIB, budget), 1)}), flush=True)
    sys.stdin.read()
    return 0


def start(args, conf, log):
    conf = f"{conf},log:info,log_file:{log}"
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), "--job", str(args.budget * args.share), str(args.rounds)],
                            env=sleep.environment(args, conf), stdout=subprocess.PIPE, text=True)


def run(args, folder, way, confs, together):
    """Whether both did right. Prints how long both took."""
    begin, running, said = time.monotonic(), [], []
    logs = [os.path.join(folder, f"{way} {i}") for i in range(len(confs))]
    for conf, log in zip(confs, logs):
        running.append(start(args, conf, log))
        if not together:
            running[-1].wait()
    for process in running:
        said.append(json.loads(process.communicate()[0] or "{}"))
    took = time.monotonic() - begin
    sleeps = [each for log in logs for each in re.findall(r'event=asleep text="([^"]*)"', pathlib.Path(log).read_text(encoding="utf-8"))]
    out = [int(each.split(" MiB asleep")[0]) for each in sleeps]
    back = [int(each) >> 20 for log in logs for each in re.findall(r"event=awake bytes=(\d+)", pathlib.Path(log).read_text(encoding="utf-8"))]
    if any("skip" in each for each in said):
        print("skip:", said)
        sys.exit(77)
    print(json.dumps({"way": way, "seconds": round(took, 1), "jobs": said, "sleeps": len(sleeps), "mib_out": sum(out), "mib_back": sum(back), "first": sleeps[:1], "last": sleeps[-1:],
                      "exit": [process.returncode for process in running]}), flush=True)
    return all(process.returncode == 0 for process in running) and all(each["wrong"] == 0 for each in said)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--job":
        return job(float(sys.argv[2]), int(sys.argv[3]))
    if len(sys.argv) == 3 and sys.argv[1] == "--hold":
        return hold(float(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the folder of a build")
    parser.add_argument("--budget", type=float, default=64, help="GiB of the device")
    parser.add_argument("--share", type=float, default=0.7, help="of the budget that each job needs")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--slice", type=int, default=5, help="the option turns, in seconds")
    parser.add_argument("--pinned", action="store_true", help="with pinned host memory for all contents")
    parser.add_argument("--logs", help="keep the jobs' logs in this folder, which is there")
    args = parser.parse_args()
    args.library = os.path.abspath(os.path.join(args.build, "interpose", "libcustash.so"))
    holder = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--hold", str(args.budget)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print(json.dumps(sleep.hear(holder)), flush=True)
    pinned = f",sleep_pinned:{int(args.budget * args.share) + 1}G" if args.pinned else ""
    with tempfile.TemporaryDirectory() as folder:
        folder = args.logs or folder
        good = run(args, folder, "one after the other", [""] * 2, False)
        good &= run(args, folder, "by turns", [f"turns:{args.slice}{pinned}"] * 2, True)
    holder.stdin.close()
    return 0 if good and holder.wait() == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
