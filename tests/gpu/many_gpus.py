# SPDX-License-Identifier: MIT
"""All GPUs of a machine, two at least, without custash and with it. A line for each check; each part has a time limit.

  many_gpus.py --build build [--only PART...] [--minutes 9] [--json FILE]

  pairs       memory that one process allocates on GPU I and another one opens on GPU J, for all ordered pairs
  limit       `limit` holds for each GPU by itself
  programs    the programs and conformance cases of several devices
  collectives NCCL: sums of all collectives, with its two kinds of memory and with registered buffers
  visible     one GPU for each rank by CUDA_VISIBLE_DEVICES, in another order
  job         torchrun: a report and a row of `custash top` for each rank; all ranks sleep, half of them wake, all go on
  harness     the tests of the harness

train_rounds.py compares memory and time of a training. Exit 1 where a check failed, 77 where all were skipped.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import limited
from same_frameworks import gpu_count, installed

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "process"))
import program  # noqa: E402
from actor import Actor  # noqa: E402

TOOLKIT = "/usr/local/cuda/lib64"
MIB, GIB = 1 << 20, 1 << 30
SIZES = (1000, 300_000, 5 * MIB, 70 * MIB)  # of a slab; large; of several pages
OUT_OF_MEMORY = 2
NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
JOBS = 3  # of ranks, at a time
ENOUGH = .8  # of what custash holds has to leave the device, and to come back
SKIPPED = 77


class Part:
    """What a part needs, and what it found."""

    def __init__(self, name, args):
        self.name, self.args = name, args
        self.gpus = args.gpus
        self.found, self.failed = {}, 0
        self.until = 0

    def say(self, right, what, more=""):
        self.failed += not right
        self.found[what] = {"right": bool(right), "said": str(more)}
        print(f"{'ok' if right else 'FAIL'} {self.name} {what} {more}".rstrip(), flush=True)

    def compare(self, right, what, more=""):
        """Without custash: what is wrong there is no fault."""
        self.found[what] = {"right": bool(right), "said": str(more)}
        print(f"{'right' if right else 'wrong'} {self.name} {what} {more}".rstrip(), flush=True)

    def left(self, most=600):
        return max(1, min(most, self.until - time.monotonic()))

    def ends(self, actors):
        """A timer that ends actors which do not answer when the part's time is over."""
        timer = threading.Timer(self.left(), lambda: [actor.process.kill() for actor in actors])
        timer.daemon = True
        timer.start()
        return timer

    def environment(self, custash, **more):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("CUSTASH", "PYTORCH_", "LD_PRELOAD"))}
        env.update(CUBLAS_WORKSPACE_CONFIG=":4096:8", PYTHONDONTWRITEBYTECODE="1")
        if custash:
            env["LD_PRELOAD"] = self.args.library
        return {**env, **more}


# ---- Processes of the driver's calls alone: they run over the simulator, too.

def pairs(part):
    simulated = {"CUSTASH_SIM": f"devices={part.gpus},memory=8g,machine={part.args.machine}"}
    for how, settings in (("bare", {"preload": False}), ("vmm", {"CUSTASH_CONF": "backing:vmm"}), ("whole", {"CUSTASH_CONF": "backing:whole"}),
                          ("driver", {"CUSTASH_CONF": "backing:driver"})):
        codes, wrong = [], []
        actors = [Actor(device=device, **simulated, **settings) for device in range(part.gpus)]
        late = part.ends(actors)
        try:
            for (i, a), (j, b) in itertools.permutations(enumerate(actors), 2):
                for value, size in enumerate(SIZES, 10 * i + j):
                    block = a.ok(f"alloc {size}")[0]
                    a.ok(f"fill {block} {value}")
                    a.ok("sync")
                    code, said = b.do(f"open {a.ok(f'export {block}')[0]} {size}")
                    codes.append(code)
                    if code == 0:
                        seen, other = b.ok(f"check {said[0]} {value}"), b.ok(f"check {said[0]} {value + 1}")
                        b.ok(f"fill {said[0]} {value + 100}")
                        b.ok("sync")
                        wrong += [(i, j, size)] if seen != ["0"] or other == ["0"] or a.ok(f"check {block} {value + 100}") != ["0"] else []
                        b.ok(f"close {said[0]}")
                    a.ok(f"free {block}")
                    again = a.ok(f"alloc {size}")[0]  # what was shared serves again
                    a.ok(f"fill {again} 7")
                    a.ok("sync")
                    wrong += [(i, j, size, "again")] if a.ok(f"check {again} 7") != ["0"] else []
                    a.ok(f"free {again}")
        except AssertionError as why:
            wrong.append(str(why))
        finally:
            late.cancel()
            for actor in actors:
                actor.__exit__()
        right = codes and not any(codes) and not wrong
        more = f"{len(codes)} opened by another GPU's process, codes {sorted(set(codes))}, wrong {wrong[:5]}"
        if how == "bare":
            part.compare(right, how, more)
        else:
            part.say(right, how, more)


def limit(part):
    most = GIB
    simulated = {"CUSTASH_SIM": f"devices={part.gpus},memory=8g,machine={part.args.machine}"}
    with Actor(CUSTASH_CONF=f"limit:{most >> 20}M", **simulated) as actor:
        late = part.ends([actor])
        for device in range(part.gpus):  # while those before hold theirs
            actor.ok(f"device {device}")
            got, code = [], 0
            while code == 0 and len(got) < 100:
                code, said = actor.do(f"alloc {64 * MIB}")
                got += said[:1] if code == 0 else []
            again = [actor.code(f"free {got[0]}"), actor.code(f"alloc {64 * MIB}")]
            part.say(code == OUT_OF_MEMORY and most // 2 <= len(got) * 64 * MIB <= most and again == [0, 0], f"device {device}",
                     f"{len(got) * 64} MiB of {most >> 20}, then code {code}, after a free {again}")
        late.cancel()


# ---- Existing programs.

def command(part, what, words, seconds, env=None):
    output, status, errors = limited.run(words, env or dict(os.environ), part.left(seconds))
    lines = (output + errors).strip().splitlines()
    if part.args.json:
        with open(f"{part.args.json}.txt", "a", encoding="utf-8") as file:
            file.write(f"== {part.name} {what}: exit {status}\n$ {' '.join(words)}\n{output}{errors}\n")
    if status == SKIPPED:
        print(f"skip {part.name} {what}: {' '.join(lines[-1:])}", flush=True)
        return
    part.say(status == 0, what, f"exit {status}: {' '.join(lines[-1:])[:300]}")
    if status != 0:
        print(*lines[-12:], sep="\n    ", flush=True)


def programs(part):
    build, library = part.args.build, part.args.library
    python, tests = sys.executable, os.path.dirname(HERE)
    run_all = [python, f"{HERE}/run_all.py", "--build", build, "--quick", "--only", "peers", "holes_peers"]
    reversed_gpus = ",".join(map(str, reversed(range(part.gpus))))
    command(part, "peers", run_all, 60)
    command(part, "peers_reversed", run_all, 60, dict(os.environ, CUDA_VISIBLE_DEVICES=reversed_gpus))
    cases = [f"{build}/tests/gpu/conformance_gpu_{name}" for name in ("static", "shared", "static_per_thread", "shared_per_thread")]
    command(part, "conformance", [python, f"{tests}/conformance/run.py", *filter(os.path.exists, cases), "--library", library, "--jobs", "4",
                                  "--only", "peers", "pools_own_exported"], 120,
            dict(os.environ, LD_LIBRARY_PATH=os.pathsep.join(filter(None, (TOOLKIT, os.environ.get("LD_LIBRARY_PATH"))))))
    command(part, "check_streams", [python, f"{HERE}/check_streams.py", "--build", build, "--only", "right_copy_between_devices"], 30)
    for name, more in (("museum_peers", ["--right", "1"]), ("museum_peer_streams", ["--check", "streams", "--right", "3"])):
        command(part, name, [python, f"{HERE}/museum.py", "--command", part.args.command, "--library", library, "--program",
                             f"{build}/tests/gpu/{name}_static", "--jobs", "8", *more], 90)


def harness(part):
    folder = f"{part.args.build}/tests/harness"
    for how, more in (("preloaded", ["--preload", part.args.library]), ("bare", [])):
        command(part, how, [sys.executable, f"{os.path.dirname(HERE)}/harness/run.py", "--runtime", TOOLKIT, *more, "--child",
                            f"{folder}/harness_child", "--suite", f"{folder}/harness_suite"], 150)


# ---- PyTorch, a process for each GPU.

class Ranks:
    """The ranks of many_gpus_ranks.py in a folder of their own, or what starts them."""

    def __init__(self, part, what, launcher=None, env=None, own=lambda rank: {}):
        self.folder = tempfile.TemporaryDirectory()
        self.part, self.log = part, open(f"{self.folder.name}/log", "w+", encoding="utf-8")
        script = [f"{HERE}/many_gpus_ranks.py", what, self.folder.name, *(["--cpu"] if part.args.cpu else [])]
        starts = [([*launcher, *script], env)] if launcher else [
            ([sys.executable, *script], {**env, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(part.gpus), **own(rank)})
            for rank in range(part.gpus)]
        self.running = [subprocess.Popen(words, env=each, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True, cwd=self.folder.name)
                        for words, each in starts]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        late = [process for process in self.running if process.poll() is None]
        for process in late:
            os.killpg(process.pid, signal.SIGTERM)  # torchrun ends its ranks
        for process in late:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                for group in self.groups(process.pid):
                    os.killpg(group, signal.SIGKILL)
                process.wait()
        self.log.close()
        self.folder.cleanup()

    def groups(self, first):
        """torchrun starts each rank in a session of its own."""
        found = {first}
        for pid in self.pids(False):
            try:
                found.add(os.getpgid(pid))
            except ProcessLookupError:
                pass
        return found

    def pids(self, wait, seconds=120):
        """Of the ranks that rest, in their order."""
        until, found = time.monotonic() + seconds, []
        while len(found) < self.part.gpus:
            found = []
            for path in (f"{self.folder.name}/ready.{rank}" for rank in range(self.part.gpus)):
                if os.path.exists(path):
                    with open(path, encoding="ascii") as file:
                        found.append(int(file.read()))
            if not wait or time.monotonic() > until or any(each.poll() for each in self.running):
                break
            time.sleep(0.05)
        return found

    def go(self):
        with open(f"{self.folder.name}/go", "w", encoding="ascii"):
            pass

    def result(self, seconds):
        """What each rank found, and what is wrong."""
        until = time.monotonic() + seconds
        try:
            codes = [process.wait(max(.1, until - time.monotonic())) for process in self.running]
        except subprocess.TimeoutExpired:
            return None, f"not over after {seconds:.0f} s: {self.said()}"
        if any(codes):
            return None, f"exit {codes}: {self.said()}"
        found = []
        for rank in range(self.part.gpus):
            with open(f"{self.folder.name}/found.{rank}", encoding="utf-8") as file:
                found.append(json.load(file))
        return found, ""

    def said(self):
        self.log.flush()
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return file.read()[-800:]

    def lines_with(self, word):
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return sum(word in line for line in file)


def collectives(part):
    """NCCL takes its own memory as CUDA's virtual memory (NCCL_CUMEM_ENABLE=1), or by cudaMalloc and IPC handles (0)."""
    hook = {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "1", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "REG"}
    ways = [(f"cumem_{cumem}", "collectives", {"NCCL_CUMEM_ENABLE": cumem}, NO_CACHE) for cumem in "01"]
    ways += [(f"cumem_{cumem}_own_cache", "collectives", {"NCCL_CUMEM_ENABLE": cumem}, {}) for cumem in "01"]
    ways += [(f"cumem_{cumem}_registered", "collectives", {"NCCL_CUMEM_ENABLE": cumem, **hook}, {}) for cumem in "01"]
    ways += [("pool_registered", "registered", {"NCCL_CUMEM_ENABLE": "1"}, {})]

    def one(way):
        name, what, env, cache, custash = way
        with Ranks(part, what, env=part.environment(custash, **env, **cache)) as ranks:
            found, wrong = ranks.result(part.left(90))
            return name, custash, found, wrong, ranks.lines_with("egister")

    together = [(*way, custash) for way in ways for custash in (False, True)]
    plain = {}
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for name, custash, found, wrong, registered in pool.map(one, together):
            right = found is not None and not any(each["wrong"] for each in found)
            more = f"{found[0]['checks']} checks a rank, {sum(e['wrong'] for e in found)} wrong, {registered} lines of registering" if found else wrong
            if not custash:
                plain[name] = right
                part.compare(right, f"{name}_bare", more)
            elif plain[name]:
                part.say(right, name, more)
            else:
                part.compare(right, name, f"wrong without custash, too: {more}")


def visible(part):
    order = list(range(part.gpus))[::-2] + list(range(part.gpus))[-2::-2]  # 3 1 2 0
    uuids = subprocess.run(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True,
                           check=False).stdout.split() if not part.args.cpu else []
    for custash, cache in ((False, {}), (True, NO_CACHE), (True, {})):
        with Ranks(part, "collectives", env=part.environment(custash, **cache),
                   own=lambda rank: {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": str(order[rank])}) as ranks:
            found, wrong = ranks.result(part.left(120))
        seen = [each.get("gpu", "") for each in found or []]
        right = found is not None and not any(each["wrong"] for each in found)
        right = right and all(uuids[gpu].endswith(mine) for gpu, mine in zip(order, seen) if uuids)
        part.say(right, f"{'custash' if custash else 'bare'}{'_no_cache' if cache else ''}",
                 wrong or f"order {order}, {found[0]['checks']} checks a rank")


def used_mib(part):
    if part.args.cpu:
        return [0] * part.gpus
    done = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def asked(part, *words):
    done = subprocess.run([part.args.command, *map(str, words)], capture_output=True, text=True, timeout=part.left(60), check=False,
                          env=part.environment(False))
    return done.returncode, (done.stdout + done.stderr).strip()


def rests(part, name, ranks, pids):
    """What the command says of a job that rests, and does to it."""
    _, text = asked(part, "top", "--once", "--json", "--delay", "0.2")
    rows = {each["pid"]: each for each in json.loads(text)["processes"]}
    print(asked(part, "top", "--once", "--delay", "0.2", "--sort", "rank")[1], flush=True)
    held = [sum(device["reserved_bytes"] for device in rows.get(pid, {"devices": []})["devices"]) >> 20 for pid in pids]
    part.say([rows.get(pid, {}).get("rank") for pid in pids] == list(range(part.gpus)) and (all(held) or part.args.cpu), f"{name}_top",
             f"ranks {[rows.get(pid, {}).get('rank') for pid in pids]}, reserved {held} MiB")
    stats = [asked(part, "stat", "--json", pid) for pid in pids]
    part.say(not any(code for code, _ in stats), f"{name}_stat", f"{[len(said.splitlines()) for _, said in stats]} devices a rank")
    awake = used_mib(part)
    start = time.monotonic()
    code, text = asked(part, "sleep", *pids)
    took = time.monotonic() - start
    asleep = used_mib(part)
    falls = [before - after for before, after in zip(awake, asleep)]
    part.say(code == 0 and all(fall >= ENOUGH * each for fall, each in zip(falls, held)), f"{name}_sleep",
             f"fell by {falls} MiB of {held} in {took:.1f} s: {' | '.join(text.splitlines()[:2])}")
    # What was cached was freed: only what sleeps returns.
    sleeping = {int(pid): int(mib) for pid, mib in re.findall(r"^(\d+): (\d+) MiB asleep", text, re.M)}
    slept = [sleeping.get(pid, 0) for pid in pids]
    half = pids[:part.gpus // 2]
    code, text = asked(part, "wake", *half)
    back = [now - before for now, before in zip(used_mib(part), asleep)]
    part.say(code == 0 and all(slept) and all(rise >= ENOUGH * each for rise, each in zip(back[:len(half)], slept)) and
             all(rise <= fall // 4 for rise, fall in zip(back[len(half):], falls[len(half):])), f"{name}_wake_half",
             f"rose by {back} MiB: {' | '.join(text.splitlines()[:2])}")


def job(part):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(part.gpus), "--master_addr", "127.0.0.1"]
    same = {"NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "4"}
    reference = None
    for number, (name, cache) in enumerate((("bare", {}), ("custash", NO_CACHE), ("custash_own_cache", {}), ("custash_cumem_0", {"NCCL_CUMEM_ENABLE": "0", **NO_CACHE}))):
        words = [*launcher, "--master_port", str(29531 + number), "--no_python"]
        if name != "bare":
            words += [part.args.command, "run", "--lib", part.args.library, "--record-history", "r%r.html", "--conf", "sleep_pinned:4G", "--"]
        with Ranks(part, "job", [*words, sys.executable], part.environment(False, **same, **cache)) as ranks:
            pids = ranks.pids(True, part.left(120))
            if len(pids) < part.gpus:
                part.say(False, name, f"only {len(pids)} ranks began: {ranks.said()}")
                continue
            if name != "bare":
                time.sleep(.5)
                rests(part, name, ranks, pids)
            ranks.go()
            found, wrong = ranks.result(part.left(120))
            reports = sorted(each for each in os.listdir(ranks.folder.name) if each.endswith(".html"))
        if found is None:
            part.say(False, name, wrong)
            continue
        losses = [each["losses"] for each in found]
        reference = reference or losses
        near = all(abs(float(a) - float(b)) < 1e-4 * abs(float(b)) for mine, theirs in zip(losses, reference) for a, b in zip(mine, theirs))
        part.say(near, f"{name}_losses", f"{'same to the last bit' if losses == reference else 'near'}, the last {losses[0][-1]}")
        if name != "bare":
            part.say(reports == [f"r{rank}.html" for rank in range(part.gpus)], f"{name}_reports", " ".join(reports))


# Name: seconds at most, what runs, whether it needs PyTorch.
PARTS = {
    "pairs": (90, pairs, False),
    "limit": (30, limit, False),
    "job": (240, job, True),
    "collectives": (240, collectives, True),
    "visible": (120, visible, True),
    "programs": (240, programs, False),
    "harness": (240, harness, False),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=os.path.abspath)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--minutes", type=float, default=9, help="for all parts together")
    parser.add_argument("--json", help="write what was found here; what programs print goes to FILE.txt")
    parser.add_argument("--driver", default="", help="folder of the simulated driver: for pairs and limit")
    parser.add_argument("--devices", type=int, default=4, help="devices of the simulator")
    parser.add_argument("--cpu", action="store_true", help="PyTorch without GPUs, to see that it works")
    args = parser.parse_args()
    args.library = f"{args.build}/interpose/libcustash.so"
    args.command = f"{args.build}/tools/custash"
    args.gpus = args.devices if args.driver or args.cpu else gpu_count()
    program.PATHS.library, program.PATHS.programs = args.library, f"{args.build}/tests/process"
    program.PATHS.driver = os.path.abspath(args.driver) if args.driver else ""
    if args.gpus < 2:
        print(f"skip: there are {args.gpus} GPUs")
        return SKIPPED
    found, ran, failed, until = {}, 0, 0, time.monotonic() + 60 * args.minutes
    with tempfile.NamedTemporaryFile(prefix="custash-machine-") as machine:
        args.machine = machine.name
        for name in args.only:
            seconds, work, torch = PARTS[name]
            if torch and not installed("torch"):
                print(f"skip {name}: PyTorch is not installed", flush=True)
                continue
            part, start = Part(name, args), time.monotonic()
            part.until = min(start + seconds, until)
            if start > until:
                part.say(False, "not begun", f"{args.minutes:g} minutes are over")
                failed += 1
                continue
            try:
                work(part)
            except Exception as why:  # the other parts still run
                part.say(False, "ended early", f"{type(why).__name__}: {why}")
            print(f"== {name}: {part.failed} of {len(part.found)} failed, {time.monotonic() - start:.0f} s", flush=True)
            ran, failed = ran + len(part.found), failed + part.failed
            found[name] = part.found
            if args.json:
                with open(args.json, "w", encoding="utf-8") as out:
                    json.dump(found, out, indent=1)
    return 1 if failed else 0 if ran else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
