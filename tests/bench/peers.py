# SPDX-License-Identifier: MIT
"""Builds the plug-ins whose libraries this machine has: CUB, PyTorch, RMM. The rest is named and left out.

  peers.py FOLDER [PYTHON]    into FOLDER (of a packed build: tests/bench), with RMM's libraries beside them, for a
                              machine without a compiler
"""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def folder_of(python, module):
    """Where a Python package lies, or /usr/local. It is not imported: that takes long."""
    find = f"import importlib.util as u; s = u.find_spec({module!r}); print(s.submodule_search_locations[0] if s else '')"
    done = subprocess.run([python, "-c", find], capture_output=True, text=True, check=False)
    return pathlib.Path(done.stdout.strip() or "/usr/local")


def needs(python, cuda):
    """{peer: (include folders, library folders, libraries, a header to look for)}."""
    # Where a package is not found, a header is looked for all the same, and its lack told.
    wanted = {"cub": ([cuda / "include/cccl", cuda / "include"], [], [], "cub/util_allocator.cuh")}
    torch = folder_of(python, "torch")
    wanted["torch"] = ([torch / "include"], [torch / "lib"], ["c10", "c10_cuda"],
                       "c10/cuda/CUDACachingAllocator.h")
    rmm, logger = folder_of(python, "librmm"), folder_of(python, "rapids_logger")
    wanted["rmm"] = ([rmm / "include/rapids", rmm / "include", logger / "include"],
                     [rmm / "lib64", logger / "lib64"], ["rmm", "rapids_logger"],
                     "rmm/mr/pool_memory_resource.hpp")
    return wanted


def cuda_home():
    found = subprocess.run([str(ROOT / "tools/find-cuda")], capture_output=True, text=True, check=False)
    return pathlib.Path(found.stdout.strip())


def linked(libraries, links):
    """All of them by name: RMM's library does not say where its own needs lie."""
    return [*(f"-L{each}" for each in libraries), *(f"-Wl,-rpath,{each}" for each in ("$ORIGIN", *libraries)),
            "-Wl,--no-as-needed", *(f"-l{each}" for each in links)]


def compiler():
    """None where there is none: a machine to measure on needs none for all else."""
    return shutil.which(os.environ.get("CXX", "g++"))


def ready(folder, build_folder, python):
    """Paths of the plug-ins: built now, or before, where there is no compiler."""
    if compiler() is not None:
        return build(folder, python)
    before = sorted(str(each) for each in pathlib.Path(build_folder, "tests/bench").glob("peer_*.so"))
    print(f"bench: no C++ compiler here; peers that were built before: {before}", file=sys.stderr)
    return before


def build(folder, python):
    """Paths of the plug-ins. Failures are told, not hidden: a table without a peer says why here."""
    cuda = cuda_home()
    built = []
    for name, (includes, libraries, links, header) in needs(python, cuda).items():
        if not any((each / header).exists() for each in includes):
            print(f"bench: without {name}: no {header}", file=sys.stderr)
            continue
        target = os.path.join(folder, f"peer_{name}.so")
        libraries = [*libraries, cuda / "lib64"]
        command = [compiler(), "-std=c++20", "-O2", "-fPIC", "-shared", f"-I{ROOT}",
                   *(f"-I{each}" for each in includes), f"-I{cuda}/include",
                   str(HERE / f"peer_{name}.cpp"), "-o", target,
                   *linked(libraries, links), "-lcudart"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            built.append(target)
        else:
            print(f"bench: without {name}: {done.stderr[-1500:]}", file=sys.stderr)
    return built


def keep(folder, python):
    os.makedirs(folder, exist_ok=True)
    for each in build(folder, python):
        print(each)
    _, libraries, links, _ = needs(python, cuda_home())["rmm"]
    for name in (f"lib{link}.so" for link in links):
        for path in (each / name for each in libraries):
            if path.exists():
                shutil.copy(path, folder)


if __name__ == "__main__":
    keep(*(sys.argv[1:] + ["python3"])[:2])
