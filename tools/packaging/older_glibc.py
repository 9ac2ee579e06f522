# SPDX-License-Identifier: MIT
"""Builds the library and the programs for an older glibc than this machine's, with the compiler of the Python package
`ziglang` and GCC's unwinder, in a build folder of its own."""
import os
import pathlib
import shutil
import subprocess

from shared import LIBRARIES, PROGRAMS, ROOT, run

GLIBC = "2.28"
FOLDER = ROOT / "build-package"
TARGETS = [*(f"interpose/{each}" for each in LIBRARIES), *(f"tools/{each}" for each in PROGRAMS)]


def has_unwinder():
    """Whether GCC's unwinder is here as an archive: tools/packaging/zig links it."""
    if not shutil.which("gcc"):
        return False
    return os.path.isabs(run("gcc", "-print-file-name=libgcc_eh.a").strip())  # else it repeats the name


def zig():
    """Its path; None where it is not installed, or cannot be used."""
    try:
        import ziglang  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    found = pathlib.Path(ziglang.__file__).with_name("zig")
    return found if found.exists() and has_unwinder() else None


def build(path):
    """The folder with the TARGETS, or None where the build failed; tools/build has then printed why."""
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
    done = subprocess.run([ROOT / "tools/build", FOLDER.name, *options, "--", *TARGETS], cwd=ROOT,
                          env={**os.environ, **caches}, check=False)
    return None if done.returncode else FOLDER
