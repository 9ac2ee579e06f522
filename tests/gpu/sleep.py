# SPDX-License-Identifier: MIT
"""Sleep on a GPU: how fast device memory goes out and comes back, and that its contents stay.

  sleep.py --build build [--gib 24] [--dir FOLDER] [--only pinned|pageable|file|command|deep|server|full]

pinned: a program fills N GiB with random bytes, sleeps and is woken by its next copy, three times with pinned host memory
(the first time cold: it makes that memory) and other bytes. pageable: twice with pageable memory. command: another process puts it to
sleep and wakes it. file: as pageable, into a file in --dir. deep: five of six blocks are freed, then a deep trim, sleep,
and new blocks, three times over. server: 64 GiB as a model server has them (10 GiB of random weights, a cleared cache of
54 GiB of which 4 are in use), with host memory that nothing has touched, sleep unchanged and after 1 and 4 GiB have
changed, with --conf. full: with the device full to the last 2 MiB, so that custash's own kernel may not find room, with
--conf. sleep_frameworks.py has programs that are stopped at random moments.

NVML says what is left on the device. standstill_ms is how long the gate was closed before the program slept. Prints a
line of JSON for each part. Exits with 0, with 1 where something is wrong, with 77 where there is no GPU.
"""

import argparse
import ctypes
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)
from device_memory import used_mib  # noqa: E402

GIB, MIB = 1 << 30, 1 << 20
PIECE = 256 * MIB  # so much is compared at once


# ---- The program that sleeps: `sleep.py --child GIB ROUNDS`, preloaded. Speaks with its parent in lines.

class Cuda:
    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.custash = ctypes.CDLL(None)
        self.check(self.driver.cuInit(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.check(self.driver.cuDeviceGet(ctypes.byref(device), 0))
        self.check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self.check(self.driver.cuCtxSetCurrent(context))

    @staticmethod
    def check(code):
        if code:
            raise RuntimeError(f"CUDA error {code}")

    def allocate(self, size):
        out = ctypes.c_uint64()
        self.check(self.driver.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t(size)))
        return out.value

    def free(self, at):
        self.check(self.driver.cuMemFree_v2(ctypes.c_uint64(at)))

    def fill(self, at, value, size):
        self.check(self.driver.cuMemsetD8Async(ctypes.c_uint64(at), ctypes.c_ubyte(value), ctypes.c_size_t(size), None))

    def to_device(self, at, host, size):
        self.check(self.driver.cuMemcpyHtoD_v2(ctypes.c_uint64(at), host, ctypes.c_size_t(size)))

    def to_host(self, host, at, size):
        self.check(self.driver.cuMemcpyDtoH_v2(host, ctypes.c_uint64(at), ctypes.c_size_t(size)))

    def why(self):
        """The reason of the last refusal of custash."""
        self.custash.custash_last_error_message.restype = ctypes.c_char_p
        return self.custash.custash_last_error_message().decode()

    def synchronize(self):
        self.check(self.driver.cuCtxSynchronize())

    def pinned(self, size):
        out = ctypes.c_void_p()
        self.check(self.driver.cuMemAllocHost_v2(ctypes.byref(out), ctypes.c_size_t(size)))
        return out


class Blocks:
    """Blocks of many sizes. Each holds a part of one random pattern, or zeros."""

    def __init__(self, cuda, size=0, sizes=(4096, 300_000, 3 * MIB, 40 * MIB, 700 * MIB)):
        self.cuda, self.sizes, self.rng, self.writes = cuda, sizes, random.Random(1), 0
        self.buffer, self.zeros = cuda.pinned(PIECE), ctypes.create_string_buffer(PIECE)
        self.pattern = ctypes.create_string_buffer(os.urandom(2 * PIECE))
        self.all = {}  # address: (bytes, where each piece of its contents stands here)
        self.grow(size)

    def add(self, bytes_):
        at = self.cuda.allocate(bytes_)
        self.all[at] = (bytes_, ctypes.addressof(self.zeros))
        return at

    def write(self, blocks):
        """Other contents."""
        for at in blocks:
            self.writes += 1
            bytes_, source = self.all[at][0], ctypes.addressof(self.pattern) + self.writes * 4096 % PIECE
            self.all[at] = (bytes_, source)
            for offset in range(0, bytes_, PIECE):
                ctypes.memmove(self.buffer, source, min(PIECE, bytes_ - offset))
                self.cuda.to_device(at + offset, self.buffer, min(PIECE, bytes_ - offset))

    def grow(self, size):
        new = []
        while size > 0:
            bytes_ = min(size, self.rng.choice(self.sizes))
            new.append(self.add(bytes_))
            size -= bytes_
        self.write(new)

    def shrink(self):
        """Frees five of six."""
        kept = self.rng.sample(list(self.all), len(self.all) // 6)
        for at in self.all.keys() - set(kept):
            self.cuda.free(at)
        self.all = {at: self.all[at] for at in kept}

    def touch(self):
        """A copy, which changes nothing."""
        at, (_, source) = next(reversed(self.all.items()))
        self.cuda.to_device(at, ctypes.c_void_p(source), 16)

    def wrong(self):
        """How many blocks do not hold what they held."""
        libc, wrong = ctypes.CDLL(None), 0
        libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        for at, (bytes_, source) in self.all.items():
            for offset in range(0, bytes_, PIECE):
                size = min(PIECE, bytes_ - offset)
                self.cuda.to_host(self.buffer, at + offset, size)
                if libc.memcmp(self.buffer, source, size):
                    wrong += 1
                    break
        return wrong


def cuda_or_exit():
    try:
        return Cuda()
    except (OSError, RuntimeError) as error:
        print(json.dumps({"skip": str(error)}), flush=True)
        sys.exit(77)


def once(cuda, touch):
    """Sleeps and is woken by `touch`."""
    start = time.perf_counter()
    status = cuda.custash.custash_sleep(0)
    out_ms = (time.perf_counter() - start) * 1000
    reason = cuda.why() if status else ""
    left = used_mib()
    start = time.perf_counter()
    touch()
    in_ms = (time.perf_counter() - start) * 1000
    return {"status": status, "reason": reason, "out_ms": round(out_ms), "left_mib": left, "in_ms": round(in_ms)}


def child(gib, rounds):
    cuda = cuda_or_exit()
    context_mib = used_mib()
    blocks = Blocks(cuda, int(gib * GIB))
    cuda.synchronize()
    print(json.dumps({"blocks": len(blocks.all), "context_mib": context_mib, "used_mib": used_mib()}), flush=True)
    for _ in range(rounds):
        print(json.dumps({**once(cuda, blocks.touch), "used_mib": used_mib(), "wrong": blocks.wrong()}), flush=True)
        blocks.write(list(blocks.all))
    for line in sys.stdin:  # the parent's turn
        if line.strip() == "touch":
            start = time.perf_counter()
            blocks.touch()
            print(json.dumps({"touch_ms": round((time.perf_counter() - start) * 1000, 1)}), flush=True)
        elif line.strip() == "check":
            print(json.dumps({"wrong": blocks.wrong()}), flush=True)
    return 0


def deep_child(gib, rounds):
    """Grows to N GiB, keeps a sixth, trims deeply and sleeps, and grows again: `sleep.py --deep-child GIB ROUNDS`."""
    cuda = cuda_or_exit()
    context_mib = used_mib()
    blocks = Blocks(cuda, int(gib * GIB), (4096, 300_000, MIB, 3 * MIB, 8 * MIB))
    for _ in range(rounds):
        peak = used_mib()
        blocks.shrink()
        cuda.synchronize()
        cuda.custash.custash_empty_cache(0)
        trimmed = used_mib()
        start = time.perf_counter()
        status = cuda.custash.custash_trim_deep(0)
        deep_ms = (time.perf_counter() - start) * 1000
        reason = cuda.why() if status else ""
        deep = used_mib()
        wrong = [blocks.wrong()]
        status = status or cuda.custash.custash_sleep(0)
        asleep = used_mib()
        wrong.append(blocks.wrong())
        alive = sum(bytes_ for bytes_, _ in blocks.all.values())
        blocks.grow(int(gib * GIB) - alive)
        wrong.append(blocks.wrong())
        print(json.dumps({"status": status, "reason": reason, "alive_mib": alive // MIB, "deep_ms": round(deep_ms),
                          **{key: value - (context_mib or 0) for key, value in
                             (("peak_mib", peak), ("trimmed_mib", trimmed), ("deep_mib", deep), ("asleep_mib", asleep))
                             if value is not None}, "wrong": sum(wrong)}), flush=True)
    return 0


def host_mib():
    """Of the whole machine."""
    with open("/proc/meminfo", encoding="utf-8") as info:
        fields = dict(line.split(":", 1) for line in info)
    return (int(fields["MemTotal"].split()[0]) - int(fields["MemAvailable"].split()[0])) // 1024


def server_child(*_):
    cuda = cuda_or_exit()
    blocks = Blocks(cuda)
    weights, cache = ([blocks.add(PIECE) for _ in range(gib * GIB // PIECE)] for gib in (10, 54))
    for at in cache:
        cuda.fill(at, 0, PIECE)
    blocks.write(weights + cache[:4 * GIB // PIECE])
    before = host_mib()
    for name, gib in (("first", 0), ("unchanged", 0), *(("1 GiB changed", 1), ("4 GiB changed", 4)) * 3):
        blocks.write(cache[:gib * GIB // PIECE])
        row = {"sleep": name, **once(cuda, blocks.touch), "host_mib": host_mib() - before}
        print(json.dumps({**row, "wrong": blocks.wrong() if name in ("first", "4 GiB changed") else 0}), flush=True)
    return 0


def full_child(_, rounds):
    cuda = cuda_or_exit()
    blocks = Blocks(cuda, GIB)
    for size in (PIECE, 16 * MIB, 2 * MIB):
        try:
            while True:
                cuda.fill(blocks.add(size), 0, size)
        except RuntimeError:
            cuda.synchronize()
    for _ in range(rounds):
        print(json.dumps({"used_mib": used_mib(), **once(cuda, blocks.touch), "wrong": blocks.wrong()}), flush=True)
    return 0


# ---- The parts.

def environment(args, conf, **more):
    env = dict(os.environ, LD_PRELOAD=args.library, CUSTASH_CONF=conf, **more)
    return env


def start_child(args, gib, rounds, conf, kind="--child"):
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), kind, str(gib), str(rounds)],
                            env=environment(args, conf), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def hear(process):
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the program has ended: {process.wait()}")
    answer = json.loads(line)
    if "skip" in answer:
        print("skip:", answer["skip"])
        sys.exit(77)
    return answer


def pinned(args):
    return sleeps(args, f"sleep_pinned:{int(args.gib * 1.1) + 1}G", 3, table_mib=args.gib * GIB / 4096 * 8 / MIB)  # the device's page table of pinned memory


def pageable(args):
    return sleeps(args, "sleep_pinned:0", 2)


def file(args):
    return sleeps(args, f"sleep_memory:0,sleep_dir:{args.dir}", 2)


def deep(args):
    process = start_child(args, args.gib, 3, "sleep_pinned:0", "--deep-child")
    results = [hear(process) for _ in range(3)]
    code = process.wait()
    print(json.dumps({"part": "deep", "gib": args.gib, "rounds": results, "exit": code}), flush=True)
    return code == 0 and all(each["status"] == 0 and each["wrong"] == 0 for each in results) and \
        all(each["deep_mib"] < each["trimmed_mib"] for each in results if "deep_mib" in each)


def server(args):
    return of_child(args, "server", 8)


def full(args):
    return of_child(args, "full", 2)


def of_child(args, part, rounds):
    process = start_child(args, 0, rounds, args.conf, f"--{part}-child")
    results = [hear(process) for _ in range(rounds)]
    process.stdin.close()
    code = process.wait()
    print(json.dumps({"part": part, "conf": args.conf, "rounds": results, "exit": code}), flush=True)
    return code == 0 and all(each["status"] == 0 and each["wrong"] == 0 for each in results)


def sleeps(args, conf, rounds, table_mib=0):
    with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8") as log:
        process = start_child(args, args.gib, rounds, f"{conf},log:info,log_file:{log.name}")
        first = hear(process)
        results = [hear(process) for _ in range(rounds)]
        process.stdin.close()
        code = process.wait()
        closed = re.findall(r"event=asleep .*standstill_ms=(\d+)", log.read())
    for result, ms in zip(results, closed if len(closed) == rounds else []):
        result["standstill_ms"] = int(ms)
    print(json.dumps({"gib": args.gib, "conf": conf, **first, "rounds": results, "exit": code}), flush=True)
    good = code == 0 and all(each["status"] == 0 and each["wrong"] == 0 for each in results)
    if first["context_mib"] is None:
        return good
    most = first["context_mib"] + 64 + table_mib
    return good and all(each["left_mib"] <= most for each in results)


def command(args):
    """Another process puts it to sleep; its own next call wakes it."""
    process = start_child(args, min(args.gib, 4), 0, "sleep_pinned:8G")
    hear(process)
    asked = [subprocess.run([args.command, verb, str(process.pid)], capture_output=True, text=True, check=False)
             for verb in ("sleep", "wake", "sleep")]
    left = used_mib()
    said = []
    for word in ("touch", "check"):
        process.stdin.write(word + "\n")
        process.stdin.flush()
        said.append(hear(process))
    process.stdin.close()
    code = process.wait()
    print(json.dumps({"part": "command", "said": [each.stdout.strip() or each.stderr.strip() for each in asked],
                      "left_mib": left, **said[0], **said[1], "exit": code}), flush=True)
    return code == 0 and all(each.returncode == 0 for each in asked) and said[1]["wrong"] == 0


def main():
    children = {f"--{each.__name__.replace('_', '-')}": each for each in (child, deep_child, server_child, full_child)}
    if len(sys.argv) == 4 and sys.argv[1] in children:
        return children[sys.argv[1]](float(sys.argv[2]), int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the folder of a build")
    parser.add_argument("--gib", type=float, default=24)
    parser.add_argument("--only", choices=("pinned", "pageable", "file", "command", "deep", "server", "full"))
    parser.add_argument("--conf", default="sleep_pinned:16G", help="the options of the parts server and full")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where a file of sleep is made")
    args = parser.parse_args()
    args.library = os.path.abspath(os.path.join(args.build, "interpose", "libcustash.so"))
    args.command = os.path.abspath(os.path.join(args.build, "tools", "custash"))
    parts = [globals()[args.only]] if args.only else [pinned, pageable, file, command, deep, server, full]
    return 0 if all([part(args) for part in parts]) else 1


if __name__ == "__main__":
    sys.exit(main())
