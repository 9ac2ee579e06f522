# SPDX-License-Identifier: MIT
"""The entry points for Python frameworks on a GPU: each framework does the same work with memory of its own
and with custash's, in a process of its own, and must come to the same results to the last bit.

  frameworks.py --library build/interpose/libcustash.so [--only NAME …]

Lines: `ok NAME key=value …`, `FAIL NAME why`, `skip NAME why`. Exit status 1 when one failed, 77 when all were
skipped.
"""
import argparse
import importlib
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODULE = os.path.join(HERE, "../../tools/python")


# ---- What the child processes do. Each prints one line of JSON.

def child_torch(how):
    """A small network trained over two streams; statistics; running out."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch
    from torch import nn
    said = {}
    pool = None
    if how == "plugged":
        import custash
        custash.enable_pytorch()
    elif how == "pool":
        import custash
        pool = torch.cuda.MemPool(custash.pytorch_allocator().allocator())
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)

    def train():
        model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(),
                              nn.Linear(2048, 10)).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        side = torch.cuda.Stream()
        losses = []
        for step in range(60):
            rows = 64 + 37 * (step % 11)
            host = torch.randn(rows, 512, generator=torch.Generator().manual_seed(step)).pin_memory()
            with torch.cuda.stream(side):  # the batch comes on a stream of its own
                batch = host.cuda(non_blocking=True)
            torch.cuda.current_stream().wait_stream(side)
            batch.record_stream(torch.cuda.current_stream())
            labels = torch.arange(rows, device="cuda") % 10
            loss = nn.functional.cross_entropy(model(batch), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.detach())
            del batch
        return [repr(each.item()) for each in losses]

    if pool is None:
        said["losses"] = train()
    else:
        with torch.cuda.use_mem_pool(pool):
            said["losses"] = train()
        import custash
        said["reserved_by_custash"] = custash.max_memory_reserved()
        print(json.dumps(said))
        return
    kept = torch.ones(3_000_001, device="cuda")
    stats = torch.cuda.memory_stats()
    said["keys"] = sorted(stats)
    said["requested"] = stats["requested_bytes.all.current"]
    said["libraries"] = 0
    if how == "plugged" and os.environ.get("LD_PRELOAD"):  # cuBLAS's own cudaMalloc is served and counted too
        said["libraries"] = sum(each["in_use_requested_bytes"] for each in json.loads(custash.statistics_json())["callers"]
                                if "cublas" in each["module"])
    said["allocated"] = torch.cuda.memory_allocated()
    said["reserved"] = torch.cuda.memory_reserved()
    said["peak"] = torch.cuda.max_memory_allocated()
    said["summary"] = "Allocated memory" in torch.cuda.memory_summary()
    try:
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        said["full"] = str(error)[:60]
    said["after"] = kept.sum().item()  # the next kernel runs: nothing was broken
    del kept
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    said["reserved_after"] = torch.cuda.memory_reserved()
    print(json.dumps(said))


def child_cupy(how):
    import zlib

    import cupy
    if how != "own":
        import custash
        custash.enable_cupy()
    random = cupy.random.RandomState(1)
    state = random.standard_normal((512, 512), dtype=cupy.float32)
    weights = random.standard_normal((512, 512), dtype=cupy.float32) / 23
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    for i in range(300):
        stream = streams[i % 3]
        with stream:
            mixed = cupy.tanh(state @ weights) * 0.5 + state
            mixed -= mixed.mean(axis=1, keepdims=True)
            state = mixed / (cupy.abs(mixed).max() + 1)
            ready = stream.record()
        streams[(i + 1) % 3].wait_event(ready)
    cupy.cuda.Device().synchronize()
    said = {"checksum": zlib.crc32(cupy.asnumpy(state).tobytes())}
    if how != "own":
        said["allocations"] = custash.memory_stats()["allocation.all.allocated"]
        said["pool"] = cupy.get_default_memory_pool().total_bytes()
    print(json.dumps(said))


def child_numba(how):
    import numpy
    if how != "own":
        import custash
        custash.enable_numba()
    from numba import cuda

    @cuda.jit
    def step(source, target):
        i = cuda.grid(1)
        if i < source.size:
            target[i] = source[i] * numpy.float32(0.5) + numpy.float32(i % 7)
    values = cuda.to_device(numpy.arange(1 << 20, dtype=numpy.float32))
    for _ in range(100):
        target = cuda.device_array_like(values)
        step[(1 << 20) // 256, 256](values, target)
        values = target
    said = {"sum": repr(float(values.copy_to_host().sum(dtype=numpy.float64)))}
    free, total = cuda.current_context().get_memory_info()
    said["sane"] = 0 < free < total
    if how != "own":
        said["allocations"] = custash.memory_stats()["allocation.all.allocated"]
    print(json.dumps(said))


def child_rmm(how):
    import zlib

    import rmm
    if how != "own":
        import custash
        rmm.mr.set_current_device_resource(custash.rmm_resource())
    host = bytes(range(256)) * 4096
    buffers = [rmm.DeviceBuffer.to_device(host[i:]) for i in range(200)]
    for i in range(0, 200, 2):
        buffers[i].resize(buffers[i].size + (i << 10))
    said = {"checksum": zlib.crc32(b"".join(each.tobytes()[:1000] for each in buffers))}
    if how != "own":
        said["allocations"] = custash.memory_stats()["allocation.all.allocated"]
    print(json.dumps(said))


def child_hold():
    """Holds memory for `custash top` until its standard input ends."""
    import torch
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    print("ready", flush=True)
    size = sys.stdin.readline()
    held = torch.empty(int(size), dtype=torch.uint8, device="cuda")  # no kernel, whose code would take memory
    print("holds", held.numel(), flush=True)
    sys.stdin.read()


CHILDREN = {"torch": child_torch, "cupy": child_cupy, "numba": child_numba, "rmm": child_rmm}
MODULES = {"numba": "numba.cuda.cudaimpl"}  # what a kernel needs, too: NumPy may be too new for it


def child(name, how):
    try:
        importlib.import_module(MODULES.get(name, name))
    except Exception as why:  # not there, or not with what else is there
        print(json.dumps({"cannot": f"{type(why).__name__}: {str(why).splitlines()[0]}"}))
        return
    CHILDREN[name](how)


# ---- The parent.

class Judge:
    def __init__(self, library, command):
        self.library, self.command = library, command
        self.failed, self.ran = 0, 0

    def say(self, ok, name, what=""):
        self.ran += 1
        self.failed += not ok
        print(f"{'ok' if ok else 'FAIL'} {name} {what}".rstrip(), flush=True)

    def environment(self, preload, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith("CUSTASH")}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [MODULE, env.get("PYTHONPATH")]))
        if preload:
            env.update(LD_PRELOAD=self.library, CUSTASH_CONF="stats:detailed")
        else:
            env["CUSTASH_LIBRARY"] = self.library
        return {**env, **more}

    def child(self, name, how, preload=False):
        """What a child says; None, and a line, where it cannot run or fails."""
        done = subprocess.run([sys.executable, __file__, "--child", name, how], env=self.environment(preload),
                              capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            self.say(False, f"{name}_{how}", f"exit={done.returncode} {done.stderr[-1500:]}")
            return None
        said = json.loads(done.stdout.splitlines()[-1])
        if "cannot" in said:
            print(f"skip {name}_{how} {said['cannot']}", flush=True)
            return None
        return said

    def same(self, name, key, ways):
        own = self.child(name, "own")
        if own is None:
            return
        for how, preload in ways:
            label = f"{name}_{how}{'_preloaded' if preload else ''}"
            said = self.child(name, how, preload)
            if said is None:
                continue
            self.say(said[key] == own[key], f"{label}_results", f"{key}={str(said[key])[-40:]}")
            yield label, own, said

    def torch(self):
        ways = [("plugged", False), ("plugged", True), ("pool", False), ("own", True)]
        for label, own, said in self.same("torch", "losses", ways):
            if "pool" in label:
                self.say(said["reserved_by_custash"] > 10 << 20, f"{label}_served",
                         f"reserved={said['reserved_by_custash']}")
            if "plugged" not in label:
                continue
            missing = sorted(set(own["keys"]) - set(said["keys"]))
            self.say(not missing, f"{label}_keys", f"missing={missing}")
            self.say(said["requested"] - said["libraries"] == own["requested"], f"{label}_requested_bytes",
                     f"own={own['requested']} custash={said['requested']} of_cublas={said['libraries']}")
            self.say(0 < said["allocated"] <= said["peak"] and said["allocated"] <= said["reserved"],
                     f"{label}_numbers", f"allocated={said['allocated']} reserved={said['reserved']}")
            self.say(said["full"].startswith("CUDA out of memory. ") and said["after"] == own["after"],
                     f"{label}_out_of_memory", repr(said["full"]))
            self.say(said["summary"], f"{label}_summary")
            self.say(said["reserved_after"] < said["reserved"], f"{label}_empty_cache",
                     f"before={said['reserved']} after={said['reserved_after']}")

    def cupy(self):
        for label, _, said in self.same("cupy", "checksum", [("plugged", False), ("plugged", True)]):
            self.say(said["allocations"] > 1000 and said["pool"] == 0, f"{label}_served",
                     f"allocations={said['allocations']} own_pool={said['pool']}")

    def numba(self):
        for label, own, said in self.same("numba", "sum", [("plugged", False), ("plugged", True)]):
            self.say(said["allocations"] > 100 and said["sane"] and own["sane"], f"{label}_served",
                     f"allocations={said['allocations']}")

    def rmm(self):
        for label, _, said in self.same("rmm", "checksum", [("plugged", False), ("plugged", True)]):
            self.say(said["allocations"] > 200, f"{label}_served", f"allocations={said['allocations']}")

    def used_mib(self):
        """Of the first device, as nvidia-smi says."""
        done = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, check=True)
        return int(done.stdout.split()[0])

    def top(self):
        """Two processes: what custash top says of them, and what nvidia-smi sees their memory grow by."""
        env = self.environment(True, PYTORCH_NO_CUDA_MEMORY_CACHING="1")
        sizes = [3 << 30, (1 << 30) + 12345678]
        holders = [subprocess.Popen([sys.executable, __file__, "--hold"], env=env, stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True) for _ in sizes]
        try:
            if any(not each.stdout.readline().startswith("ready") for each in holders):
                print("skip top PyTorch does not run", flush=True)
                return
            before, held_before = self.used_mib(), self.look(holders)
            for each, size in zip(holders, sizes):
                each.stdin.write(f"{size}\n")
                each.stdin.flush()
            for each in holders:
                each.stdout.readline()
            after, held = self.used_mib(), self.look(holders)
            grown = [(new["reserved_bytes"] - old["reserved_bytes"]) >> 20 for new, old in zip(held, held_before)]
            self.say(all(new["allocated_bytes"] >= size for new, size in zip(held, sizes)), "top_in_use",
                     f"in_use={[each['allocated_bytes'] for each in held]}")
            self.say(abs(after - before - sum(grown)) <= 4, "top_agrees_with_nvidia_smi",
                     f"nvidia_smi_mib={after - before} reserved_mib={sum(grown)}")
            print(subprocess.run([self.command, "top", "--once", "--delay", "0.2"], capture_output=True, text=True,
                                 check=False).stdout, flush=True)
            freed = subprocess.run([self.command, "trim", str(holders[0].pid)], capture_output=True, text=True,
                                   check=False)
            self.say(freed.returncode == 0, "trim", freed.stdout.strip() + freed.stderr.strip())
        finally:
            for each in holders:
                each.communicate()

    def look(self, holders):
        done = subprocess.run([self.command, "top", "--once", "--json", "--delay", "0.1"], capture_output=True, text=True,
                              check=True)
        seen = {each["pid"]: each for each in json.loads(done.stdout)["processes"]}
        return [seen[each.pid]["devices"][0] for each in holders]


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], sys.argv[3])
    if sys.argv[1:2] == ["--hold"]:
        return child_hold()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, type=os.path.abspath)
    parser.add_argument("--command", type=os.path.abspath, help="custash; default: beside the library's build")
    parser.add_argument("--only", nargs="*", default=["torch", "cupy", "numba", "rmm", "top"])
    args = parser.parse_args()
    if not os.path.exists("/dev/nvidiactl"):
        print("skip: there is no GPU here")
        return 77
    command = args.command or os.path.join(os.path.dirname(args.library), "../tools/custash")
    judge = Judge(args.library, command)
    for name in args.only:
        getattr(judge, name)()
    print(f"{judge.ran} checks, {judge.failed} failed")
    return 1 if judge.failed else 0 if judge.ran else 77


if __name__ == "__main__":
    sys.exit(main())
