# SPDX-License-Identifier: MIT
"""Trains the GPT-2 of train_gpt2.py with PyTorch's own cache, with its expandable segments, with the cache off on the
bare driver, and with it off under a preloaded library, in turns, and compares: are the losses the same to the
last bit, how long is a step, how much device memory is in use? Exit 1 when the losses differ or a
run fails, 77 without PyTorch or a GPU.

  compare_gpt2.py --preload libcustash.so [--steps 25] [--repeats 2] [--json FILE]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from device_memory import Peak

HERE = pathlib.Path(__file__).resolve().parent
MODES = ("own cache", "expandable segments", "cache off, bare", "cache off, custash")


def environment(mode, preload):
    env = dict(os.environ)
    for name in ("PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        env.pop(name, None)
    if mode == "expandable segments":
        env["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    elif mode != "own cache":
        env["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    if mode == "cache off, custash":
        env["LD_PRELOAD"] = ":".join(filter(None, [preload, env.get("LD_PRELOAD")]))
        env["CUSTASH_CONF"] = ",".join(filter(None, [env.get("CUSTASH_CONF"), "summary:true"]))
    return env


def train(mode, args):
    """One run's figures; {"skip": ...} or {"error": ...} where there are none."""
    command = [args.python, str(HERE / "train_gpt2.py"), "--steps", str(args.steps)]
    with Peak() as peak:
        try:
            done = subprocess.run(command, env=environment(mode, args.preload), timeout=args.timeout,
                                  capture_output=True, text=True, cwd=HERE)
        except subprocess.TimeoutExpired:
            return {"mode": mode, "error": f"no end in {args.timeout} s"}
    if done.returncode == 77:
        return {"mode": mode, "skip": done.stdout.strip()}
    if done.returncode != 0:
        return {"mode": mode, "error": f"exit {done.returncode}: {done.stderr[-1500:]}"}
    figures = json.loads(done.stdout.strip().splitlines()[-1])
    figures.update(mode=mode, device_peak_mib=peak.mib, stderr=done.stderr[-4000:])
    return figures


def number(value, form):
    return "-" if value is None else format(value, form)


def table(runs):
    """A row for each mode: medians over its runs."""
    own = runs[0]["losses"]
    rows = [("GPT-2", "losses as own cache's", "ms a step", "of each run", "peak device MiB (NVML)",
             "after a step")]
    for mode in MODES:
        mine = [run for run in runs if run["mode"] == mode]
        steps = [run["step_ms_median"] for run in mine]
        peaks = [run["device_peak_mib"] for run in mine if run["device_peak_mib"] is not None]
        after = [run["device_after_steps_mib"] for run in mine
                 if run["device_after_steps_mib"] is not None]
        rows.append((mode, "identical" if all(run["losses"] == own for run in mine) else "DIFFER",
                     f"{statistics.median(steps):.1f}", " ".join(f"{each:.1f}" for each in steps),
                     number(max(peaks, default=None), ".0f"),
                     number(max(after, default=None), ".0f")))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                     for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preload", required=True, type=os.path.abspath)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one run")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", type=os.path.abspath, help="file for all figures")
    args = parser.parse_args()

    runs = []
    for _ in range(args.repeats):
        for mode in MODES:
            run = train(mode, args)
            if "skip" in run:
                print(run["skip"])
                return 77
            runs.append(run)
            note = run.get("error") or f"{run['step_ms_median']:.1f} ms a step"
            print(f"info gpt2 mode={mode!r} {note}", flush=True)
            if args.json:
                pathlib.Path(args.json).write_text(json.dumps(runs, indent=1))
    if any("error" in run for run in runs):
        print("FAIL gpt2 a run failed")
        return 1
    same = all(run["losses"] == runs[0]["losses"] and run["weights"] == runs[0]["weights"]
               for run in runs)
    print(table(runs))
    print(f"{'ok' if same else 'FAIL'} gpt2_losses steps={args.steps} runs={len(runs)} "
          f"last_loss={runs[0]['losses'][-1]}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
