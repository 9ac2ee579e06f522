# SPDX-License-Identifier: MIT
"""GPT-2 on all GPUs with random sequence lengths (train_parallel.py), by DDP and by FSDP: with PyTorch's own cache, with
expandable segments, and with custash in the cache's place. Rounds in turn, each of new processes, with a seed of its own.

  many_gpus_train.py --build build [--ways ddp fsdp] [--only SETTING...] [--rounds 10] [--minutes 8] [--json FILE]

Prints for each run the mean ms of a step, the most that a GPU held at its peak, and all GPUs' MiB at the end. Then a table: medians, ranges,
and in how many rounds a setting was above PyTorch's own cache. Exit 1 where a run failed, 77 without the GPUs.
"""
import argparse
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from coverage_programs import show
from same_frameworks import gpu_count, installed

HERE = os.path.dirname(os.path.abspath(__file__))
NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
# Name: whether custash is there, and the environment. The others are compared with the first.
SETTINGS = {
    "own": (False, {}),
    "expandable": (False, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "custash": (True, NO_CACHE),
    "whole": (True, {"CUSTASH_CONF": "backing:whole", **NO_CACHE}),
}
RUN_S = 45  # for one run at most
START_S = 120
MEASURES = {"ms": "a step, ms", "peak": "peak, MiB", "end": "end, MiB"}


class Failed(Exception):
    pass


class Server:
    """train_parallel.py --serve: it has imported PyTorch, and trains once for each request."""

    def __init__(self, setting, args, start="fork"):
        custash, more = SETTINGS[setting]
        env = {key: value for key, value in os.environ.items() if not key.startswith(("CUSTASH", "PYTORCH_", "LD_PRELOAD"))}
        env.update(CUBLAS_WORKSPACE_CONFIG=":4096:8", PYTHONDONTWRITEBYTECODE="1", PYTHONUNBUFFERED="1", **more)
        if custash:
            env["LD_PRELOAD"] = f"{args.build}/interpose/libcustash.so"
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.child = subprocess.Popen([sys.executable, *args.program, "--serve", "--gpus", str(args.gpus), "--steps", str(args.steps),
                                       "--lengths", args.lengths, "--start", start, *args.more], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=self.errors, text=True, start_new_session=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.child.stdout:
            self.lines.put(line)
        self.lines.put("")

    def hear(self, begins, seconds):
        """The next line that begins so; NCCL may print others."""
        until = time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(.01, until - time.monotonic()))
            except queue.Empty:
                raise Failed(f"no answer after {seconds:.0f} s{self.said()}") from None
            if not line:
                raise Failed(f"exit {self.child.wait()}{self.said()}")
            if line.startswith(begins):
                return line

    def train(self, way, seed):
        self.child.stdin.write(f"{way} {seed}\n")
        self.child.stdin.flush()
        return json.loads(self.hear("{", RUN_S))

    def said(self):
        self.errors.seek(0)
        return ": " + self.errors.read()[-1500:]

    def end(self):
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()


def measured(run):
    """What a run is judged by."""
    known = None not in run["device_mib"] and run["device_mib"]
    return {"ms": run["step_ms_mean"], "peak": max(run["device_mib"]) if known else 0, "end": max(run["end_mib"]) if known else 0}


def table(runs, way):
    """Rows of medians, ranges and comparisons with the first setting, for the rounds in which both ran."""
    first = next(iter(SETTINGS))
    rows = []
    for setting, mine in runs[way].items():
        row = [setting, str(len(mine))]
        for measure in MEASURES:
            values = [measured(run)[measure] for run in mine.values()]
            row += [f"{statistics.median(values):.1f}", f"{min(values):.1f}-{max(values):.1f}"] if values else ["-", "-"]
            both = [(measured(mine[seed])[measure], measured(theirs)[measure]) for seed, theirs in runs[way].get(first, {}).items() if seed in mine]
            ratios = [ours / theirs for ours, theirs in both if theirs]
            row.append(f"{statistics.median(ratios):.3f}, {sum(ratio > 1 for ratio in ratios)} of {len(ratios)}" if ratios and setting != first else "")
        rows.append(row)
    return rows


def losses_agree(runs, way):
    """Over all settings of a seed, but for the last digit: with three GPUs or more NCCL adds in an order of its choice."""
    worst = 0.0
    seeds = {seed for mine in runs[way].values() for seed in mine}
    for seed in seeds:
        of_each = [mine[seed]["losses"] for mine in runs[way].values() if seed in mine]
        worst = max([worst, *(abs(float(a) - float(b)) for other in of_each[1:] for a, b in zip(other, of_each[0]))])
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=os.path.abspath)
    parser.add_argument("--ways", nargs="*", choices=("ddp", "fsdp"), default=["ddp", "fsdp"])
    parser.add_argument("--only", nargs="*", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=8, help="no run begins later")
    parser.add_argument("--first-seed", type=int, default=1, help="a later call goes on with other lengths")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--lengths", choices=("same", "own"), default="same")
    parser.add_argument("--json", help="write all runs here")
    parser.add_argument("--program", nargs="*", default=[f"{HERE}/train_parallel.py"], help=argparse.SUPPRESS)
    parser.add_argument("--more", nargs=argparse.REMAINDER, default=[], help="for train_parallel.py")
    args = parser.parse_args()
    args.gpus = 2 if "--cpu" in args.more else gpu_count()
    if args.gpus < 2 or not installed("torch"):
        print(f"skip: there are {args.gpus} GPUs" if args.gpus < 2 else "skip: PyTorch is not installed")
        return 77
    until = time.monotonic() + 60 * args.minutes
    servers = {setting: Server(setting, args) for setting in args.only}
    runs = {way: {setting: {} for setting in args.only} for way in args.ways}
    failed = 0
    turns = [(seed, way, (args.only * 2)[seed % len(args.only):][:len(args.only)])
             for seed in range(args.first_seed, args.first_seed + args.rounds) for way in args.ways]
    try:
        for server in servers.values():
            server.hear("ready", START_S)
        for seed, way, setting in ((seed, way, setting) for seed, way, order in turns for setting in order):
            if time.monotonic() > until or failed > 5:
                break
            try:
                run = runs[way][setting][seed] = servers[setting].train(way, seed)
                print(f"round {seed} {way} {setting}: {run['step_ms_mean']:.1f} ms, peak {measured(run)['peak']:.0f} MiB, "
                      f"end {run['end_mib']}, {run['seconds']} s", flush=True)
            except (Failed, OSError, ValueError) as why:
                failed += 1
                print(f"FAIL round {seed} {way} {setting}: {why}", flush=True)
                servers[setting].end()
                servers[setting] = Server(setting, args, "spawn")  # slower, and surely right
                servers[setting].hear("ready", START_S)
            if args.json:
                with open(args.json, "w", encoding="utf-8") as out:
                    json.dump({"gpus": args.gpus, "steps": args.steps, "lengths": args.lengths, "runs": runs}, out)
    except Failed as why:
        failed += 1
        print(f"FAIL {why}", flush=True)
    finally:
        for server in servers.values():
            server.end()
    for way in args.ways:
        print(f"{way}, {args.gpus} GPUs, {args.steps} steps, {args.lengths} lengths; losses differ by {losses_agree(runs, way):.4f} at most")
        titles = [word for title in MEASURES.values() for word in (title, "range", "to own; above")]
        show(["", "rounds", *titles], table(runs, way))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
