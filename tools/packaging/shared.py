# SPDX-License-Identifier: MIT
"""What the kinds of packages share: the installed tree, its version and its moment, the glibc that it needs."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("custash", "custash-replay")
LIBRARIES = ("libcustash.so", "libcustash-check.so")
SUMMARY = "drop-in caching allocator for CUDA"
# By the name that --arch takes: Debian's name of the processor, and the prefix of its binary tools.
OTHERS = {"aarch64": ("arm64", "aarch64-linux-gnu-")}


def run(*command, **more):
    return subprocess.run([str(each) for each in command], check=True, capture_output=True, text=True, **more).stdout


def version_of(build):
    return run("meson", "introspect", "--projectinfo", build).split('"version": "')[1].split('"')[0]


def options_of(build):
    return {each["name"]: each["value"] for each in json.loads(run("meson", "introspect", "--buildoptions", build))}


def processor_of(build):
    """The processor that a build folder is for, as --arch names it; None: this machine's."""
    return next((name for name in OTHERS if (build / f"cross-{name}.ini").exists()), None)


def tool(name, build):
    """A binary tool for what the build folder holds."""
    other = processor_of(build)
    return (OTHERS[other][1] if other else "") + name


def moment():
    """When the tree was last changed, as far as the tree knows."""
    try:
        return int(run("git", "-C", ROOT, "log", "-1", "--format=%ct"))
    except (subprocess.CalledProcessError, OSError, ValueError):
        return int((ROOT / "CHANGELOG.md").stat().st_mtime)


def install(build, usr):
    """Copies the installed tree to usr, whatever prefix the build folder was configured with. Returns usr/libdir."""
    options = options_of(build)
    with tempfile.TemporaryDirectory() as installed:
        run("meson", "install", "-C", build, "--no-rebuild", "--destdir", installed)
        shutil.copytree(f"{installed}{options['prefix']}", usr, symlinks=True)
    for cache in list(usr.rglob("__pycache__")):
        shutil.rmtree(cache)
    return usr / options["libdir"]


def strip(build, *binaries):
    run(tool("strip", build), "--strip-unneeded", "--remove-section=.comment", "--remove-section=.note", *binaries)


def glibc_of(binaries):
    """(2, 34): the oldest glibc that loads all of them."""
    needs = [run("readelf", "-V", "-W", each).split("Version needs section")[-1] for each in binaries]
    return max((int(major), int(minor)) for text in needs
               for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", text))
