#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reports of real programs on a GPU: PyTorch training that Ctrl-C ends leaves its report, and a C++ program's
report names the line that leaks. Exit 77 where there is no GPU, PyTorch or nvcc for a part.

  reports.py --command build/tools/custash [--library build/interpose/libcustash.so]
"""
import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TRAINING = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
kept = []
def step():
    loss = model(torch.randn(256, 1024, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
def keep(loss):
    kept.append(torch.full((1 << 20,), float(loss), device="cuda"))
for n in range(1_000_000):
    keep(step())
    if n == 50:
        print("warm", flush=True)
"""
LEAKING = """
#include <cuda_runtime.h>
__attribute__((noinline)) void* leaking_cache(size_t bytes) {
  void* p = nullptr;
  cudaMalloc(&p, bytes);  // LEAK
  return p;
}
__attribute__((noinline)) void scratch() {
  void* p = nullptr;
  cudaMalloc(&p, 1 << 20);
  cudaFree(p);
}
int main() {
  for (int i = 0; i < 200; ++i) {
    leaking_cache(1 << 20);
    scratch();
  }
  return cudaDeviceSynchronize();
}
"""


def largest(path):
    """The frames of the call site that once held most, innermost first, and the most that it held."""
    with open(path, encoding="utf-8") as file:
        snapshot = json.load(file)
    history = snapshot["history"]
    site = max(history["sites"], key=lambda each: each["peak_bytes"])
    return [snapshot["frames"][number] for number in snapshot["stacks"][site["stack"]]], site["peak_bytes"]


def training(run, folder):
    report = os.path.join(folder, "training.json")
    script = os.path.join(folder, "train.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(TRAINING)
    with subprocess.Popen([*run, "--record-history", report, "--", sys.executable, script], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True,
                          env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}) as child:
        assert child.stdout.readline() == "warm\n", child.stderr.read()
        time.sleep(1)
        os.killpg(child.pid, signal.SIGINT)  # what a terminal does at Ctrl-C
        _, said = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in said and "training.json written" in said, said
    frames, held = largest(report)
    names = [frame["name"] for frame in frames]
    assert "keep" in names, names
    line = next(frame["line"] for frame in frames if frame["name"] == "keep")
    assert line == 1 + TRAINING[:TRAINING.index("kept.append")].count("\n"), line
    print(f"training: ended by Ctrl-C, exit {child.returncode}; {held / 2**20:.0f} MiB at most from keep, line {line}")
    print("   ", said.strip().splitlines()[-1])


def leaking(run, command, folder, runtime):
    source = os.path.join(folder, "leaking.cu")
    program = os.path.join(folder, f"leaking_{runtime}")
    with open(source, "w", encoding="utf-8") as file:
        file.write(LEAKING)
    subprocess.run(["nvcc", "-g", "-O1", "-cudart", runtime, source, "-o", program], check=True)
    report = program + ".json"
    done = subprocess.run([*run, "--leaks", "--record-history", report, "--", program], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done
    told = subprocess.run([command, "leaks", "--most", "3", report], capture_output=True, text=True, check=True).stdout
    expected = f"leaking.cu:{1 + LEAKING[:LEAKING.index('// LEAK')].count(chr(10))}"
    assert "leaking_cache" in told and expected in told and "200 MiB" in told, told
    print(f"leaking ({runtime} runtime):", told.strip().replace("\n", "\n    "))
    print("   at exit:", done.stderr.strip().replace("\n", "\n    "))


def has_libdw():
    try:
        ctypes.CDLL("libdw.so.1")
    except OSError:
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", required=True, type=os.path.abspath)
    parser.add_argument("--library", type=os.path.abspath)
    args = parser.parse_args()
    run = [args.command, "run", *(["--lib", args.library] if args.library else [])]
    missing = []
    with tempfile.TemporaryDirectory() as folder:
        torch = subprocess.run([sys.executable, "-c", "import torch; assert torch.cuda.is_available()"],
                               capture_output=True, check=False).returncode == 0
        if torch:
            training(run, folder)
        else:
            missing.append("PyTorch on a GPU")
        if not has_libdw():
            missing.append("libdw.so.1, which has the lines of native code")
        elif torch and shutil.which("nvcc"):
            for runtime in ("shared", "static"):
                leaking(run, args.command, folder, runtime)
        else:
            missing.append("nvcc and a GPU")
    if missing:
        print("skip: no", ", no ".join(missing))
        sys.exit(77)


main()
