# SPDX-License-Identifier: MIT
"""Builds the library and the programs for an older glibc than this machine's, with the compiler of the Python package
`ziglang`, in a build folder of its own."""
import os
import pathlib
import subprocess

from shared import PROGRAMS, ROOT

GLIBC = "2.28"
FOLDER = ROOT / "build-package"
TARGETS = ["interpose/libcustash.so", *(f"tools/{each}" for each in PROGRAMS)]


def zig():
    """Its path; None where it is not installed."""
    try:
        import ziglang  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    found = pathlib.Path(ziglang.__file__).with_name("zig")
    return found if found.exists() else None


def build(path):
    """The folder with the TARGETS, or None where the build failed; tools/build has then told why."""
    FOLDER.mkdir(exist_ok=True)
    native = FOLDER / "zig.ini"
    words = f"['{ROOT}/tools/packaging/zig', '{path}']"
    text = f"[constants]\nzig = {words}\n[binaries]\nc = zig + ['cc', '{GLIBC}']\ncpp = zig + ['c++', '{GLIBC}']\n"
    if not native.exists() or native.read_text() != text:
        native.write_text(text)
        (FOLDER / "build.ninja").unlink(missing_ok=True)  # configure it anew
    caches = {f"ZIG_{kind}_CACHE_DIR": str(FOLDER / "zig-cache") for kind in ("GLOBAL", "LOCAL")}
    # The native file is named relative to the root: the words are split at spaces.
    done = subprocess.run([ROOT / "tools/build", FOLDER.name, f"--native-file={native.relative_to(ROOT)}", "-Dtests=false",
                           "-Dsamples=false", "--", *TARGETS], cwd=ROOT, env={**os.environ, **caches}, check=False)
    return None if done.returncode else FOLDER
