# SPDX-License-Identifier: MIT
"""PyTorch's CUDA graphs: what their memory costs, and that it is theirs while they live.

  torch_graphs.py --library libcustash.so

evicted:  60 rounds, each with a graph of its own; the oldest of five goes. PyTorch has its own cache. The memory in use must not
          grow after ten rounds, and must be about that without custash.
backward: PyTorch without its cache, which custash makes possible. The backward pass, in a thread of its own, is captured and replayed
          while others allocate, fill and free memory of the same sizes. Each replay must give what the same step gives without a graph.

A line each. Exit 1 where one is wrong, 77 without PyTorch or a GPU.
"""
import argparse
import collections
import os
import subprocess
import sys

ROUNDS = 60
WARM = 10
SLACK = 256 << 20
PARTS = ("evicted", "backward")


def used(torch):
    free, total = torch.cuda.mem_get_info()
    return total - free


def capture(torch, model, size):
    """A graph of `model` that holds some 300 MB of activations, and the answer it writes."""
    x = torch.randn(size, 1024, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        out = model(x)
    return graph, out


def evicted(torch):
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        model(torch.randn(64, 1024, device="cuda"))
    torch.cuda.synchronize()
    kept, after = collections.deque(), []
    for number in range(ROUNDS):
        if len(kept) == 5:
            kept.popleft()
            torch.cuda.empty_cache()
        kept.append(capture(torch, model, 8192 + 64 * (number % 7)))
        kept[-1][0].replay()
        torch.cuda.synchronize()
        after.append(used(torch))
    grown = max(after[WARM:]) - max(after[:WARM])
    print("used", max(after) >> 20, "MiB grown", grown >> 20, "MiB", "right" if grown <= SLACK else "WRONG")


def backward(torch):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
    x = torch.randn(256, 512, device="cuda")

    def step():
        for each in model.parameters():
            each.grad = None
        model(x).square().mean().backward()
        return [each.grad for each in model.parameters()]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    wrong = 0
    for number in range(20):
        x.copy_(torch.randn(256, 512, device="cuda"))
        others = [torch.full((rows, 512), float("nan"), device="cuda") for rows in (256, 512, 1024, 2048) for _ in range(8)]
        del others
        graph.replay()
        # After an odd replay all is allocated anew, and must not be the graph's.
        again = [torch.full_like(each, float(number)) for each in captured for _ in range(4)]
        graph.replay()
        torch.cuda.synchronize()
        kept = [each.clone() for each in captured]
        grads = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
        wrong += sum(not torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(kept, grads))
        wrong += sum(not bool((each == number).all()) for each in again)
        del again
    print("wrong", wrong, "right" if wrong == 0 else "WRONG")


def run(part, library, **more):
    env = {**os.environ, **more}
    if library:
        env["LD_PRELOAD"] = library
    done = subprocess.run([sys.executable, __file__, "--part", part], env=env, capture_output=True, text=True, check=False)
    said = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr.strip()[-400:]
    print(part, "preloaded" if library else "bare", said, flush=True)
    return said if done.returncode == 0 else said + " WRONG"


def in_mib(said):
    return int(said.split()[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library")
    parser.add_argument("--part", choices=PARTS)
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("skip: PyTorch is not installed")
        return 77
    if not torch.cuda.is_available():
        print("skip: no GPU")
        return 77
    if args.part:
        {"evicted": evicted, "backward": backward}[args.part](torch)
        return 0
    bare, cached = run("evicted", None), run("evicted", args.library)
    answers = [bare, cached, run("backward", args.library, PYTORCH_NO_CUDA_MEMORY_CACHING="1")]
    wrong = any("WRONG" in each for each in answers)
    if not wrong and in_mib(cached) > in_mib(bare) * 5 // 4 + (SLACK >> 20):
        wrong = True
        print("with custash the graphs take more: WRONG")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
