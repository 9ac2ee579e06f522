# SPDX-License-Identifier: MIT
"""What the wall knows of a program that others wrote: a TOML file of the folder wall/, checked when it is read.

  name, why            what it is, and why it was chosen
  licence              of the files below
  package, version     where they come from; `ours = true` stands for a program of this repository
  archive              the SHA-256 of the package's source archive, or of its wheel
  wheel                the Python version of that wheel, where the files come from one
  [files]              its files that are taken, with the SHA-256 of each
  whole                true where the whole archive is taken
  make, keep           command lines that make the program out of it, and the files to keep of it then
  [wheels]             what must be installed beside it, as NAME==VERSION, with the SHA-256 of its wheel; of its source
                       archive, where the release has no wheel
  modules              what Python must find for it to start
  start                its command line; {python}, {files}, {built}, {data}, {site}, {build} and {tests} stand for a
                       program and six folders, {module:NAME} for the folder of a Python module
  metric, unit         where it prints a figure, and the figure's unit; without it the wall time counts
  higher               true where a higher figure is better
  gpus                 how many GPUs it needs
  ignore               lines of its output that differ from run to run
  timeout              seconds for one run
  [data]               a file that a seed makes: its name, and the arguments of data.py
  [[ways]]             its name and the environment variables of each way to run it; the variables of `with` are set
                       with custash only
"""
import dataclasses
import inspect
import pathlib
import re
import tomllib

import data

FOLDER = pathlib.Path(__file__).resolve().parent / "wall"
PLACES = ("python", "files", "built", "data", "site", "build", "tests")


class Mistake(Exception):
    """A description that cannot be used, or a file that is not what it says."""


@dataclasses.dataclass(frozen=True)
class Way:
    name: str
    environment: dict
    with_custash: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    why: str
    start: list
    licence: str = ""
    package: str = ""
    version: str = ""
    archive: str = ""
    wheel: str = ""
    whole: bool = False
    make: list = dataclasses.field(default_factory=list)
    keep: list = dataclasses.field(default_factory=list)
    ours: bool = False
    files: dict = dataclasses.field(default_factory=dict)
    wheels: dict = dataclasses.field(default_factory=dict)
    modules: list = dataclasses.field(default_factory=list)
    metric: str = ""
    unit: str = "s"
    higher: bool = False
    ignore: list = dataclasses.field(default_factory=list)
    timeout: int = 60
    gpus: int = 1
    data: dict = dataclasses.field(default_factory=dict)
    ways: list = dataclasses.field(default_factory=list)
    key: str = ""  # the name of its file

    @property
    def release(self):
        return "ours" if self.ours else f"{self.package}=={self.version}"


def check_types(program):
    """Each value has the type of its default."""
    for field in dataclasses.fields(program):
        value = getattr(program, field.name)
        if not isinstance(value, field.type) or (field.type is int and value < 1):
            raise Mistake(f"{field.name} is no {field.type.__name__}, or none that can be used")
    for name in ("start", "keep", "modules", "ignore"):
        if not all(isinstance(each, str) for each in getattr(program, name)):
            raise Mistake(f"{name} is no list of words")
    if not program.start or not program.ways:
        raise Mistake("it has no start, or no way")


def check_data(given):
    """As data.make() takes it."""
    if not given:
        return
    if given.get("form") not in data.FORMS:
        raise Mistake(f"no data has the form {given.get('form')}")
    inspect.signature(data.make).bind(None, **given)
    inspect.signature(data.FORMS[given["form"]]).bind(**{k: v for k, v in given.items() if k not in ("file", "form")})


def check(program):
    check_types(program)
    named = program.package and program.version and program.licence and bool(program.files) != program.whole
    if program.ours == bool(named):
        raise Mistake("it names a package with version, licence and files (or the whole), or it is ours")
    digests = [*program.wheels.values(), *(() if program.ours else (program.archive, *program.files.values()))]
    if not all(re.fullmatch("[0-9a-f]{64}", each) for each in digests):
        raise Mistake("a SHA-256 has 64 digits")
    check_data(program.data)
    for path in (*program.files, *program.keep, program.data.get("file", "")):
        if path.startswith("/") or ".." in path.split("/"):
            raise Mistake(f"{path} leads out of its folder")
    words = [*program.start, *sum(program.make, []), *(value for way in program.ways for value in way.environment.values())]
    for place in re.findall(r"\{(.*?)\}", " ".join(words)):
        if place not in PLACES and not re.fullmatch(r"module:[\w.]+", place):
            raise Mistake(f"{{{place}}} stands for nothing")
    for wheel in program.wheels:
        if not re.fullmatch(r"[\w.-]+==[\w.]+", wheel):
            raise Mistake(f"{wheel} names no release")
    for pattern in filter(None, (program.metric, *program.ignore)):
        re.compile(pattern)


def way_of(given):
    name, with_custash = given.pop("name"), given.pop("with", {})
    return Way(name, {k: str(v) for k, v in given.items()}, {k: str(v) for k, v in with_custash.items()})


def read(path):
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        found["ways"] = [way_of(each) for each in found.get("ways", [{"name": ""}])]
        program = Program(key=path.stem, **found)
        check(program)
    except (Mistake, TypeError, KeyError, re.error, tomllib.TOMLDecodeError) as why:
        raise Mistake(f"{path.name}: {why}") from why
    return program


def read_all(folder=FOLDER):
    return [read(path) for path in sorted(folder.glob("*.toml"))]
