# SPDX-License-Identifier: MIT
"""The wheel: the Python module with the library and the programs inside, for every Python 3 and without dependencies."""
import base64
import hashlib
import pathlib
import platform
import shutil
import tempfile
import time
import zipfile

from shared import LIBRARIES, PROGRAMS, ROOT, SUMMARY, glibc_of, moment, processor_of, strip, version_of

METADATA = """Metadata-Version: 2.1
Name: custash
Version: {version}
Summary: {summary}
License: MIT
License-File: LICENSE
Requires-Python: >=3.9
Classifier: License :: OSI Approved :: MIT License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Environment :: GPU :: NVIDIA CUDA
Description-Content-Type: text/markdown

custash serves `cudaMalloc`, `cudaFree`, `cudaMallocAsync` and `cudaMallocHost` of unchanged CUDA programs from memory
pools. Frees no longer wait for the GPU. Every allocation shows up in statistics, reports and a live view.

    custash run --summary -- python train.py
    python -m custash run train.py              # by this Python
    python -c 'import custash; print(custash.version())'

The wheel holds the command `custash`, the library that it preloads and the module `custash`. It needs Linux on
{processor} with glibc {glibc} or later, and NVIDIA's driver of CUDA 11.2 or later.
"""
WHEEL = """Wheel-Version: 1.0
Generator: custash tools/package
Root-Is-Purelib: false
Tag: {tag}
"""
# Through Python, because this is the form that every installer makes in every kind of environment.
ENTRY_POINTS = """[console_scripts]
custash = custash.__main__:main
"""


def copies(build, folder):
    """What folder holds: {name in the wheel: (path, whether it is executed)}."""
    binaries = {f"custash/bin/{each}": (build / "tools" / each, True) for each in PROGRAMS}
    binaries |= {f"custash/lib/{each}": (build / "interpose" / each, False) for each in LIBRARIES}
    for number, (name, (path, runs)) in enumerate(list(binaries.items())):
        copy = shutil.copy(path, folder / str(number))
        binaries[name] = (pathlib.Path(copy), runs)
    strip(build, *(path for path, _ in binaries.values()))
    return binaries


def record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def add(archive, when, name, content, runs=False):
    entry = zipfile.ZipInfo(name, time.gmtime(when)[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # the next line is Unix's
    entry.external_attr = (0o100755 if runs else 0o100644) << 16
    archive.writestr(entry, content, compresslevel=9)


def make(build, out):
    """Returns the wheel's path. The same files give the same bytes."""
    version = version_of(build)
    with tempfile.TemporaryDirectory() as folder:
        binaries = copies(build, pathlib.Path(folder))
        major, minor = glibc_of(path for path, _ in binaries.values())
        processor = processor_of(build) or platform.machine()
        tag = f"py3-none-manylinux_{major}_{minor}_{processor}"
        info = f"custash-{version}.dist-info"
        files = {name: (path.read_bytes(), runs) for name, (path, runs) in binaries.items()}
    for path in sorted((ROOT / "tools/python/custash").glob("*.py")):
        files[f"custash/{path.name}"] = (path.read_bytes(), False)
    texts = {"METADATA": METADATA.format(version=version, summary=SUMMARY, glibc=f"{major}.{minor}",
                                           processor=processor.replace("_", "-")),
             "WHEEL": WHEEL.format(tag=tag), "entry_points.txt": ENTRY_POINTS, "licenses/LICENSE": (ROOT / "LICENSE").read_text()}
    files.update({f"{info}/{name}": (text.encode(), False) for name, text in texts.items()})
    record = "".join(record_line(name, content) for name, (content, _) in files.items()) + f"{info}/RECORD,,\n"
    files[f"{info}/RECORD"] = (record.encode(), False)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"custash-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, (content, runs) in files.items():
            add(archive, moment(), name, content, runs)
    return path
