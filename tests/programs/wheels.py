# SPDX-License-Identifier: MIT
"""The wheels that must be installed beside the wall's programs, each checked by its SHA-256."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from description import Mistake
from releases import digest, download_source, download_wheel

FETCHED = "fetched.json"  # beside the wheels: {release: [the digest that its description has, file, the file's digest]}


def wheels_of(programs):
    return {release: expected for program in programs for release, expected in program.wheels.items()}


def built(archive, folder):
    """pip makes a wheel of the sources. What it needs for that is not checked."""
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(archive)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Mistake(f"{archive.name}: {done.stderr[-300:]}")
    return only_file(folder)


def only_file(folder):
    (found,) = pathlib.Path(folder).iterdir()
    return found


def get_wheel(release, expected, place, python_version):
    """The path of a release's wheel; where it has none, pip makes one of the sources."""
    from_sources = download_wheel(release, f"{place}/wheel", python_version).returncode != 0
    done = download_source(release, f"{place}/sources", python_version) if from_sources else None
    if from_sources and done.returncode != 0:
        raise Mistake(f"{release} cannot be downloaded: {done.stderr[-300:]}")
    archive = only_file(f"{place}/sources" if from_sources else f"{place}/wheel")
    if digest(archive.read_bytes()) != expected:
        raise Mistake(f"{archive.name}: its SHA-256 is another than the description of its program has")
    return built(archive, f"{place}/built") if from_sources else archive


def fetched_wheels(folder):
    path = folder / FETCHED
    return json.loads(path.read_text()) if path.exists() else {}


def fetch_wheels(wheels, folder, python_version, get=get_wheel):
    folder.mkdir(parents=True, exist_ok=True)
    fetched = fetched_wheels(folder)
    for release, expected in sorted(wheels.items()):
        with tempfile.TemporaryDirectory() as place:
            for name in ("wheel", "sources", "built"):
                pathlib.Path(place, name).mkdir()
            wheel = get(release, expected, place, python_version)
            shutil.copy(wheel, folder)
            fetched[release] = [expected, wheel.name, digest(wheel.read_bytes())]
        (folder / FETCHED).write_text(json.dumps(fetched, indent=1))


def named_wheels(programs, folder):
    """The paths of the wheels that were fetched for these programs, and are what they were."""
    fetched = fetched_wheels(folder)
    paths = []
    for release, expected in sorted(wheels_of(programs).items()):
        if release not in fetched:
            continue
        described, name, found = fetched[release]
        path = folder / name
        if described != expected or not path.is_file() or digest(path.read_bytes()) != found:
            raise Mistake(f"{path}: it is another file than --fetch has checked, or than the description names: --fetch again")
        paths.append(str(path))
    return paths


def install(programs, folder):
    """The wheels into a folder of their own, which the programs get on PYTHONPATH. Needs no network."""
    wheels = named_wheels(programs, folder / "wheels")
    if not wheels:
        raise Mistake(f"{folder / 'wheels'} has no wheel: --fetch first")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile",
                    "--no-cache-dir", "--upgrade", "--target", str(folder / "site"), *wheels], check=True)
