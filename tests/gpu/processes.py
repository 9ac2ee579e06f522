# SPDX-License-Identifier: MIT
"""Several processes at a GPU: memory shared by handles, neighbours, PyTorch.

  python3 tests/gpu/processes.py --library libcustash.so --programs FOLDER_OF_ACTOR

Runs tests/process/ipc.py on the real driver (through custash on both backings; bare too, for comparison:
there small blocks share an allocation), lets one process use what another caches, and shares PyTorch's
tensors bare and preloaded, with its cache and without. The last line is the verdict.
"""
import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))

import program  # noqa: E402
from actor import Actor  # noqa: E402

MIB = 1 << 20

TORCH = """
import sys, torch, torch.multiprocessing as mp

def child(inbox, outbox):
    while (got := inbox.get()) is not None:
        outbox.put([float(t.double().sum()) for t in got])
        for t in got:
            t.add_(1)
        torch.cuda.synchronize()
        outbox.put("written")
        del got

if __name__ == "__main__":
    mp.set_start_method("spawn")
    inbox, outbox = mp.Queue(), mp.Queue()
    process = mp.Process(target=child, args=(inbox, outbox))
    process.start()
    for turn in range(5):
        tensors = [torch.full((n,), turn + 1.0, device="cuda") for n in (10, 1000, 300_000, 20_000_000)]
        part = tensors[3][1_000_000:2_000_000]
        torch.cuda.synchronize()
        inbox.put(tensors + [part])
        print(outbox.get(timeout=120), outbox.get(timeout=120), [float(t[0]) for t in tensors])
        del tensors, part
    inbox.put(None)
    process.join(60)
    print("child", process.exitcode)
"""


def torch_run(args, preload, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CUSTASH", "LD_PRELOAD", "PYTORCH"))}
    env.update(more)
    if preload:
        env["LD_PRELOAD"] = os.path.abspath(args.library)
    script = os.path.join(args.programs, "share_tensors.py")
    if not os.path.exists(script):
        with open(script, "w", encoding="utf-8") as file:
            file.write(TORCH)
    try:
        done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=100,
                              check=False)
    except subprocess.TimeoutExpired:
        return "did not end"
    return done.stdout + ("" if done.returncode == 0 else done.stderr[-1500:])


def torch_part(args):
    try:
        import torch  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        print("torch: not installed")
        return True
    fine = True
    # Without a cache of its own PyTorch shares nothing, bare neither.
    for name, more in (("its cache", {}), ("expandable segments", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})):
        bare, preloaded = (torch_run(args, preload, **more) for preload in (False, True))
        same = bare == preloaded
        # Where bare fails, there is nothing to be the same as.
        good = same or ("child 0" not in bare and "child 0" in preloaded)
        fine = fine and good
        print(f"torch, {name}: {'same as bare' if same else 'differs'}")
        if not same:
            print(f"--- bare\n{bare}\n--- preloaded\n{preloaded}")
    return fine


def neighbours():
    """A caches 70 % of what is free, B wants 60 %: given with neighbours, out of memory without."""
    results = []
    for backing in ("vmm", "driver"):
        for conf, wanted in (("neighbours:on", 0), ("neighbours:off", 2)):
            with Actor(CUSTASH_CONF=f"backing:{backing},{conf}") as first, \
                 Actor(CUSTASH_CONF=f"backing:{backing},{conf}") as second:
                free = int(first.ok("info")[0])
                first.ok(f"alloc {free * 7 // 10 // MIB * MIB}")
                first.ok("free 0")
                code = second.code(f"alloc {free * 6 // 10 // MIB * MIB}")
                results.append(code == wanted)
                print(f"neighbours, {backing}, {conf}: {code}, expected {wanted}")
    return all(results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--programs", required=True)
    args = parser.parse_args()
    program.PATHS.library = os.path.abspath(args.library)
    program.PATHS.programs = os.path.abspath(args.programs)
    probe = subprocess.run([os.path.join(args.programs, "actor")], input="quit\n", capture_output=True, text=True,
                           check=False)
    if probe.returncode == 77:
        print("no GPU")
        sys.exit(77)
    script = os.path.join(os.path.dirname(program.__file__), "ipc.py")
    verdict = {}
    for name in ("OnPages", "OnPlainMemory", "Bare"):
        done = subprocess.run([sys.executable, script, "--library", program.PATHS.library, "--programs",
                               program.PATHS.programs, "--only", name],
                              capture_output=True, text=True, timeout=500, check=False)
        print(f"=== {name}\n{done.stderr[-6000:]}", flush=True)
        verdict[name] = done.returncode == 0
    verdict["neighbours"] = neighbours()
    verdict["torch"] = torch_part(args)
    print(" ".join(f"{name}:{'ok' if fine else 'FAILED'}" for name, fine in verdict.items()))
    sys.exit(0 if all(fine for name, fine in verdict.items() if name != "Bare") else 1)


if __name__ == "__main__":
    main()
