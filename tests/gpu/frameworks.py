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
    def __init__(self, library):
        self.library, self.failed, self.ran = library, 0, 0

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


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, type=os.path.abspath)
    parser.add_argument("--only", nargs="*", default=["torch", "cupy", "numba", "rmm"])
    args = parser.parse_args()
    if not os.path.exists("/dev/nvidiactl"):
        print("skip: there is no GPU here")
        return 77
    judge = Judge(args.library)
    for name in args.only:
        getattr(judge, name)()
    print(f"{judge.ran} checks, {judge.failed} failed")
    return 1 if judge.failed else 0 if judge.ran else 77


if __name__ == "__main__":
    sys.exit(main())
