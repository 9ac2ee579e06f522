# SPDX-License-Identifier: MIT
"""Builds the libraries and the programs for an older glibc than this machine's, with the compiler of the Python package
`ziglang` and GCC's unwinder, in a build folder of its own."""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GLIBC = "2.28"
FOLDER = ROOT / "build-zig"


def has_unwinder():
    """Whether GCC's unwinder is here as an archive: tools/packaging/zig links it."""
    if not shutil.which("gcc"):
        return False
    named = subprocess.run(["gcc", "-print-file-name=libgcc_eh.a"], check=True, capture_output=True, text=True).stdout
    return os.path.isabs(named.strip())  # else it repeats the name


def zig():
    """Its path; None where it is not installed, or cannot be used."""
    try:
        import ziglang  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    found = pathlib.Path(ziglang.__file__).with_name("zig")
    return found if found.exists() and has_unwinder() else None


def replace(binaries):
    """Replaces the libraries and the programs at these paths, unless there is no such compiler."""
    path = zig()
    if path is None:
        print("tools/package: no ziglang here (pip install ziglang) or no gcc: what is packed needs glibc 2.34 or later",
              file=sys.stderr)
        return
    FOLDER.mkdir(exist_ok=True)
    native = FOLDER / "zig.ini"
    words = f"['{ROOT}/tools/packaging/zig', '{path}']"
    text = f"[constants]\nzig = {words}\n[binaries]\nc = zig + ['cc', '{GLIBC}']\ncpp = zig + ['c++', '{GLIBC}']\n"
    if not native.exists() or native.read_text() != text:
        native.write_text(text)
        (FOLDER / "build.ninja").unlink(missing_ok=True)  # configure it anew
    caches = {f"ZIG_{kind}_CACHE_DIR": str(FOLDER / "zig-cache") for kind in ("GLOBAL", "LOCAL")}
    # The native file is named relative to the root: tools/build splits words at spaces. A folder keeps its options.
    options = [f"--native-file={native.relative_to(ROOT)}", "-Dtests=false", "-Dsamples=false"]
    if (FOLDER / "build.ninja").exists():
        options = []
    if subprocess.run([ROOT / "tools/build", FOLDER.name, *options], cwd=ROOT, env={**os.environ, **caches}, check=False).returncode:
        sys.exit(1)
    for each in binaries:
        shutil.copy(FOLDER / ("tools" if each.parent.name == "bin" else "interpose") / each.name, each)
