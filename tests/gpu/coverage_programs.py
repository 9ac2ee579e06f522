# SPDX-License-Identifier: MIT
"""Programs that get device memory by every way, without and with custash in turn (custash compare), in one table: how long
a turn took, the most device memory, and which share of the calls and bytes custash served. Loops that do as
RMM, CCCL, OpenCV, JAX and PyTorch do come with it; those frameworks themselves run where they are installed.

  coverage_programs.py --build build [--only NAME...] [--runs 5] [--turns 2000] [--json FILE]
                       [--driver FOLDER --runtime FOLDER of the simulated ones]

The spread of the runs without custash says what is noise. Exit 1 where a program failed or did something
else with custash, where custash served less than LEAST percent of the calls or bytes that it may serve, or where a
program that maps memory for itself held more than MOST times as much; 77 where all were skipped.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench"))
import peers  # noqa: E402

LEAST = 95
MOST = 1.02  # times the memory without custash, of programs that map for themselves

# Name: what runs (a loop of coverage_loops, or a function of this file and the module that it needs), its environment, custash's options.
PROGRAMS = {
    "plain": (("plain",), {}, ""),
    "opencv_like": (("pitched",), {}, ""),
    "rmm_like": (("pool",), {}, ""),
    "cccl_like": (("pool_small",), {}, ""),
    "jax_platform_like": (("handles",), {}, ""),
    "expandable_like": (("segments",), {}, ""),
    "cccl_pool": (("cccl", "nvidia"), {}, ""),
    "rmm_async": (("run_rmm", "rmm"), {}, ""),
    "jax_default": (("run_jax", "jax"), {}, ""),
    "jax_platform": (("run_jax", "jax"), {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, ""),
    "jax_cuda_async": (("run_jax", "jax"), {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}, ""),
    "torch": (("run_torch", "torch"), {}, ""),
    "torch_expandable": (("run_torch", "torch"), {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, ""),
    "cupy_no_pool": (("run_cupy", "cupy"), {"CUPY_NO_POOL": "1"}, ""),
    "numba": (("run_numba", "numba"), {}, ""),
    "thrust_no_pool": (("thrust", None), {"THRUST_NO_POOL": "1"}, ""),
    "inference_no_cache": (("run_inference", "torch"), {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, ""),
    "gpt2_no_cache": (("run_gpt2", "torch"), {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, ""),
    "torch_async": (("run_torch", "torch"), {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, ""),
}


# Variables that switch a program's own pool off. The last two are our own (run_cupy, thrust_turns.cu).
POOLS_OFF = ("PYTORCH_NO_CUDA_MEMORY_CACHING", "CUPY_NO_POOL", "THRUST_NO_POOL")


def timed(turns, turn):
    """Prints how long a turn took, without the first ones, which load code. With --windows again for each line of input."""
    for i in range(4):
        turn(i)
    if "--windows" in sys.argv:
        print("ready", flush=True)
        for _ in sys.stdin:
            window(turns, turn)
    else:
        window(turns, turn)


def window(turns, turn):
    begin = time.perf_counter()
    for i in range(turns):
        turn(i)
    print(f"turn: {(time.perf_counter() - begin) / turns * 1e6:.3f} us", flush=True)


def run_rmm(turns):
    import rmm
    pool = rmm.mr.CudaAsyncMemoryResource()
    rmm.mr.set_current_device_resource(pool)
    kept = []

    def turn(i):
        kept.append(rmm.DeviceBuffer(size=(1 + i * 11 % 128) << 15))
        kept[-1].copy_from_host(b"x" * 4096)
        if len(kept) == 8:
            kept.pop(0)
    timed(turns, turn)
    kept.clear()


def run_jax(turns):
    import jax
    import jax.numpy as jnp
    work = jax.jit(lambda x: jnp.sort(x @ x.T, axis=0) + 1)
    kept = []

    def turn(i):
        kept.append(work(jnp.full((256 * (1 + i % 4), 512), 1 + i % 3, jnp.float32)))
        if len(kept) == 4:
            kept.pop(0).block_until_ready()
    timed(turns, turn)
    print("sum", float(kept[-1].sum()))


def run_torch(turns):
    import torch
    kept = []

    def turn(i):
        kept.append(torch.full(((1 + i * 7 % 40) << 18,), i % 5, device="cuda", dtype=torch.float32) + 1)
        if len(kept) == 6:
            kept.pop(0)
        if i % 50 == 49:
            torch.cuda.empty_cache()
    timed(max(1, turns // 10), turn)
    torch.cuda.synchronize()
    print("sum", float(kept[-1].sum()))


def run_cupy(turns):
    """Elementwise work and matrix products; without pools each array is a cudaMalloc and a cudaFree."""
    import cupy
    if os.environ.get("CUPY_NO_POOL"):
        cupy.cuda.set_allocator(None)
        cupy.cuda.set_pinned_memory_allocator(None)
    random = cupy.random.RandomState(1)
    state = [random.standard_normal((768, 768), dtype=cupy.float32)]
    weights = random.standard_normal((768, 768), dtype=cupy.float32) / 28

    def turn(i):
        mixed = cupy.tanh(state[0] @ weights) * 0.5 + state[0]
        centred = mixed - mixed.mean(axis=1, keepdims=True)
        state[0] = centred / (cupy.abs(centred).max() + 1)
        if i % 10 == 9:
            cupy.cuda.Device().synchronize()
    timed(turns, turn)
    print("sum", float(state[0].sum()))


def run_numba(turns):
    import numpy
    from numba import cuda
    host, sums = numpy.arange(1 << 16, dtype=numpy.float64) % 7, []

    @cuda.jit
    def add(out, a, b):
        cuda.atomic.add(out, 0, a[cuda.grid(1)] * b[cuda.grid(1)])

    def turn(i):
        a, out = cuda.to_device(host + i % 3), cuda.to_device(numpy.zeros(1))
        b = cuda.device_array_like(a)
        b.copy_to_device(a)
        add[(1 << 16) // 256, 256](out, a, b)
        sums[:] = [out.copy_to_host()[0]]
    timed(turns, turn)
    print("sum", float(sums[0]))


def run_inference(turns):
    """A transformer over batches whose lengths repeat."""
    import torch
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(512, 8, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda().half().eval()
    last = []

    def turn(i):
        with torch.no_grad():
            last[:] = [model(torch.full((4, 64 + 37 * i % 448, 512), 0.01 * (1 + i % 7), device="cuda", dtype=torch.float16))]
        if i % 10 == 9:
            torch.cuda.synchronize()
    timed(turns, turn)
    print("sum", float(last[0].float().sum()))


def run_gpt2(turns):
    """Steps of a training, of the same lengths in each window."""
    import torch
    import train_gpt2
    train_gpt2.start_deterministic(1)
    model = train_gpt2.Gpt2(12, 768).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    last = []

    def turn(i):
        ids = torch.full((8, 65 + 191 * i % 960), i % 7, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        last[:] = [loss.item()]
    timed(max(2, turns // 100), turn)
    print("loss", repr(last[0]))


def missing_module(module, args):
    """A line that says so, or None."""
    try:
        found = importlib.util.find_spec(module) is not None
    except ImportError:
        found = False
    return None if found and not args.driver else f"{module} needs a GPU" if found else f"no {module} here"


def no_gpu(args):
    if args.driver or os.path.exists("/dev/nvidiactl"):
        return False
    print("skip: there is no GPU here")
    return True


def base_environment(args):
    base = {key: value for key, value in os.environ.items() if not key.startswith("CUSTASH") or key == "CUSTASH_SIM"}
    base["LD_LIBRARY_PATH"] = ":".join(filter(None, [args.driver, args.runtime, base.get("LD_LIBRARY_PATH"), "/usr/local/cuda/lib64"]))
    return base


def cccl_program(args):
    """The loop over CCCL's own pool, built where its headers and a compiler are found."""
    folders = [os.path.join(each, "cu13/include/cccl") for each in importlib.util.find_spec("nvidia").submodule_search_locations]
    include = next((each for each in folders if os.path.exists(f"{each}/cuda/memory_pool")), None)
    if include is None or peers.compiler() is None:
        return None
    program = os.path.join(args.folder, "cccl_pool")
    toolkit = peers.cuda_home()
    subprocess.run([peers.compiler(), "-std=c++20", "-O2", f"-I{include}", f"-I{toolkit}/include", f"{peers.HERE}/cccl_pool.cpp", "-o", program,
                    f"-L{toolkit}/lib64", "-lcudart_static", "-ldl", "-lrt", "-lpthread"], check=True)
    return program


def command_of(what, args):
    """The command line, or a line that says what is missing."""
    if len(what) == 1:
        forms = ("double",) if args.driver else ("static", "shared")
        program = next((each for each in ((f"{args.build}/tests/bench/coverage_loops_{form}") for form in forms)
                        if os.access(each, os.X_OK)), None)
        return ([program, what[0], str(args.turns)], None) if program else (None, "coverage_loops is not built")
    function, module = what
    if function == "thrust":
        program = f"{args.build}/tests/gpu/thrust_turns"
        usable = os.access(program, os.X_OK) and not args.driver
        return ([program, "--turns", str(args.turns)], None) if usable else (None, "thrust_turns is not built, or no GPU")
    missing = missing_module(module, args)
    if missing:
        return None, missing
    if function == "cccl":
        program = cccl_program(args)
        return ([program, str(args.turns)], None) if program else (None, "no CCCL with pools, or no compiler (pip install nvidia-cuda-cccl)")
    return [sys.executable, os.path.abspath(__file__), "--inside", function, "--turns", str(args.turns)], None


class Failed(Exception):
    pass


def run(command, env, seconds):
    try:
        return subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", timeout=seconds, check=False)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"not over after {seconds} s") from late


def compared(command, env, conf, args):
    words = [f"{args.build}/tools/custash", "compare", "--json", "--runs", str(args.runs), "--warmup", "1",
             "--timeout", str(args.timeout), "--lib", f"{args.build}/interpose/libcustash.so",
             "--metric", r"turn: ([0-9.]+) us", "--ignore", "^turn:"]
    done = run([*words, *(["--conf", conf] if conf else []), "--", *command], env, args.timeout * (2 * args.runs + 4))
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise Failed(f"compare: exit {done.returncode}: {(done.stdout + done.stderr)[-600:]}") from None
    if done.returncode != 0 or not report["same"]:
        raise Failed(f"not as without custash: {report['failure'] or report['output_differs'] or done.stderr[-600:]}")
    return report


def share_of(served):
    """Served and all calls that custash may serve, the shares in percent, and what the driver served."""
    def percent(part, whole):
        return 100 * part / whole if whole else 100.0
    return {"served": served["allocations"], "of": served["allocations_servable"],
            "calls": percent(served["allocations"], served["allocations_servable"]),
            "bytes": percent(served["requested_bytes"], served["requested_bytes_servable"]),
            "driver": ", ".join(f"{each['kind']} {each['allocations']} ({each['allocated_bytes'] / (1 << 20):.1f} MiB)"
                                for each in served["passed"])}


def row_of(report, name):
    return next((row for row in report["results"] if row["name"] == name or name == "metric" and row["unit"] == ""), None)


def ratio(row):
    return "-" if row is None else f"{row['ratio']['median']:.3f} ({row['ratio']['min']:.3f}-{row['ratio']['max']:.3f})"


def spread(side):
    return f"{(side['max'] - side['min']) / side['median'] * 100:.1f} %"


def cells(name, conf, report, share):
    turn = row_of(report, "metric")
    memory = row_of(report, "peak device memory")
    of = f"{share['served']} of {share['of']}" if share["of"] else "-"
    return [name, conf or "-", f"{turn['without']['median']:.1f}", f"{turn['with']['median']:.1f}", ratio(turn),
            f"{turn['with_custash']} (p = {turn['p']:.3f})", spread(turn["without"]),
            ratio(memory), of, f"{share['calls']:.1f} %" if share["of"] else "-",
            f"{share['bytes']:.1f} %" if share["of"] else "-", share["driver"] or "-"]


HEAD = ["program", "options", "without, us", "with, us", "without / with", "with custash", "spread without",
        "memory without / with", "served", "calls", "bytes", "by the driver"]


def show(head, rows):
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def verdict(name, report, share):
    if min(share["calls"], share["bytes"]) < LEAST:
        return "FAIL: too little served"
    memory = row_of(report, "peak device memory")
    maps = name.startswith("jax") or "expandable" in name
    return "FAIL: too much memory" if maps and memory and memory["ratio"]["median"] < 1 / MOST else "done"


def measured(args):
    """The rows of the table, and how many programs failed."""
    base = base_environment(args)
    rows, found, failed = [], {}, 0
    for name, (what, more, conf) in PROGRAMS.items():
        if args.only and name not in args.only:
            continue
        command, missing = command_of(what, args)
        if missing:
            print(f"{name}: skip: {missing}", flush=True)
            continue
        env = {**base, **more}
        try:
            report = compared(command, env, conf, args)
            share = share_of(report["served"])
        except Failed as why:
            print(f"{name}: FAIL: {why}", flush=True)
            failed += 1
            continue
        found[name] = {"conf": conf, "comparison": report, "share": share}
        rows.append(cells(name, conf, report, share))
        why = verdict(name, report, share)
        failed += why != "done"
        print(f"{name}: {why}", flush=True)
        if args.json:  # what there is, should the rest be cut off
            with open(args.json, "w", encoding="utf-8") as out:
                json.dump(found, out, indent=1)
    return rows, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=os.path.abspath)
    parser.add_argument("--only", nargs="*", default=[], help="programs of these names")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--timeout", type=float, default=120, help="seconds of one run")
    parser.add_argument("--json")
    parser.add_argument("--driver")
    parser.add_argument("--runtime")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--windows", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        globals()[args.inside](args.turns)
        return 0
    unknown = set(args.only) - PROGRAMS.keys()
    if unknown:
        parser.error(f"no program {' '.join(sorted(unknown))}: there are {' '.join(PROGRAMS)}")
    if no_gpu(args):
        return 77
    with tempfile.TemporaryDirectory() as args.folder:
        rows, failed = measured(args)
    show(HEAD, rows)
    return 1 if failed else 0 if rows else 77


if __name__ == "__main__":
    sys.exit(main())
