# SPDX-License-Identifier: MIT
"""GPT-2 with random sequence lengths (train_parallel.py), on all GPUs by DDP and by FSDP, or on one: with PyTorch's own cache, with
expandable segments, and without a cache, under custash or not. The jobs stay, and train in turn, --steps in each round.

  train_rounds.py --build build [--ways ddp fsdp | one] [--only SETTING...] [--rounds 10] [--minutes 8] [--json FILE]

Round 0 warms up. Prints for each later round the mean ms of a step and the MiB that the fullest GPU held of the job, at most and at the
end. Then a table: medians, ranges, the median of the rounds' ratios to the first setting and its 95 % interval (of the signed-rank
test), and in how many rounds a setting was above. Exit 1 where a run failed, 77 without the GPUs.

While a job trains, the others hold what they held: what PyTorch's caches hold is known to PyTorch, and the rest belongs to custash, which
may release memory meanwhile. As each job trains only a part of the time, custash's `decay` is longer by as much.
"""
import argparse
import json
import math
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
from paired import interval
from same_frameworks import gpu_count, installed

HERE = os.path.dirname(os.path.abspath(__file__))
NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
# Name: whether custash is there, and the environment.
SETTINGS = {
    "own": (False, {}),
    "expandable": (False, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "custash": (True, NO_CACHE),
    "expandable_preloaded": (True, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "bare": (False, NO_CACHE),
}
USUAL = ("own", "expandable", "custash")
RUN_S = 90  # for one round of a job at most
DECAY_S = 10  # custash's own
START_S = 120
MEASURES = {"ms": "a step, ms", "peak": "peak, MiB", "end": "end, MiB"}


class Failed(Exception):
    pass


class Server:
    """train_parallel.py --serve: it has imported PyTorch, and trains for each request."""

    def __init__(self, way, setting, args):
        custash, more = SETTINGS[setting]
        env = {key: value for key, value in os.environ.items() if not key.startswith(("CUSTASH", "PYTORCH_", "LD_PRELOAD"))}
        env.update(CUBLAS_WORKSPACE_CONFIG=":4096:8", PYTHONDONTWRITEBYTECODE="1", PYTHONUNBUFFERED="1", **more)
        if custash:
            env.update(LD_PRELOAD=f"{args.build}/interpose/libcustash.so", CUSTASH_CONF=f"decay:{DECAY_S * len(args.only)}")
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.child = subprocess.Popen([sys.executable, *args.program, "--serve", "--way", way, "--gpus", str(args.gpus), "--steps",
                                       str(args.steps), "--lengths", args.lengths, "--start", "fork", *args.more], env=env,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, start_new_session=True)
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

    def train(self, seed):
        self.child.stdin.write(f"{seed}\n")
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


class Held:
    """The MiB that each job holds of each GPU."""

    def __init__(self):
        self.first, self.besides, self.now = None, {}, {}

    def of(self, setting, run):
        """(at most, at the end) of the fullest GPU in this round; 0 if NVML does not know."""
        if None in run["start_mib"] or not run["start_mib"]:
            return 0, 0
        self.first = self.first or run["start_mib"]
        most, end = ([then + each - first for then, each, first in zip(run["start_mib"], run[what], self.first)] for what in ("device_mib", "end_mib"))
        others = [sum(each) for each in zip(*self.now.values())] or [0] * len(end)
        if SETTINGS[setting][1] == NO_CACHE:  # all that is not the others'
            return max(a - b for a, b in zip(most, others)), max(a - b for a, b in zip(end, others))
        cached = run["reserved_mib"]
        if setting not in self.besides:  # contexts, modules, and what NCCL maps
            self.besides[setting] = [each - other - now for each, other, (_, now) in zip(end, others, cached)]
        self.now[setting] = [more + now for more, (_, now) in zip(self.besides[setting], cached)]
        return max(more + most for more, (most, _) in zip(self.besides[setting], cached)), max(self.now[setting])


def table(runs, way):
    """Rows of medians, ranges and comparisons with the first setting."""
    first = next(iter(runs[way]))
    rows = []
    for setting, mine in runs[way].items():
        row = [setting, str(len(mine))]
        for measure in MEASURES:
            values = [run[measure] for run in mine.values()]
            row += [f"{statistics.median(values):.1f}", f"{min(values):.1f}-{max(values):.1f}"] if values else ["-", "-"]
            theirs = runs[way].get(first, {})
            logs = [math.log(mine[seed][measure] / theirs[seed][measure]) for seed in mine if seed in theirs and theirs[seed][measure]]
            row.append("{:.3f} ({:.3f}-{:.3f})".format(*map(math.exp, interval(logs))) + f", {sum(each > 0 for each in logs)} of {len(logs)}"
                       if logs and setting != first else "")
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
    parser.add_argument("--ways", nargs="*", choices=("ddp", "fsdp", "one"), default=["ddp", "fsdp"])
    parser.add_argument("--only", nargs="*", choices=list(SETTINGS), default=USUAL,
                        help="one without PyTorch's cache at most, or its memory is not known")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=8, help="no run begins later; the ways share it")
    parser.add_argument("--first-seed", type=int, default=1, help="another call takes other lengths")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--lengths", choices=("same", "own"), default="same")
    parser.add_argument("--json", help="write all runs here")
    parser.add_argument("--program", nargs="*", default=[f"{HERE}/train_parallel.py"], help=argparse.SUPPRESS)
    parser.add_argument("--more", nargs=argparse.REMAINDER, default=[], help="for train_parallel.py")
    args = parser.parse_args()
    args.gpus = 2 if "--cpu" in args.more else gpu_count()
    if args.gpus < (1 if args.ways == ["one"] else 2) or not installed("torch"):
        print("skip: PyTorch is not installed" if args.gpus else f"skip: there are {args.gpus} GPUs")
        return 77
    runs = {way: {setting: {} for setting in args.only} for way in args.ways}
    minutes = args.minutes / len(args.ways)
    failed = sum(not rounds(way, runs, args, time.monotonic() + 60 * minutes) for way in args.ways)
    for way in args.ways:
        print(f"{way}, {1 if way == 'one' else args.gpus} GPUs, {args.steps} steps, {args.lengths} lengths; losses differ by {losses_agree(runs, way):.4f} at most")
        titles = [word for title in MEASURES.values() for word in (title, "range", f"to {args.only[0]}; above")]
        show(["", "rounds", *titles], table(runs, way))
    return 1 if failed else 0


def rounds(way, runs, args, until):
    """All rounds of one way, into `runs`: whether all answered."""
    servers = {setting: Server(way, setting, args) for setting in args.only}
    held = Held()
    try:
        for server in servers.values():
            server.hear("ready", START_S)
        for seed in range(args.first_seed - 1, args.first_seed + args.rounds):
            turns = args.only[seed % len(args.only):] + args.only[:seed % len(args.only)] if seed >= args.first_seed else args.only
            for setting in turns:
                if time.monotonic() > until:
                    return True
                run = servers[setting].train(seed)  # the others rest
                peak, end = held.of(setting, run)
                run.update(ms=run["step_ms_mean"], peak=peak, end=end)
                print(f"round {seed} {way} {setting}: {run['ms']:.1f} ms, peak {peak:.0f} MiB, end {end:.0f}, {run['seconds']} s", flush=True)
                if seed >= args.first_seed:
                    runs[way][setting][seed] = run
            if args.json:
                with open(args.json, "w", encoding="utf-8") as out:
                    json.dump({"gpus": args.gpus, "steps": args.steps, "lengths": args.lengths, "runs": runs}, out)
        return True
    except (Failed, OSError, ValueError) as why:
        print(f"FAIL {way}: {why}", flush=True)
        return False
    finally:
        for server in servers.values():
            server.end()


if __name__ == "__main__":
    sys.exit(main())
