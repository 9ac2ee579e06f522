# SPDX-License-Identifier: MIT
"""Fetches what the wall's programs need into one folder: their files out of archives, and wheels.

Each archive is checked by its SHA-256, then each file that is taken out of it.
"""
import json
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import zipfile

import wheels
from description import Mistake
from releases import digest, download_source, download_wheel

MARK = ".archive"  # beside the files of a whole archive: what they were made of, and the SHA-256 of each


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


def present(folder):
    """{name: SHA-256} of all files below the folder; a link has none. Python's own __pycache__ is left out."""
    return {str(path.relative_to(folder)): None if path.is_symlink() else digest(path.read_bytes())
            for path in folder.rglob("*")
            if (path.is_symlink() or not path.is_dir()) and "__pycache__" not in path.relative_to(folder).parts}


def mark_of(program, files):
    return {"archive": program.archive, "make": program.make, "keep": program.keep, "files": files}


def is_there(program, folder):
    """Whether the folder has the program's files and no other, and they are what the description says."""
    if folder.is_symlink():
        return False
    found = present(folder)
    if not program.whole:
        return found == program.files
    if not found.pop(MARK, None):
        return False
    try:
        return json.loads((folder / MARK).read_text()) == mark_of(program, found)
    except ValueError:
        return False


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
    if any(str(parent) in found for name in found for parent in pathlib.PurePath(name).parents):
        raise Mistake(f"{program.release}: it has a file and a folder of one name")
    return found


def remove(folder):
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def fetch_files(program, folder, get):
    """Writes the program's files below the folder, all or none."""
    with tempfile.TemporaryDirectory() as place:
        archive = get(program, place)
        if digest(archive.read_bytes()) != program.archive:
            raise Mistake(f"{archive.name}: its SHA-256 is another than {program.key}.toml has")
        found = wanted(program, archive)
    for old in (folder, folder.parent / "built"):  # what is left there would be in the way, or be run
        remove(old)
    for name, content in found.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def make(program, expand):
    """Builds what is given as sources."""
    for words in program.make:
        done = subprocess.run([expand(program, word) for word in words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Mistake(f"{program.key}: {words[0]} failed: {(done.stderr or done.stdout).strip()[-600:]}")


def keep_made(program, folder):
    """Keeps of the sources what `keep` names alone: it travels."""
    kept = [folder / "files" / name for name in program.keep]

    def is_kept(path):
        return path in kept or any(each in path.parents for each in kept)

    for path in sorted((folder / "files").rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not is_kept(path) and not any(path in each.parents for each in kept):
                path.rmdir()
        elif not is_kept(path):
            path.unlink()
    shutil.rmtree(folder / "built", ignore_errors=True)


def fetch_program(program, folder, expand, get):
    """The files, and what is made of them; after a failure nothing counts as fetched."""
    files = folder / "files"
    if program.ours or is_there(program, files):
        return
    fetch_files(program, files, get)
    make(program, expand)
    if program.keep:
        keep_made(program, folder)
    if program.whole:
        (files / MARK).write_text(json.dumps(mark_of(program, present(files)), indent=1))
    print(f"{program.key}: fetched {program.release}", flush=True)


def fetch(programs, folder, python_version, expand):
    def get(program, place):
        return download(program, place, python_version)

    for program in programs:
        fetch_program(program, folder / program.key, expand, get)
    wheels.fetch_wheels(wheels.wheels_of(programs), folder / "wheels", python_version)
