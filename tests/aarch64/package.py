#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Debian package and the wheel for aarch64, as tools/package builds them.

What lies in them is for that processor, needs libc alone and no newer glibc than the docs state (tests/lint/exports.py).
Their names and control files say so, too. The command of the wheel answers under QEMU, and where auditwheel is
installed it finds the wheel's own tag.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

from lacking import ROOT, skip_where_something_lacks

FILES = ("usr/lib/aarch64-linux-gnu/pkgconfig/custash.pc", "usr/share/man/man1/custash.1.gz",
         "usr/share/zsh/vendor-completions/_custash")
PROGRAMS = ("custash", "custash-replay")


def run(*command):
    done = subprocess.run([str(each) for each in command], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def make(kind, ending, out):
    lines = run(f"{ROOT}/tools/package", "--arch", "aarch64", "--out", out, kind).splitlines()
    return next(pathlib.Path(line) for line in lines if line.endswith(ending))


def look_into(name, library, programs):
    """Symbols and versions by the lint; the processor of everything that is a program or a library."""
    libraries = (library, library.with_name("libcustash-check.so"), library.with_name("libcustash-torch.so"))
    binaries = (*libraries, *programs)
    said = run(sys.executable, f"{ROOT}/tests/lint/exports.py", *binaries)
    machines = {re.search(r"Machine:\s+(.+)", run("readelf", "-h", each))[1] for each in binaries}
    assert machines == {"AArch64"}, machines
    needed = {each.name: re.findall(r"\(NEEDED\).*\[(.*?)\]", run("readelf", "-d", each)) for each in binaries}
    allowed = {"libc.so.6", "ld-linux-aarch64.so.1", "libm.so.6"}
    for each, names in needed.items():
        assert set(names) <= allowed, (each, names)
    versions = {tuple(map(int, version)) for each in binaries
                for version in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", run("readelf", "-V", "-W", each))}
    print(f"{name}: AArch64, {said.split(',')[0]} symbols, NEEDED {needed['libcustash.so']}, "
          f"glibc {'.'.join(map(str, max(versions)))} at most")
    return max(versions)


def check_debian_package(folder):
    if not shutil.which("dpkg-buildpackage") or not shutil.which("dh"):
        print("no debhelper here: no Debian package")
        return
    package = make("deb", "_arm64.deb", folder)
    assert package.name.endswith("_arm64.deb"), package
    assert run("dpkg-deb", "-f", package, "Architecture").strip() == "arm64"
    depends = run("dpkg-deb", "-f", package, "Depends").strip()
    assert re.fullmatch(r"libc6(:arm64)? \(>= 2\.\d+\)", depends), depends
    inside = folder / "deb"
    run("dpkg-deb", "-x", package, inside)
    for each in FILES:
        assert (inside / each).exists(), each
    archive = run("aarch64-linux-gnu-objdump", "-f", inside / "usr/lib/aarch64-linux-gnu/libcustash.a")
    assert set(re.findall(r"file format (\S+)", archive)) == {"elf64-littleaarch64"}
    look_into(package.name, inside / "usr/lib/aarch64-linux-gnu/libcustash.so",
              [inside / "usr/bin" / each for each in PROGRAMS])


def check_wheel(folder):
    wheel = make("wheel", ".whl", folder)
    inside = folder / "wheel"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(inside)
    major, minor = look_into(wheel.name, inside / "custash/lib/libcustash.so",
                             [inside / "custash/bin" / each for each in PROGRAMS])
    assert wheel.name.endswith(f"-py3-none-manylinux_{major}_{minor}_aarch64.whl"), wheel.name
    command = inside / "custash/bin/custash"
    command.chmod(0o755)
    print(run("qemu-aarch64-static", command, "--version").strip())
    if subprocess.run([sys.executable, "-c", "import auditwheel"], check=False, capture_output=True).returncode:
        print("auditwheel is not installed")
        return
    said = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel).split())
    assert f'platform tag: "manylinux_{major}_{minor}_aarch64"' in said, said
    print(said)


def main():
    skip_where_something_lacks("aarch64-linux-gnu-pkg-config")
    with tempfile.TemporaryDirectory() as folder:
        check_debian_package(pathlib.Path(folder))
        check_wheel(pathlib.Path(folder))


main()
