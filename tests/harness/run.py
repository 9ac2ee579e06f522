# SPDX-License-Identifier: MIT
"""Runs a program of the harness, bare or preloaded, on the simulator or on a GPU.

  run.py [--simulator SIM_FOLDER CUDART_FOLDER MODELS [--devices N] [--mode MODE]] [--runtime FOLDER]
         [--preload LIBRARY [--conf KEY:VALUE,...] [--reports memory|streams]] --child CHILD [--suite | --] PROGRAM [ARGUMENT …]

With --suite the program is the Catch2 suite: the tests that this machine cannot run are left out by
their tags, and the tags are named. With --reports custash looks for wrong uses of memory or of streams: each test then runs alone, and must
give the reports that reports.py lists for it, or none. Exit status 77 where there is no device.
"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import guard_reports  # noqa: E402
import reports  # noqa: E402


def environment(args):
    """Nothing of the caller's CUDA, custash or loader settings but a seed and where libraries lie."""
    env = {k: v for k, v in os.environ.items()
           if k == "CUSTASH_SEED" or not k.startswith(("CUSTASH", "CUDA_LAUNCH", "LD_PRELOAD"))}
    folders = [args.runtime] if args.runtime else []
    if args.simulator:
        driver, runtime, models = args.simulator
        folders = [driver, runtime]
        env.pop("CUDA_VISIBLE_DEVICES", None)
        # The machine: children see the same devices, other runs do not.
        env["CUSTASH_SIM"] = (f"devices={args.devices},memory=4g,detector={int(args.reports != 'memory')},mode={args.mode},"
                              f"machine={args.machine.name}")
        env["CUSTASH_SIM_KERNELS"] = models
    else:
        # A kernel that is loaded late waits for the device; the tests look at who waits.
        env.setdefault("CUDA_MODULE_LOADING", "EAGER")
        if os.environ.get("LD_LIBRARY_PATH"):
            folders.append(os.environ["LD_LIBRARY_PATH"])
    if folders:
        env["LD_LIBRARY_PATH"] = ":".join(folders)
    if args.preload:
        env.update(LD_PRELOAD=args.preload, CUSTASH_CONF=args.conf)
    return env


def left_out(abilities):
    """The tags of tests that need what is not here."""
    words = abilities.split()
    devices = int(next(w for w in words if w.startswith("devices=")).split("=")[1])
    return [tag for tag, here in (
        ("custash", "custash" in words),
        ("bare", "custash" not in words),
        ("simulator", "detector" in words),
        ("gpu", "simulator" not in words),
        ("two", devices >= 2),
        ("four", devices >= 4),
    ) if not here]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulator", nargs=3)
    parser.add_argument("--devices", default="4")
    parser.add_argument("--mode", default="timed", help="of the simulator: timed, or seeded: in random order")
    parser.add_argument("--runtime", default="")
    parser.add_argument("--preload", default="")
    parser.add_argument("--conf", default="", help="CUSTASH_CONF of the preloaded library")
    parser.add_argument("--reports", choices=sorted(guard_reports.CONF), help="compare what custash reports of each test of the suite")
    parser.add_argument("--child", required=True)
    parser.add_argument("--suite", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    command = [word for word in args.command if word != "--"]
    if args.reports:
        args.conf = ",".join(filter(None, (args.conf, guard_reports.CONF[args.reports])))
    args.machine = tempfile.NamedTemporaryFile(prefix="custash-machine-")
    env = environment(args)

    asked = subprocess.run([args.child, "abilities"], env=env, capture_output=True, text=True, check=False)
    if asked.returncode:
        print((asked.stdout + asked.stderr).strip() or "no GPU")
        sys.exit(77 if asked.returncode in (77, 127) else 1)
    if bool(args.preload) != ("custash" in asked.stdout.split()):
        sys.exit(f"asked for {'custash' if args.preload else 'bare'}, found: {asked.stdout}")
    if args.suite:
        tags = left_out(asked.stdout)
        print(f"{asked.stdout.strip()}; left out: {' '.join(tags) or 'nothing'}", flush=True)
        # Catch2: what stands before a comma is one choice; all exclusions belong to it.
        command += ["".join(f"~[{tag}]" for tag in tags) or "*"]
    if args.reports:
        sys.exit(reports.compare(args.reports, command, env))
    sys.exit(subprocess.run(command, env=env, check=False).returncode)


main()
