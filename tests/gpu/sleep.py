# SPDX-License-Identifier: MIT
"""Sleep on a GPU: how fast device memory goes out and comes back, and that its contents stay.

  sleep.py --build build [--gib 24] [--sleeps 20] [--steps 80] [--only memory|command|training]

memory: a program fills N GiB, sleeps and is woken by its next memset, three times with pinned host memory
(the first time cold) and once with pageable memory. command: another process puts it to sleep and wakes it.
training: GPT-2 with deterministic algorithms; two runs without sleep, one that `custash sleep` stops at
random moments: the losses must be equal to the last bit (train_gpt2.py; needs PyTorch). NVML says what is
left on the device. Prints a line of JSON for each part. Exits with 0, with 1 where something is wrong, with 77
where there is no GPU.
"""

import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
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
        self.custash.custash_last_error_message.restype = ctypes.c_char_p
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

    def fill(self, at, value, size):
        self.check(self.driver.cuMemsetD8Async(ctypes.c_uint64(at), ctypes.c_ubyte(value), ctypes.c_size_t(size), None))

    def to_device(self, at, host, size):
        self.check(self.driver.cuMemcpyHtoD_v2(ctypes.c_uint64(at), host, ctypes.c_size_t(size)))

    def to_host(self, host, at, size):
        self.check(self.driver.cuMemcpyDtoH_v2(host, ctypes.c_uint64(at), ctypes.c_size_t(size)))

    def synchronize(self):
        self.check(self.driver.cuCtxSynchronize())

    def pinned(self, size):
        out = ctypes.c_void_p()
        self.check(self.driver.cuMemAllocHost_v2(ctypes.byref(out), ctypes.c_size_t(size)))
        return out


class Blocks:
    """Blocks of many sizes, each filled with a byte of its own, and with random bytes at its start."""

    def __init__(self, cuda, size):
        self.cuda, self.all = cuda, []
        rng = random.Random(1)
        self.buffer, self.pattern = cuda.pinned(PIECE), ctypes.create_string_buffer(PIECE)
        while size > 0:
            bytes_ = min(size, rng.choice((4096, 300_000, 3 * MIB, 40 * MIB, 700 * MIB)))
            head = rng.randbytes(min(bytes_, 65536))
            self.all.append((cuda.allocate(bytes_), bytes_, rng.randrange(256), head))
            size -= bytes_
        for at, bytes_, value, head in self.all:
            cuda.fill(at, value, bytes_)
            cuda.synchronize()
            cuda.to_device(at, head, len(head))

    def wrong(self):
        """How many blocks do not hold what they held."""
        libc, wrong = ctypes.CDLL(None), 0
        libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        for at, bytes_, value, head in self.all:
            ctypes.memset(self.pattern, value, min(bytes_, PIECE))
            for offset in range(0, bytes_, PIECE):
                size = min(PIECE, bytes_ - offset)
                ctypes.memmove(self.pattern, head, len(head)) if offset == 0 else None
                self.cuda.to_host(self.buffer, at + offset, size)
                if libc.memcmp(self.buffer, ctypes.addressof(self.pattern), size):
                    wrong += 1
                    break
                if offset == 0:
                    ctypes.memset(self.pattern, value, len(head))
        return wrong


def child(gib, rounds):
    try:
        cuda = Cuda()
    except (OSError, RuntimeError) as error:
        print(json.dumps({"skip": str(error)}), flush=True)
        return 77
    context_mib = used_mib()
    blocks = Blocks(cuda, int(gib * GIB))
    cuda.synchronize()
    print(json.dumps({"blocks": len(blocks.all), "context_mib": context_mib, "used_mib": used_mib()}), flush=True)
    for _ in range(rounds):
        start = time.perf_counter()
        status = cuda.custash.custash_sleep(0)
        out_ms = (time.perf_counter() - start) * 1000
        reason = cuda.custash.custash_last_error_message().decode() if status else ""
        left = used_mib()
        start = time.perf_counter()
        cuda.fill(blocks.all[-1][0], blocks.all[-1][2], 1)
        touch_ms = (time.perf_counter() - start) * 1000
        cuda.to_device(blocks.all[-1][0], blocks.all[-1][3], len(blocks.all[-1][3]))
        print(json.dumps({"status": status, "reason": reason, "out_ms": round(out_ms), "left_mib": left,
                          "in_ms": round(touch_ms), "used_mib": used_mib(), "wrong": blocks.wrong()}), flush=True)
    for line in sys.stdin:  # the parent's turn
        if line.strip() == "touch":
            start = time.perf_counter()
            cuda.fill(blocks.all[-1][0] + len(blocks.all[-1][3]), blocks.all[-1][2], 1) if blocks.all[-1][1] > 65536 else cuda.to_device(blocks.all[-1][0], blocks.all[-1][3], len(blocks.all[-1][3]))
            cuda.synchronize()
            print(json.dumps({"touch_ms": round((time.perf_counter() - start) * 1000, 1)}), flush=True)
        elif line.strip() == "check":
            print(json.dumps({"wrong": blocks.wrong()}), flush=True)
    return 0


# ---- The parts.

def environment(args, conf, **more):
    env = dict(os.environ, LD_PRELOAD=args.library, CUSTASH_CONF=conf, **more)
    return env


def start_child(args, gib, rounds, conf):
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), "--child", str(gib), str(rounds)],
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


def memory(args):
    good = True
    for conf, rounds in ((f"sleep_pinned:{int(args.gib * 1.1) + 1}G", 3), ("sleep_pinned:0", 2)):
        process = start_child(args, args.gib, rounds, conf)
        first = hear(process)
        results = [hear(process) for _ in range(rounds)]
        process.stdin.close()
        code = process.wait()
        print(json.dumps({"part": "memory", "gib": args.gib, "conf": conf, **first, "rounds": results, "exit": code}),
              flush=True)
        good &= code == 0 and all(each["status"] == 0 and each["wrong"] == 0 for each in results)
        if first["context_mib"] is not None:
            good &= all(each["left_mib"] <= first["context_mib"] + 64 for each in results)
    return good


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


def train(args, sleeps, own_cache):
    """(its answer, the sleeps' answers)."""
    more = {} if own_cache else {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    process = subprocess.Popen(
        [sys.executable, os.path.join(FOLDER, "train_gpt2.py"), "--steps", str(args.steps)],
        env=environment(args, "sleep_pinned:48G", **more), stdout=subprocess.PIPE, text=True)
    rng, said = random.Random(7), []
    while sleeps and process.poll() is None:
        time.sleep(rng.uniform(0.05, 0.6))
        done = subprocess.run([args.command, "sleep", str(process.pid)], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            sleeps -= 1
            said.append(done.stdout.strip().split(": ", 1)[-1])
    out = process.communicate()[0]
    if process.returncode == 77:
        return None, said
    if process.returncode:
        raise RuntimeError(f"train_gpt2.py: {process.returncode}: {out[-500:]}")
    return json.loads(out.strip().splitlines()[-1]), said


def training(args):
    good = True
    for own_cache in (False, True):
        runs = [train(args, 0, own_cache), train(args, args.sleeps, own_cache)]
        if runs[0][0] is None:
            print(json.dumps({"part": "training", "skip": "PyTorch is not installed, or sees no GPU"}))
            return True
        equal = runs[0][0]["losses"] == runs[1][0]["losses"]
        print(json.dumps({"part": "training", "own_cache": own_cache, "losses_equal": equal,
                          "sleeps": len(runs[1][1]), "first": runs[1][1][:1], "last": runs[1][1][-1:],
                          "loss": runs[0][0]["losses"][-1]}), flush=True)
        good &= equal and len(runs[1][1]) > 0
    return good


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--child":
        return child(float(sys.argv[2]), int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the folder of a build")
    parser.add_argument("--gib", type=float, default=24)
    parser.add_argument("--sleeps", type=int, default=20)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--only", choices=("memory", "command", "training"))
    args = parser.parse_args()
    args.library = os.path.abspath(os.path.join(args.build, "interpose", "libcustash.so"))
    args.command = os.path.abspath(os.path.join(args.build, "tools", "custash"))
    parts = [globals()[args.only]] if args.only else [memory, command, training]
    return 0 if all([part(args) for part in parts]) else 1


if __name__ == "__main__":
    sys.exit(main())
