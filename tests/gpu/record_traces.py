# SPDX-License-Identifier: MIT
"""Records the traces of tests/traces on a GPU: programs of kinds that differ in how they use memory, each
in a process of its own under `custash run --record`, with the framework's own cache off so that every
allocation shows. Prints `ok NAME events=... bytes=...`; exit 1 when one fails, 77 when none can run.

  record_traces.py --command build/tools/custash --out FOLDER [--only NAME ...]

serving    PyTorch: a decoder that serves requests as they come; each has a cache that grows by a token a step
diffusion  PyTorch: images of several sizes by a U-Net with attention
frames     CuPy, pools off: tables that are sorted, joined, filtered and grouped
streams    CuPy on cudaMallocAsync: four pipelines that hand arrays to each other

Long ones, all PyTorch, of 500 steps and more:

chat       a server whose caches grow in place by pieces; requests wait, run and end
experts    training of a mixture of experts, whose sizes follow the routing
reinforce  rollouts with a cache, then training on them, in turn
recurrent  training of a recurrent network on sequences of any length
detect     images of any size, boxes filtered by their overlap
lanes      four streams: two train, one evaluates, one prepares batches ahead
beam       translation by beam search, whose caches are gathered anew at every token
tiles      segmentation of crops of any size, evaluated on whole pictures now and then
graphs     messages along the edges of graphs of any size, some of whose results are kept
answers    batches of requests to a model of the library transformers
feeds      three streams: one loads pictures of any size, one trains, one judges
points     clouds of points of any number
again      training with activation checkpointing
"""

import argparse
import os
import subprocess
import sys

import recorded_held
import recorded_long
import recorded_short


LONG = {**recorded_long.PROGRAMS, **recorded_held.PROGRAMS}
PROGRAMS = (*recorded_short.PROGRAMS, *LONG)


def record(name, args):
    path = os.path.join(args.out, name + ".trace.xz")
    env = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    done = subprocess.run([args.command, "run", "--record", path, "--", args.python, os.path.abspath(__file__),
                           "--program", name], env=env, capture_output=True, text=True, timeout=args.timeout, check=False)
    if done.returncode == 77:
        print(f"skip {name}: {done.stdout.strip()}")
    elif done.returncode != 0 or not os.path.exists(path):
        print(f"FAIL {name}: exit {done.returncode}\n{done.stderr[-3000:]}")
    else:
        told = subprocess.run([args.command, "replay", path], capture_output=True, text=True, check=False).stdout
        print(f"ok {name} bytes={os.path.getsize(path)}\n{told}", flush=True)
    return done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", help="the command custash")
    parser.add_argument("--out", help="where the traces go")
    parser.add_argument("--only", nargs="*", choices=PROGRAMS)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("--program", choices=PROGRAMS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.program:
        try:
            if args.program in LONG:
                recorded_long.start(LONG[args.program])
            else:
                recorded_short.PROGRAMS[args.program]()
        except ImportError as missing:
            print(missing)
            return 77
        return 0
    os.makedirs(args.out, exist_ok=True)
    codes = [record(name, args) for name in args.only or PROGRAMS]
    return 77 if all(code == 77 for code in codes) else int(any(code not in (0, 77) for code in codes))


if __name__ == "__main__":
    sys.exit(main())
