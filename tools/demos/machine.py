# SPDX-License-Identifier: MIT
"""What the demos share: set-up, build, and running a program of tests/harness on a GPU where there is
one, else over the simulated driver; without custash or through it."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
HARNESS = os.path.join(BUILD, "tests/harness")


def arguments(doc, *known):
    """The options given. Prints `doc` for --help, and refuses what is not known."""
    given = set(sys.argv[1:])
    if {"-h", "--help"} & given:
        print(doc)
        sys.exit(0)
    for word in sys.argv[1:]:
        if word not in known:
            print(f"tools/demos/{os.path.basename(sys.argv[0])}: unknown option {word}\n{doc}", file=sys.stderr)
            sys.exit(2)
    return given


def prepare():
    for step in (["setup", "--nvcc"], ["build", "build", "--", "demos"]):
        if subprocess.run([os.path.join(ROOT, "tools", step[0]), *step[1:]], check=False).returncode:
            sys.exit(1)


def runner(simulated):
    """The command in front of a program's own."""
    command = [sys.executable, os.path.join(ROOT, "tests/harness/run.py"),
               "--child", os.path.join(HARNESS, "harness_child")]
    if simulated:
        return command + ["--simulator", os.path.join(BUILD, "tests/sim"),
                          os.path.join(BUILD, "tests/sim/cudart"),
                          os.path.join(HARNESS, "libharness_models.so"), "--devices", "1"]
    home = subprocess.run([os.path.join(ROOT, "tools/find-cuda")], capture_output=True, text=True,
                          check=False).stdout.strip()
    return command + ["--runtime", os.path.join(home, "lib64")]


def choose(options):
    """The runner for this machine; `--sim` among the options asks for the simulator."""
    child = os.path.join(HARNESS, "harness_child")
    asked = "--sim" in options
    on_gpu = runner(simulated=False)
    if not asked and subprocess.run([*on_gpu, "--", child, "abilities"], capture_output=True,
                                    check=False).returncode == 0:
        return on_gpu
    print(f"{'As asked' if asked else 'No GPU here'}: over the simulated driver.\n", flush=True)
    return runner(simulated=True)


def run(front, program, *arguments, custash):
    """Runs to the end, or ends the demo. What the program says is shown and returned."""
    preload = ["--preload", os.path.join(BUILD, "interpose/libcustash.so")] if custash else []
    command = [*front, *preload, "--", os.path.join(HARNESS, program), *arguments]
    said = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            print(line, end="", flush=True)
            said += line
    if running.returncode:
        sys.exit(f"demo: {program} ended with {running.returncode}")
    return said
