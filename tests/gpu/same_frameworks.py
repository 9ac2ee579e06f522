# SPDX-License-Identifier: MIT
"""Frameworks as they are, bare and with custash preloaded: what each subtest says must be the same, bit by
bit. A line each, `name bare preloaded same|different`; a framework that is not installed, or too few GPUs,
is `skip`. Exit 1 when one differs or fails, 77 when all were skipped.

  same_frameworks.py --library libcustash.so [--only PREFIX...] [--conf KEY:VALUE,...] [--json FILE]
"""
import argparse
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

TESTS = {}


def test(needs, gpus=1, env=None, name=None):
    """A subtest: a function that prints what must be the same, run in a process of its own."""
    def register(function):
        TESTS[name or function.__name__] = (function, needs, gpus, env or {})
        return function
    return register


def digest(*arrays):
    """Of host bytes: equal only where every bit is."""
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(bytes(memoryview(array).cast("B")))
    return whole.hexdigest()[:16]


# ---- PyTorch ------------------------------------------------------------------------------------

def torch_digest(*tensors):
    return digest(*[t.detach().float().cpu().contiguous().numpy() for t in tensors])


def train():
    import torch
    torch.manual_seed(3)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    side = torch.cuda.Stream()
    for step in range(30):
        x = torch.randn(64 + 37 * (step % 7), 512, device="cuda")
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.default_stream())
            target = torch.roll(x, step, 1) * 0.5
            target.record_stream(torch.cuda.default_stream())
        torch.cuda.default_stream().wait_stream(side)
        loss = (model(x) - target).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if step % 5 == 0:
            print(f"loss {loss.item()!r}")
            del x, target, loss
    print("weights", torch_digest(*model.parameters()))
    torch.cuda.synchronize()


for _name, _env in {
    "torch_own_cache": {},
    "torch_expandable_segments": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "torch_malloc_async": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "torch_no_caching": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    "torch_launch_blocking": {"CUDA_LAUNCH_BLOCKING": "1"},
}.items():
    test("torch", env=_env, name=_name)(train)


def free_memory():
    """What PyTorch says of the device's memory follows its own frees."""
    import torch
    torch.ones(1, device="cuda")
    torch.cuda.empty_cache()
    before = torch.cuda.mem_get_info()
    x = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    x.fill_(1)
    during = torch.cuda.mem_get_info()
    print("total", before[1], "taken", before[0] - during[0] >= 256 << 20)
    del x
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    print("back", torch.cuda.mem_get_info()[0] == before[0])
    print("own", torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved())


test("torch", name="torch_mem_get_info")(free_memory)
test("torch", name="torch_mem_get_info_no_caching", env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})(free_memory)


@test("torch")
def torch_out_of_memory():
    import torch
    for _ in range(3):
        try:
            torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError as error:
            print(str(error).split(".")[0], "Tried to allocate" in str(error))
    x = torch.ones(1000, device="cuda")
    print(x.sum().item())


def graphs():
    import torch
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)).cuda()
    static = torch.randn(64, 256, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            model(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        out = model(static) * 2
    for i in range(5):
        static.copy_(torch.randn(64, 256, device="cuda"))
        noise = [torch.full((1 << 20,), float(i), device="cuda") for _ in range(8)]
        graph.replay()
        del noise
        print("replay", torch_digest(out))
    graph.reset()
    print("after", torch.ones(10, device="cuda").sum().item())


test("torch", name="torch_cuda_graph")(graphs)
test("torch", name="torch_cuda_graph_expandable",
     env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})(graphs)


@test("torch")
def torch_graphed_callables():
    import torch
    torch.manual_seed(7)
    one = torch.nn.Linear(128, 128).cuda()
    two = torch.nn.Linear(128, 128).cuda()
    x = torch.randn(32, 128, device="cuda", requires_grad=True)
    one, two = torch.cuda.make_graphed_callables((one, two), ((x,), (x,)))
    optimiser = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.1)
    for _ in range(5):
        data = torch.randn(32, 128, device="cuda")
        loss = two(torch.relu(one(data))).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        print("loss", repr(loss.item()))


@test("torch")
def torch_pinned_loader():
    import torch
    torch.manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(2000, 333), torch.arange(2000))
    total = torch.zeros(333, device="cuda", dtype=torch.float64)
    for x, y in torch.utils.data.DataLoader(data, batch_size=97, num_workers=2, pin_memory=True):
        total += (x.cuda(non_blocking=True) * y.cuda(non_blocking=True)[:, None]).sum(0)
    print("sum", torch_digest(total))


def give(queue, done):
    import torch
    for i in range(4):
        x = torch.arange(100_000 * (i + 1), device="cuda", dtype=torch.float32) + i
        part = x[1000:]  # at an offset
        torch.cuda.synchronize()
        queue.put((x, part))
        done.wait()
        done.clear()
        print("given", torch_digest(x))
    queue.put(None)
    done.wait()


def share():
    import torch
    import torch.multiprocessing as mp
    context = mp.get_context("spawn")
    queue, done = context.Queue(), context.Event()
    child = context.Process(target=give, args=(queue, done))
    child.start()
    while (pair := queue.get(timeout=60)) is not None:
        x, part = pair
        print("got", torch_digest(x, part))
        x.add_(1)
        torch.cuda.synchronize()
        del x, part, pair
        done.set()
    done.set()
    child.join(30)
    print("exit", child.exitcode)


test("torch", name="torch_shared_tensor")(share)
test("torch", name="torch_shared_tensor_no_caching", env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})(share)


def two_devices():
    import torch
    torch.manual_seed(2)
    x = torch.randn(1 << 20, device="cuda:0")
    y = x.to("cuda:1")
    y = y * 2 + torch.randn(1 << 20, device="cuda:1")
    x.copy_(y, non_blocking=True)
    rows = torch.randn(300, 500, device="cuda:1")
    back = rows.t().to("cuda:0")
    print("copies", torch_digest(x, y, back))
    parts = torch.nn.parallel.comm.broadcast(x, devices=[0, 1])
    total = torch.nn.parallel.comm.reduce_add([p.clone() for p in parts], destination=0)
    print("reduced", torch_digest(total))
    model = torch.nn.Linear(64, 64).to("cuda:0")
    loss = torch.nn.parallel.data_parallel(model, torch.randn(128, 64, device="cuda:0"), [0, 1]).square().mean()
    loss.backward()
    print("loss", repr(loss.item()), torch_digest(model.weight.grad))


test("torch", gpus=2, name="torch_two_devices")(two_devices)
test("torch", gpus=2, name="torch_two_devices_no_caching", env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})(two_devices)


def reduce_rank(rank, world, path):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="file://" + path, rank=rank, world_size=world,
                            device_id=torch.device("cuda", rank))
    torch.manual_seed(rank)
    for size in (1, 1000, 1 << 20, 5 << 20):
        x = torch.randint(0, 1000, (size,), device="cuda").float()
        dist.all_reduce(x)
        parts = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(parts, x)
        dist.broadcast(x, 0)
        if rank == 0:
            print("reduced", torch_digest(x, *parts))
    dist.barrier()
    dist.destroy_process_group()


def all_reduce():
    import torch
    import torch.multiprocessing as mp
    world = torch.cuda.device_count()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(reduce_rank, args=(world, os.path.join(folder, "meet")), nprocs=world)


test("torch", gpus=2, name="torch_nccl")(all_reduce)
test("torch", gpus=2, name="torch_nccl_no_caching", env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})(all_reduce)


# ---- CuPy ---------------------------------------------------------------------------------------

def cupy_work(pool=None):
    import cupy
    if pool is not None:
        cupy.cuda.set_allocator(pool())
    cupy.random.seed(4)
    a = cupy.random.rand(700, 300)
    for i in range(40):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            b = cupy.sort(a[:, : 50 + i].copy(), axis=0)
            stream.synchronize()
        a = a * 0.99 + b.mean()
    host = cupy.cuda.alloc_pinned_memory(a.nbytes)
    del host
    print("result", digest(cupy.asnumpy(a)))
    print("product", digest(cupy.asnumpy(a.astype("f8") @ a.T.astype("f8"))))


@test("cupy")
def cupy_own_pool():
    cupy_work()


@test("cupy")
def cupy_no_pool():
    import cupy
    cupy.cuda.set_pinned_memory_allocator(None)
    cupy_work(lambda: None)


@test("cupy")
def cupy_async_pool():
    import cupy
    cupy_work(lambda: cupy.cuda.MemoryAsyncPool().malloc)


@test("cupy")
def cupy_memory_figures():
    import cupy
    cupy.zeros(1)
    cupy.cuda.set_allocator(None)
    free = cupy.cuda.runtime.memGetInfo()[0]
    memory = cupy.cuda.alloc(64 << 20)
    print("taken", free - cupy.cuda.runtime.memGetInfo()[0] >= 64 << 20)
    del memory
    print("back", cupy.cuda.runtime.memGetInfo()[0] == free)
    pool = cupy.cuda.MemoryAsyncPool()
    pool.free_all_blocks()
    memory = pool.malloc(1 << 20)
    print("used", pool.used_bytes(), "free", pool.total_bytes() >= pool.used_bytes())
    del memory
    cupy.cuda.Stream.null.synchronize()
    print("used", pool.used_bytes())
    attributes = cupy.cuda.runtime.pointerGetAttributes(cupy.arange(1000)[10:].data.ptr)
    print("attributes", attributes.device, attributes.type)


# ---- JAX ----------------------------------------------------------------------------------------

def jax_work():
    import jax
    import jax.numpy as jnp
    import numpy

    @jax.jit
    def step(w, x):
        loss, grad = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(x @ w) - x) ** 2))(w)
        return loss, w - 0.1 * grad

    key = jax.random.PRNGKey(0)
    w = jax.random.normal(key, (256, 256)) * 0.05
    for i in range(10):
        x = jax.random.normal(jax.random.fold_in(key, i), (100 + 10 * (i % 3), 256))
        loss, w = step(w, x)
        print("loss", repr(float(loss)))
    print("weights", digest(numpy.asarray(w)))


_JAX = {"XLA_FLAGS": "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
for _name, _env in {
    "jax_default": {},
    "jax_platform": {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"},
    "jax_cuda_async": {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"},
}.items():
    test("jax", env={**_JAX, **_env}, name=_name)(jax_work)


# ---- Triton, Numba ------------------------------------------------------------------------------

@test("triton")
def triton_kernel():
    global tl, triton  # where the compiler looks for what a kernel names
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def scale(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n)
        tl.store(y + at, value * 3 + 1, mask=at < n)

    torch.manual_seed(0)
    for n in (1000, 100_000, 3_000_001):
        x = torch.randn(n, device="cuda")
        y = torch.empty_like(x)
        scale[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
        print(n, torch_digest(y))


@test("numba.cuda")
def numba_kernel():
    import numpy
    from numba import cuda

    @cuda.jit
    def add(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + 2 * y[i]

    for n in (100, 100_000, 2_000_000):
        x = numpy.arange(n, dtype=numpy.float32)
        stream = cuda.stream()
        pinned = cuda.pinned_array(n, dtype=numpy.float32)
        pinned[:] = x
        a = cuda.to_device(pinned, stream=stream)
        out = cuda.device_array_like(a, stream=stream)
        add[(n + 255) // 256, 256, stream](a, a, out)
        result = out.copy_to_host(stream=stream)
        stream.synchronize()
        del a, out
        print(n, digest(result))
    cuda.current_context().reset()
    print(digest(cuda.to_device(numpy.ones(10)).copy_to_host()))


# ---- Running ------------------------------------------------------------------------------------

def gpu_count():
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())


def installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def run(name, args, preload):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CUSTASH")}
    env.update({"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONDONTWRITEBYTECODE": "1", **TESTS[name][3]})
    if preload:
        env["LD_PRELOAD"] = os.path.abspath(args.library)
        if args.conf:
            env["CUSTASH_CONF"] = args.conf
    start = time.monotonic()
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--inside", name], env=env, text=True,
                              capture_output=True, timeout=args.timeout, errors="replace", check=False)
        result = {"exit": done.returncode, "said": done.stdout, "error": done.stderr[-3000:]}
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode(errors="replace") if late.stdout else ""
        result = {"exit": "timeout", "said": said, "error": ""}
    result["seconds"] = round(time.monotonic() - start, 1)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library")
    parser.add_argument("--only", nargs="*", default=[], help="subtests whose name begins so")
    parser.add_argument("--conf", help="CUSTASH_CONF of the preloaded runs")
    parser.add_argument("--json", help="write what was said here")
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        TESTS[args.inside][0]()
        return 0
    if not args.library or not os.path.exists(args.library):
        parser.error("--library names no file")
    gpus = gpu_count()
    results = {}
    bad = skipped = 0
    for name, (_, needs, wanted, _env) in TESTS.items():
        if args.only and not name.startswith(tuple(args.only)):
            continue
        if gpus < wanted or not installed(needs):
            print(f"{name} - - skip ({'GPUs' if gpus < wanted else needs})", flush=True)
            skipped += 1
            continue
        bare, preloaded = run(name, args, False), run(name, args, True)
        results[name] = {"bare": bare, "preloaded": preloaded}
        same = bare["said"] == preloaded["said"] and bare["exit"] == preloaded["exit"] == 0
        bad += not same

        def short(result):
            return f"exit={result['exit']},{digest(result['said'].encode())},{result['seconds']}s"
        print(f"{name} {short(bare)} {short(preloaded)} {'same' if same else 'different'}", flush=True)
        if not same:
            theirs, ours = bare["said"].splitlines(), preloaded["said"].splitlines()
            for i, (a, b) in enumerate(zip(theirs, ours)):
                if a != b:
                    print(f"    line {i + 1}: bare \"{a}\", preloaded \"{b}\"")
            for how, result in (("bare", bare), ("preloaded", preloaded)):
                if result["exit"] != 0:
                    print(f"    {how}: " + result["error"][-1500:].replace("\n", "\n    "))
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    print(f"{len(results)} subtests, {bad} different, {skipped} skipped")
    return 1 if bad else 0 if results else 77


if __name__ == "__main__":
    sys.exit(main())
