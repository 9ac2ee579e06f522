# SPDX-License-Identifier: MIT
"""Runs programs that others wrote without and with custash in turn, by `custash compare`, and makes a table and a picture.

tests/programs/wall/ describes each: its release, its files with their SHA-256, its arguments. --fetch downloads the
files once, --install installs the wheels that they need; both into build/programs, which may then travel to a machine
without network. A program whose modules are missing is named and left out. The exit status is 1 where output differs
or a program fails, 77 where all are left out.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import compare
import data
import description
import fetch
import table
import wheels

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
FORMAT = "custash programs 1"


def module_folder(name, environment):
    """Where the programs' Python finds a module; empty where it does not."""
    find = ("import importlib.util, os, sys; spec = importlib.util.find_spec(sys.argv[1]); "
            "print(spec.submodule_search_locations[0] if spec.submodule_search_locations else os.path.dirname(spec.origin))")
    done = subprocess.run([sys.executable, "-c", find, name], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def figures_of(rows, where):
    """The file of --json, and docs/programs.json: what was measured before goes into a later --from."""
    return json.dumps({"format": FORMAT, "machine": where, "rows": rows}, indent=1, ensure_ascii=False)


class Wall:
    def __init__(self, args):
        self.args = args
        self.end = time.monotonic() + 60 * args.minutes if args.minutes else None
        self.folder = args.folder
        self.rows = []

    def environment(self, more=()):
        env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "CUSTASH_CONF")}
        env["PYTHONPATH"] = ":".join(filter(None, [str(self.folder / "site"), env.get("PYTHONPATH")]))
        env["MPLBACKEND"] = "Agg"  # no program may wait for a screen
        env.update(more)
        return env

    def expand(self, program, word):
        places = {"python": sys.executable, "files": self.folder / program.key / "files",
                  "built": self.folder / program.key / "built", "data": self.folder / program.key / "data",
                  "site": self.folder / "site", "build": self.args.build, "tests": ROOT / "tests"}

        def path(place):
            name = place[1]
            return module_folder(name[7:], self.environment()) if name.startswith("module:") else str(places[name])

        return re.sub(r"\{(.*?)\}", path, word)

    def why_not(self, program):
        """Why the program cannot start here; empty where it can."""
        if program.gpus > 1 and gpus() < program.gpus:
            return f"left out: it needs {program.gpus} GPUs"
        missing = [each for each in program.modules if not module_folder(each, self.environment())]
        if missing:
            return f"left out: this Python has no {', '.join(missing)}"
        if not program.ours and not fetch.is_there(program, self.folder / program.key / "files"):
            return "left out: its files are not here, or not those that the description names: --fetch"
        first = self.expand(program, program.start[0])
        return "" if os.access(first, os.X_OK) else f"left out: there is no {os.path.relpath(first, ROOT)}"

    def measure(self, program, way):
        words = [self.expand(program, word) for word in program.start]
        environment = self.environment({k: self.expand(program, v) for k, v in way.environment.items()})
        work = self.folder / program.key / "work"
        work.mkdir(parents=True, exist_ok=True)
        if program.data:
            data.make(self.folder / program.key / "data", **program.data)
        row = {"unit": program.unit, "higher": program.higher, "command": program.start, "environment": way.environment,
               "with": way.with_custash}
        try:
            line = compare.command(str(self.args.build / "tools/custash"), str(self.args.build / "interpose/libcustash.so"),
                                   program, way, words, self.args.rounds, self.args.warmup, self.picture(program, way))
            return {**row, **compare.figures(compare.run(line, environment, work, self.end), program)}
        except compare.Failed as why:
            return {**row, "why_not": f"failed: {why}"}

    def picture(self, program, way):
        """Where the picture of a comparison goes, if that was asked for."""
        name = "-".join(filter(None, [program.key, re.sub(r"\W+", "_", way.name)]))
        return self.args.pictures and str(self.args.pictures.resolve() / f"{name}.svg")

    def tried(self, program, way):
        """One program's fault must not lose the rest of the wall."""
        try:
            return self.measure(program, way)
        except Exception as why:  # pylint: disable=broad-exception-caught
            return {"why_not": f"failed: {type(why).__name__}: {why}"}

    def run(self, programs):
        for program in programs:
            why = self.why_not(program)
            for way in program.ways:
                if self.args.way and way.name not in self.args.way:
                    continue
                if self.end is not None and time.monotonic() > self.end:
                    why = "left out: there was no time left"
                print(f"{program.key}: {way.name or 'as it is'}", file=sys.stderr, flush=True)
                row = {"why_not": why} if why else self.tried(program, way)
                row = {"key": program.key, "name": program.name, "way": way.name, "release": program.release, **row}
                self.rows.append(row)
                if self.args.json:  # what there is, should the rest be cut off
                    self.args.json.write_text(figures_of(self.rows, machine()))
        return self.rows


def nvidia_smi():
    """A line for each GPU: its name and driver."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []


def gpus():
    return len(nvidia_smi())


def machine():
    """In words: the GPUs, their driver, the processors."""
    found = nvidia_smi()
    count = f"{len(found)} × " if len(found) > 1 else ""
    return f"{count}{found[0] if found else 'no GPU'}; {os.cpu_count()} processors"


AND = " and "  # between machines whose figures were put together


def merged(paths):
    """The rows of several calls; a later figure of one way replaces an earlier one."""
    rows, machines = {}, {}
    for path in paths:
        found = table.report.read_figures(path, {"format": FORMAT, "machine": None, "rows": None}, "tools/bench --programs")
        machines.update(dict.fromkeys(found["machine"].split(AND)))
        for row in found["rows"]:
            key = (row["key"], row["way"])
            if key not in rows or "why_not" not in row:
                rows[key] = row
    return list(rows.values()), AND.join(machines)


def document(rows, where):
    """The figures, the table and the picture into the documentation."""
    shown = table.measured(rows)
    if not shown:
        raise description.Mistake("nothing was measured: the documentation stays as it is")
    (ROOT / "docs/programs.json").write_text(figures_of(shown, where) + "\n")
    path = ROOT / "docs/programs.md"
    body = (f"## Results\n\nOn {where}:\n\n{table.table(shown)}\n"
            "![Third-party programs without and with custash: the ratio of each, with its noise](pictures/programs.svg)\n")
    path.write_text(table.report.between(path.read_text(), "programs", body))
    (ROOT / "docs/pictures/programs.svg").write_text(table.picture(rows))


def arguments(words=None):
    parser = argparse.ArgumentParser(prog="tools/bench --programs", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fetch", action="store_true", help="download what the programs need; measure nothing")
    parser.add_argument("--install", action="store_true", help="install the wheels that --fetch downloaded; measure nothing")
    parser.add_argument("--list", action="store_true", help="name the programs and their releases; measure nothing")
    parser.add_argument("--only", action="append", metavar="PROGRAM", help="only this program; may be repeated")
    parser.add_argument("--way", action="append", metavar="NAME", help="only the way of this name; may be repeated")
    parser.add_argument("--pictures", type=pathlib.Path, metavar="FOLDER", help="a picture of each comparison, too")
    parser.add_argument("--rounds", type=table.report.count, default=10, help="measured runs of each side (10)")
    parser.add_argument("--warmup", type=int, default=1, help="runs of each side before these (1)")
    parser.add_argument("--minutes", type=table.report.minutes, help="stop after that time, with the rounds that are complete; name what is left out")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/programs", help="where the fetched files are")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="another folder, built already")
    parser.add_argument("--no-build", action="store_true", help="do not build first")
    parser.add_argument("--python-version", default=f"{sys.version_info.major}.{sys.version_info.minor}",
                        help="the Python that the wheels are for (this one)")
    parser.add_argument("--json", type=pathlib.Path, help="write every figure to this file")
    parser.add_argument("--from", dest="source", type=pathlib.Path, nargs="+", metavar="JSON",
                        help="measure nothing; take the figures that --json wrote")
    parser.add_argument("--docs", action="store_true", help="write the table and the picture into docs/programs.md")
    args = parser.parse_args(words)
    args.folder, args.build = args.folder.resolve(), args.build.resolve()
    return parser, args


def chosen(parser, args):
    programs = description.read_all()
    unknown = set(args.only or ()) - {each.key for each in programs}
    if unknown:
        parser.error(f"no program {' '.join(sorted(unknown))}: see --list")
    return [each for each in programs if not args.only or each.key in args.only]


def write(args, rows, where):
    print(table.table(rows), end="")
    if args.docs:
        document(rows, where)
    if not table.measured(rows) and all(row["why_not"].startswith("left out") for row in rows):
        return SKIPPED
    failed = any(row.get("why_not", "").startswith("failed") for row in rows)
    return int(failed or not all(row["same"] for row in table.measured(rows)))


def main():
    parser, args = arguments()
    try:
        if args.source:
            return write(args, *merged(args.source))
        programs = chosen(parser, args)
        if args.list:
            for program in programs:
                print(f"{program.key:16} {program.release:28} {program.name}")
        elif args.fetch:
            fetch.fetch(programs, args.folder, args.python_version, Wall(args).expand)
        elif args.install:
            wheels.install(programs, args.folder)
        else:
            return write(args, Wall(args).run(programs), machine())
    except (description.Mistake, table.report.Unreadable) as mistake:
        print(f"tools/bench: {mistake}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
