# SPDX-License-Identifier: MIT
"""Downloads a release's archive, without what it needs in turn."""
import hashlib
import importlib.util
import subprocess
import sys

from description import Mistake

CLIENT = "unearth"  # it downloads without building, as pip does not


def digest(content):
    return hashlib.sha256(content).hexdigest()


def download_source(release, folder, python_version):
    if importlib.util.find_spec(CLIENT) is None:
        raise Mistake(f"{CLIENT} is missing: {sys.executable} -m pip install {CLIENT}")
    return subprocess.run([sys.executable, "-m", CLIENT, "--no-binary", "--python-version", python_version, "--download", folder,
                           release], capture_output=True, text=True, check=False)


def download_wheel(release, folder, python_version):
    """For x86-64 Linux, without what it needs in turn."""
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in (17, 24, 27, 28, 31, 34)]
    return subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
         "--python-version", python_version, "--implementation", "cp", "--dest", folder,
         *(f"--platform={each}" for each in (*platforms, "manylinux2014_x86_64", "manylinux1_x86_64")), release],
        capture_output=True, text=True, check=False)
