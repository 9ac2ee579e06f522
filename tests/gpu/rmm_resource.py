# SPDX-License-Identifier: MIT
"""custash::device_resource with RMM's C++ library, where Python has it (pip install librmm-cu13): builds rmm_resource.cpp
against it and runs that preloaded. RMM's library has NVIDIA's runtime inside: over the simulated driver only the
interface is called, on a GPU its containers too. Skips (77) without RMM.

  rmm_resource.py --library build/interpose/libcustash.so --cudart FOLDER [--driver FOLDER of a simulated libcuda.so.1]

CUSTASH_TEST_PYTHON names the Python that has RMM.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "bench"))
import peers  # noqa: E402


def built(folder, python, cudart):
    """The program, or None and a line where RMM is not found."""
    includes, libraries, links, header = peers.needs(python, peers.cuda_home())["rmm"]
    if not any((each / header).exists() for each in includes):
        print(f"skip: no {header}: no RMM in {python} (pip install librmm-cu13; CUSTASH_TEST_PYTHON)")
        return None
    if peers.compiler() is None:
        print("skip: no C++ compiler here")
        return None
    program = os.path.join(folder, "rmm_resource")
    runtime = sorted(pathlib.Path(cudart).glob("libcudart.so.*"))[0]
    subprocess.run([peers.compiler(), "-std=c++20", "-O1", f"-I{peers.ROOT}", f"-I{peers.ROOT}/interpose/api",
                    *(f"-I{each}" for each in includes), f"-I{peers.cuda_home()}/include",
                    str(HERE / "rmm_resource.cpp"), "-o", program, *peers.linked(libraries, links), str(runtime), "-ldl"],
                   check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, type=os.path.abspath)
    parser.add_argument("--cudart", required=True)
    parser.add_argument("--driver", help="the simulated one; else the GPU's")
    args = parser.parse_args()
    if not args.driver and not os.path.exists("/dev/nvidiactl"):
        print("skip: there is no GPU here")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        program = built(folder, os.environ.get("CUSTASH_TEST_PYTHON", sys.executable), args.cudart)
        if program is None:
            return 77
        env = {k: v for k, v in os.environ.items() if not k.startswith("CUSTASH")}
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [args.driver, args.cudart, env.get("LD_LIBRARY_PATH")]))
        done = subprocess.run([program, *([] if args.driver else ["containers"])], env={**env, "LD_PRELOAD": args.library},
                              capture_output=True, text=True, check=False)
        print(done.stdout + done.stderr, end="")
        return 0 if (done.returncode, done.stdout) == (0, "0 wrong\n") else 1


if __name__ == "__main__":
    sys.exit(main())
