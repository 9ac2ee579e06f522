# SPDX-License-Identifier: MIT
"""PyTorch's private pools with custash in place of PyTorch's allocator (custash.enable_pytorch): each part runs natively, with custash
preloaded and with custash opened late, and must give the same results to the last bit.

  torch_pools.py --library libcustash.so [--only PART …] [--test-cuda pytorch/test/test_cuda.py] [--json FILE]

pools:    memory stays with its torch.cuda.MemPool, two pools share nothing, a pool's end frees its memory
graphs:   captures that allocate and free; replays while others allocate and fill memory of the same sizes; the memory is freed
          with the graph
trees:    torch.compile(backend="cudagraphs"): graphs that share a pool, with checkpoints of it, and PyTorch's own assertions
reduced:  torch.compile(mode="reduce-overhead") of a small network: inference and training
torch's:  of PyTorch's own tests of pools and graphs, at least 99 % of those that pass natively pass with custash. PyTorch's packages
          do not bring them: --test-cuda names the file, from PyTorch's sources of the installed version

As a control, graphs also run with custash opened late and without its private pools, and must then be wrong.
Lines: `ok NAME …`, `FAIL NAME why`, `skip NAME why`. Exit status 1 if one failed, 77 if all were skipped.
"""
import argparse
import gc
import hashlib
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODULE = os.path.join(HERE, "../../tools/python")
MIB = 1 << 20
PARTS = ("pools", "graphs", "trees", "reduced")
CLASSES = ("TestMemPool", "TestBlockStateAbsorption", "TestCachingHostAllocatorCudaGraph", "TestCuda.test_graph",
           "TestCuda.test_cuda_graph", "TestCuda.test_graphsafe", "TestCuda.test_mempool")


# ---- Children. Each returns what must be the same, and what is wrong in itself.

def digest(tensor):
    return hashlib.sha256(tensor.detach().cpu().numpy().tobytes()).hexdigest()[:16]


def bytes_of(torch, size, value):
    """Filled by copies from the host, so that no kernel is needed."""
    return torch.empty(size, dtype=torch.uint8, device="cuda").copy_(torch.full((size,), value, dtype=torch.uint8))


def pools(torch):
    wrong, said = [], {}

    def expect(what, holds):
        said[what] = bool(holds)
        if not holds:
            wrong.append(what)

    def address(size):
        made = torch.empty(size, dtype=torch.uint8, device="cuda")
        return made.data_ptr(), made

    def holds(pool, pointer):
        return any(each["address"] <= pointer < each["address"] + each["total_size"] for each in pool.snapshot())

    one, two = torch.cuda.MemPool(), torch.cuda.MemPool()
    expect("ids differ", one.id != two.id)
    said["uses"] = one.use_count()
    with torch.cuda.use_mem_pool(one):
        said["uses within"] = one.use_count()
        first, kept = address(3 * MIB)
        del kept
        again, kept = address(3 * MIB)
        expect("memory is reused in the pool", first == again)
        small, small_kept = address(1000)
        with torch.cuda.use_mem_pool(two):
            other, other_kept = address(3 * MIB)
    expect("each pool has its own memory", holds(one, again) and holds(one, small) and holds(two, other) and not holds(one, other))
    del kept
    outside = [address(3 * MIB) for _ in range(30)]
    expect("nobody else gets it", not any(holds(one, each) or holds(two, each) for each, _ in outside))
    with torch.cuda.use_mem_pool(one):
        third, kept = address(3 * MIB)
    expect("it is reused later", third == first)
    side = torch.cuda.Stream()
    kept.record_stream(side)
    del kept, outside
    torch.cuda.synchronize()
    before = torch.cuda.memory_reserved()
    del one
    gc.collect()
    expect("a live block keeps its segment", small_kept.data_ptr() == small and bool((small_kept.cpu() == small_kept.cpu()).all()))
    del small_kept, other_kept, two
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    said["freed"] = torch.cuda.memory_reserved() < before
    expect("the end of the pools frees their memory", said["freed"])
    return said, wrong


def graphs(torch):
    wrong, said = [], {}
    size = 3 * MIB
    for number in range(4):
        x = bytes_of(torch, size, 1)
        out = bytes_of(torch, size, 0)
        late = bytes_of(torch, 5 * MIB, 7)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            a = x.clone()
            b = a.clone()
            del a  # the next may have its place
            c = b.clone()
            out.copy_(c)
            kept = c.clone()
        del b, c
        for value in (2, 3, 4):
            x.copy_(torch.full((size,), value, dtype=torch.uint8))
            others = [bytes_of(torch, size, 99) for _ in range(20)]
            with torch.cuda.stream(torch.cuda.graph.default_capture_stream):
                others += [bytes_of(torch, size, 99) for _ in range(20)]
            torch.cuda.synchronize()
            graph.replay()
            torch.cuda.synchronize()
            for name, each, expected in [("output", out, value), ("kept", kept, value), ("late", late, 7),
                                         *(("other", other, 99) for other in others)]:
                if not bool((each.cpu() == expected).all()):
                    wrong.append(f"{name} of replay {value} of graph {number}")
            del others
        said[f"graph {number}"] = [digest(out), digest(kept)]
        del kept, x, out, late
        graph.reset()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        said.setdefault("reserved", []).append(torch.cuda.memory_reserved())
    if max(said["reserved"]) - min(said["reserved"]) > 32 * MIB:
        wrong.append(f"memory after the graphs: {said['reserved']}")
    del said["reserved"]
    return said, wrong


def trees(torch):
    from torch._inductor.cudagraph_trees import get_container

    def step(x):
        a = x.clone()
        b = a.clone()
        torch._dynamo.graph_break()
        c = b.clone()
        return c, c.clone()

    def tail(x):
        return x.clone().clone()

    wrong, said = [], {"results": []}
    compiled, after = torch.compile(step, backend="cudagraphs"), torch.compile(tail, backend="cudagraphs")
    x = bytes_of(torch, MIB, 0)
    for number in range(10):
        x.copy_(torch.full((MIB,), number, dtype=torch.uint8))
        torch.compiler.cudagraph_mark_step_begin()
        first, second = compiled(x)
        results = [first, second]
        if number % 3 == 0:
            results.append(after(second))
        if number == 7:
            results += [after(first), after(results[-1])]
        said["results"].append([digest(each) for each in results])
        if any(not bool((each.cpu() == number).all()) for each in results):
            wrong.append(f"results of step {number}")
        del first, second, results
    said["checkpoints"] = get_container(0).tree_manager.debug_checkpointing_counter
    if said["checkpoints"] == 0:
        wrong.append("no pool was restored")
    return said, wrong


def reduced(torch):
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    compiled = torch.compile(model, mode="reduce-overhead")
    said = {"losses": [], "answers": []}
    for number in range(30):
        x = torch.randn(64 + 32 * (number % 3), 256, generator=torch.Generator().manual_seed(number)).cuda()
        torch.compiler.cudagraph_mark_step_begin()
        loss = compiled(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        said["losses"].append(repr(loss.item()))
    with torch.no_grad():
        for number in range(10):
            x = torch.randn(128, 256, generator=torch.Generator().manual_seed(number)).cuda()
            torch.compiler.cudagraph_mark_step_begin()
            said["answers"].append(digest(compiled(x)))
    return said, []


def child(part, how):
    import torch
    if how != "native":
        import custash
        from custash import _torch_pools
        if how == "poolless":
            _torch_pools.supported = lambda: False
        custash.enable_pytorch()
    said, wrong = {"pools": pools, "graphs": graphs, "trees": trees, "reduced": reduced}[part](torch)
    print(json.dumps({"said": said, "wrong": wrong}))


def torchs(path, how):
    """PyTorch's own tests, in this process."""
    import runpy
    if how != "native":
        import custash
        custash.enable_pytorch()
    sys.path.insert(0, os.path.dirname(path))
    sys.argv = [path, "-v", *(word for name in CLASSES for word in ("-k", name))]
    runpy.run_path(path, run_name="__main__")


# ---- The parent.

class Judge:
    def __init__(self, library, folder):
        self.library, self.folder, self.failed, self.ran, self.said = library, folder, 0, 0, {}

    def say(self, ok, name, what=""):
        self.ran += 1
        self.failed += not ok
        print(f"{'ok' if ok else 'FAIL'} {name} {what}".rstrip(), flush=True)

    def environment(self, how):
        env = {k: v for k, v in os.environ.items() if not k.startswith("CUSTASH_") or k.startswith("CUSTASH_SIM")}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [MODULE, env.get("PYTHONPATH")]))
        if how == "preloaded":
            env["LD_PRELOAD"] = ":".join(filter(None, [env.get("LD_PRELOAD"), self.library]))
        elif how != "native":
            env["CUSTASH_LIBRARY"] = self.library
        return env

    def start(self, how, *words, timeout=400):
        return subprocess.run([sys.executable, __file__, *words, how], env=self.environment(how), capture_output=True, text=True,
                              timeout=timeout, check=False)

    def child(self, part, how):
        done = self.start(how, "--child", part)
        if done.returncode:
            return {"said": None, "wrong": [f"exit {done.returncode}: {done.stderr.strip()[-600:]}"]}
        return json.loads(done.stdout.splitlines()[-1])

    def part(self, name):
        native = self.child(name, "native")
        if native["wrong"]:
            print(f"skip {name} wrong without custash: {native['wrong']}", flush=True)
            return
        for how in ("preloaded", "late"):
            mine = self.child(name, how)
            same = mine["said"] == native["said"]
            self.say(not mine["wrong"] and same, f"{name}_{how}",
                     "" if same and not mine["wrong"] else f"{mine['wrong']} {mine['said']} native: {native['said']}")
        if name == "graphs":
            control = self.child(name, "poolless")
            self.say(bool(control["wrong"]), "graphs_control", str(control["wrong"])[:160])

    def torchs(self, path):
        results = {}
        for how in ("native", "preloaded"):
            done = self.start(how, "--torchs", path, timeout=1500)
            results[how] = dict(re.findall(r"^(test_\w+ \(\S+\)).*? \.\.\. (ok|FAIL|ERROR|skipped)", done.stderr, re.M))
            with open(f"{self.folder}/torch_pools_{how}.txt", "w", encoding="utf-8") as file:
                file.write(done.stdout + done.stderr)
        passing = {name for name, result in results["native"].items() if result == "ok"}
        mine = {name for name in passing if results["preloaded"].get(name) == "ok"}
        self.said["torch's"] = {"native": sorted(passing), "not with custash": sorted(passing - mine)}
        if not passing:
            print("skip torch's no test passes without custash: see torch_pools_native.txt", flush=True)
            return
        self.say(100 * len(mine) >= 99 * len(passing), "torch's", f"{len(mine)} of {len(passing)}")
        for name in sorted(passing - mine):
            print(f"  {results['preloaded'].get(name, 'not run')} {name}", flush=True)


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(*sys.argv[2:4])
    if sys.argv[1:2] == ["--torchs"]:
        return torchs(*sys.argv[2:4])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, type=os.path.abspath)
    parser.add_argument("--only", nargs="*", default=PARTS)
    parser.add_argument("--test-cuda", type=os.path.abspath)
    parser.add_argument("--json")
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("skip: PyTorch is not installed")
        return 77
    if not torch.cuda.is_available():
        print("skip: no GPU")
        return 77
    judge = Judge(args.library, os.path.dirname(args.json or "") or ".")
    for name in args.only:
        judge.part(name)
    if args.test_cuda and os.path.exists(args.test_cuda):
        judge.torchs(args.test_cuda)
    else:
        print("skip torch's --test-cuda names no file")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(judge.said, file, indent=1)
    print(f"{judge.ran} checks, {judge.failed} failed")
    return 1 if judge.failed else 0 if judge.ran else 77


if __name__ == "__main__":
    sys.exit(main())
