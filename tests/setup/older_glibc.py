#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The wheel that Zig's compiler makes, in a fresh Debian 11 (glibc 2.31), made by debootstrap: installed by pip in a new
environment, run over the simulator. Exceptions and stacks there go by way of interpose/real/find_object.cpp. Needs
root, debootstrap, the network and the Python package ziglang.
"""
import pathlib
import shutil
import subprocess
import sys

import chroot
from chroot import ROOT, call, skip

SCRIPT = """
import ctypes, os, sys
import custash
custash.record_history()
memory = custash.malloc(5000)
print(custash.preloaded(), custash.memory_allocated(), sys.argv[1:], os.confstr("CS_GNU_LIBC_VERSION"))
assert "5000" in custash.leaks() or "1 block" in custash.leaks(), custash.leaks()
custash.free(memory)
ctypes.CDLL("libstdc++.so.6")
try:
    custash.malloc(1 << 60)
except custash.OutOfMemoryError as error:
    print(str(error)[:20])
"""
STEPS = """
set -e
cd /wheel
python3 -m venv --clear env
env/bin/python -m pip install --quiet --no-index --no-deps *.whl
export LD_LIBRARY_PATH=/wheel CUSTASH_SIM=devices=1
env/bin/custash run train.py a
env/bin/python -m custash run train.py b
env/bin/python train.py c
env/bin/custash run --no-such-option 2>&1 || echo "exit status $?"
env/bin/custash replay /none.trace 2>&1 || echo "exit status $?"
"""
EXPECTED = "".join(f"{preloaded} 5120 ['{word}'] glibc 2.31\nCUDA out of memory. \n"
                   for preloaded, word in ((True, "a"), (True, "b"), (False, "c")))


def made(folder):
    """The wheel and the simulator, both built by Zig's compiler."""
    try:
        import ziglang  # noqa: F401 pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        skip("needs the Python package ziglang")
    done = call(sys.executable, f"{ROOT}/tools/package", "wheel", "--out", folder, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0 and "manylinux_2_28" in done.stdout, done.stdout
    assert call("ninja", "-C", f"{ROOT}/build-zig", "tests/sim/libcuda.so.1", stdout=subprocess.DEVNULL).returncode == 0
    shutil.copy(f"{ROOT}/build-zig/tests/sim/libcuda.so.1", folder)


def main():
    chroot.enter_namespace()
    with chroot.system_of("bullseye") as system:
        folder = pathlib.Path(system, "wheel")
        chroot.require("chroot", system, "sh", "-c", "apt-get -q update && apt-get -qy install --no-install-recommends "
                                                     "python3-venv libstdc++6")
        folder.mkdir()
        made(folder)
        (folder / "train.py").write_text(SCRIPT)
        done = call("chroot", system, "env", "-i", "PATH=/usr/bin:/bin", "sh", "-c", STEPS, stdout=subprocess.PIPE, text=True)
        print(done.stdout)
        assert done.returncode == 0 and done.stdout.startswith(EXPECTED), done.returncode
        assert done.stdout.count("exit status 1") == 2 and done.stdout.count("custash: ") == 2


main()
