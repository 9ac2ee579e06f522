#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the scripts of tools/ say: --help prints help and does nothing, a wrong option is refused, a
toolkit without nvcc is told before anything is installed."""
import os
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOLS = os.path.join(ROOT, "tools")


def scripts():
    return sorted(name for name in [*os.listdir(TOOLS), "demos/reuse", "demos/train"]
                  if os.path.isfile(os.path.join(TOOLS, name)) and os.access(os.path.join(TOOLS, name), os.X_OK))


def call(name, *arguments, path=os.environ["PATH"], **environment):
    """Runs a script where each tool that could change the machine only writes its name into a file."""
    with tempfile.TemporaryDirectory() as folder:
        used = os.path.join(folder, "used")
        for tool in ("apt-get", "sudo", "meson", "ninja"):
            stand_in = os.path.join(folder, tool)
            with open(stand_in, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\necho {tool} >>{used}\nexit 1\n")
            os.chmod(stand_in, 0o755)
        done = subprocess.run([os.path.join(TOOLS, name), *arguments], cwd=folder, text=True, capture_output=True,
                              check=False, timeout=60, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PATH": folder + ":" + path, **environment})
        done.used = open(used, encoding="utf-8").read().split() if os.path.exists(used) else []
        return done


def main():
    found = scripts()
    assert {"setup", "build", "demo", "test", "quietly"} <= set(found), found
    for name in found:
        done = call(name, "--help")
        assert done.returncode == 0 and name in done.stdout and not done.used, (name, done)
    for name in ("setup", "demo", "test", "demos/reuse", "demos/train"):
        done = call(name, "--bogus")
        assert done.returncode == 2 and "--bogus" in done.stderr and not done.stdout and not done.used, (name, done)

    done = call("test", "--quick", "--suite", "unit")
    assert done.returncode == 2 and "--quick excludes" in done.stderr and not done.used, done

    with tempfile.TemporaryDirectory() as toolkit:
        os.mkdir(os.path.join(toolkit, "include"))
        open(os.path.join(toolkit, "include/cuda.h"), "w", encoding="utf-8").close()
        path = ":".join(f for f in os.environ["PATH"].split(":") if not os.path.exists(os.path.join(f, "nvcc")))
        done = call("demo", path=path, CUDA_HOME=toolkit)
        assert done.returncode == 1 and f"nvcc is missing: the CUDA Toolkit in {toolkit}" in done.stderr, done
        assert not done.used, done.used

    shown = call("quietly", "label", "sh", "-c", "echo one; echo FAILED: x; echo why; exit 3")
    assert shown.returncode == 3 and shown.stderr == "FAILED: x\nwhy\n", shown
    shown = call("quietly", "label", "sh", "-c", "echo '[3/7] step'; sleep 11")
    assert shown.returncode == 0 and shown.stderr == "label (10 s) [3/7] step\n", shown


main()
