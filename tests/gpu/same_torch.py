# SPDX-License-Identifier: MIT
"""PyTorch's subtests of same_frameworks.py: its caches, graphs, processes and devices."""
from same_tests import test, torch_digest


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


# Not without PyTorch's cache: there bare PyTorch itself shares nothing (the receiver waits for ever).
test("torch", name="torch_shared_tensor")(share)
test("torch", name="torch_shared_tensor_expandable", env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})(share)


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
