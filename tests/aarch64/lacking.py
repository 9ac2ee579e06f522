# SPDX-License-Identifier: MIT
"""What a machine lacks to build for aarch64 and to run the result."""
import os
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIP = 77
LIBRARIES = "/usr/lib/aarch64-linux-gnu"
BINFMT = "/proc/sys/fs/binfmt_misc/qemu-aarch64"


def lacking(commands):
    """The first thing that is not here, or an empty text."""
    for command in ("aarch64-linux-gnu-g++", "qemu-aarch64-static", *commands):
        if not shutil.which(command):
            return command
    for file in ("liblzma.a", "pkgconfig/zlib.pc", "pkgconfig/spdlog.pc", "libstdc++.so.6"):
        if not os.path.exists(os.path.join(LIBRARIES, file)):
            return f"{LIBRARIES}/{file}"
    return "" if os.path.exists(BINFMT) else f"{BINFMT} (the kernel does not start programs for aarch64 by QEMU)"


def skip_where_something_lacks(*commands):
    """These commands are needed, too."""
    missing = lacking(commands)
    if missing:
        print(f"skipped: no {missing}: tools/setup --arch aarch64 installs what this test needs")
        sys.exit(SKIP)
