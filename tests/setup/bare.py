#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds what tools/demo runs where no compiler finds CUDA's headers by itself, as on a fresh machine.

A development machine may have links to these headers in /usr/local/include, which compilers search
unasked; a missing -I then goes unnoticed. This test puts an empty folder over that one, in a mount
namespace of its own, and configures and builds from the beginning.
"""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HIDDEN = "/usr/local/include"
SKIP = 77
SEES_CUDA = "echo '#include <cuda.h>' | ${CXX:-g++} -E -x c++ - >/dev/null 2>&1"


def skip(why):
    print(why)
    sys.exit(SKIP)


def outer():
    """Starts this program again inside a mount namespace, as root or as a user who may make one."""
    command = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        skip("this machine allows no mount namespace")
    os.execvp(command[0], [*command, sys.executable, os.path.abspath(__file__), "--inside"])


def inside():
    hidden = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", HIDDEN], capture_output=True,
                            text=True, check=False)
    if hidden.returncode:
        skip(f"an empty folder cannot be mounted over {HIDDEN}: {hidden.stderr.strip()}")
    if subprocess.run(SEES_CUDA, shell=True, check=False).returncode == 0:
        skip("the compiler finds cuda.h in its own folders here, with /usr/local/include hidden too")
    with tempfile.TemporaryDirectory(prefix="custash-bare-") as folder:
        build = os.path.join(folder, "build")
        subprocess.run(["tools/build", build, "--", "demo"], cwd=ROOT, check=True)
        for made in ("tools/custash", "interpose/libcustash.so", "tests/demo/churn_shared"):
            assert os.path.exists(os.path.join(build, made)), made
        run = subprocess.run([os.path.join(build, "tools/custash"), "version"], capture_output=True, check=False)
        assert run.returncode == 0 and b"custash" in run.stdout, run
    print("built with the headers hidden")


inside() if "--inside" in sys.argv[1:] else outer()
