#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mutants.py --programs FOLDER [--library … --driver … --process … --conformance …] [--every] [RULE…]

Leaves out one ordering rule at a time (allocator/base/rule.hpp) and runs the tests that docs/testing.md names
for it: each of them must fail. Before that each must pass with all rules kept. --every asks all
tests, those that take long too, and says who finds a rule: the rules named, or else those that the
page calls equivalent, which nobody may find.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "testing.md")
HEADING = "## Rules removed one by one"
NO_SUCH_RULE = 2  # without.cpp ends so
FAILURES = "40"  # of other kinds may come first
LIMIT = 120  # seconds of one test; a removed rule that hangs it is no find
WHOLE = {"process": "process", "conformance": "conformance/driver"}  # tests of whole processes: their folder


def rows_of(page):
    """(rule, files, what it keeps, found by) of each row of the section's table."""
    section = page.split(HEADING + "\n", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip().strip("|").split(" | ")]
            for line in section.splitlines() if line.startswith("| `")]
    return [(row[0].strip("`"), re.findall(r"`([^`]+)`", row[1]), row[2], row[3]) for row in rows]


def finders_of(cell):
    """Its finders as tuples: (program, argument, …). None of a rule that no program can tell."""
    if cell.startswith("equivalent: "):
        return []
    finders = []
    for each in cell.split("; "):
        unit = re.fullmatch(r'(unit|unit_pinned) "(.+)"', each)
        random = re.fullmatch(r"(property|property_pinned) (\d+)(?: (\w+))?", each)
        process = re.fullmatch(r"(process|conformance) `(\w+)\.py:(\w+\.\w+)`", each)
        found = unit or random or process
        if not found:
            raise ValueError(f"no finder: {each}")
        finders.append(found.groups())
    return finders


class Bench:
    """Runs tests with one rule left out, or none."""

    def __init__(self, paths):
        self.paths = paths

    def command(self, finder):
        kind, *rest = finder
        own = os.path.join(self.paths.programs, kind + "_without")
        if kind.startswith("unit"):
            # As Catch wants it: these have a meaning in a name.
            return [own, re.sub(r"([,\[\]\\])", r"\\\1", rest[0])] if rest else [own]
        if kind.startswith("property"):
            return [own, rest[0], "1", FAILURES if rest[1] else "1"]
        tests = os.path.join(ROOT, "tests", WHOLE[kind], rest[0] + ".py")
        return [sys.executable, tests, "--library", self.paths.library, "--driver", self.paths.driver,
                "--programs", getattr(self.paths, kind), "--only", rest[1]]

    def can(self, finder):
        return finder[0] not in WHOLE or bool(self.paths.library)

    def run(self, finder, rule=None):
        """(exit code, output); the code is None when it did not end."""
        env = {k: v for k, v in os.environ.items() if k != "CUSTASH_WITHOUT_RULE"}
        if rule is not None:
            env["CUSTASH_WITHOUT_RULE"] = rule
        with tempfile.TemporaryDirectory() as folder:
            try:
                done = subprocess.run(self.command(finder), env=env, cwd=folder, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=LIMIT, check=False)
            except subprocess.TimeoutExpired:
                return None, f"not over after {LIMIT} s"
        return done.returncode, done.stdout.decode(errors="replace")

    def passes(self, finder):
        """What is wrong when all rules are kept; a test that does not exist runs nothing."""
        code, out = self.run(finder)
        ran = re.search(r"All tests passed|programs, \d+ rejected on bare, 0 failed|^OK", out, re.M)
        return "" if code == 0 and ran else f"fails with all rules kept: {finder}: {code}\n{out[-2000:]}"

    def finds(self, finder, rule):
        """Why the test does not notice that the rule is gone; nothing when it does."""
        code, out = self.run(finder, rule)
        if code is None or code == 0:
            return f"{rule}: not found by {finder}: {'passes' if code == 0 else out}"
        if "CUSTASH_WITHOUT_RULE: no rule" in out:
            return f"{rule}: no such rule in the test build"
        kind = finder[2] if finder[0].startswith("property") else None
        if kind and not re.search(rf"^VIOLATION {kind} ", out, re.M):
            return f"{rule}: found by {finder}, but not as {kind}"
        return ""


def self_test(bench):
    """A rule that does not exist, and a test that does not test the rule, must be told."""
    code, out = bench.run(("unit",), "no_such_rule")
    assert code == NO_SUCH_RULE and "no rule is called no_such_rule" in out, (code, out)
    blind = ("unit", "a free does not wait for a running kernel")
    assert bench.finds(blind, "streams_pay_what_is_owed"), "a blind test is taken for a finder"
    assert not bench.finds(("unit", "the first submission on another stream pays the debt, once"),
                           "streams_pay_what_is_owed")
    assert bench.passes(("unit", "no such test case")), "a test that is not there passes"
    assert to_pass([("property", "9", None), ("unit", "a"), ("property", "10", "race"), ("unit", "a")]) == [
        ("property", "10", "race"), ("unit", "a")]


def to_pass(finders):
    """Those that must pass with all rules kept: of programs that begin alike the longest run."""
    longest = {}
    for finder in finders:
        name = finder[:1] if finder[0].startswith("property") else finder
        longest[name] = max(longest.get(name, finder), finder, key=lambda each: int(each[1]) if len(name) == 1 else 0)
    return sorted(longest.values(), key=str)


def check(bench, rows):
    """Problems, and how many were looked at."""
    named = [(rule, finder) for rule, _, _, cell in rows for finder in finders_of(cell)]
    able = [(rule, finder) for rule, finder in named if bench.can(finder)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(filter(None, pool.map(bench.passes, to_pass(finder for _, finder in able))))
        problems += filter(None, pool.map(lambda each: bench.finds(each[1], each[0]), able))
    for rule, finder in named:
        if not bench.can(finder):
            print(f"skipped, as there is no library to preload: {rule}")
    return problems, len(able)


def ask_every(bench, rows):
    """Who finds each rule, of all tests; a problem for each that nobody finds."""
    every = [("unit",), ("unit_pinned",), ("property", "5000", None), ("property_pinned", "5000", None)]

    def ask(row):
        rule, _, _, cell = row
        asked = every + finders_of(cell)
        found = [finder for finder in asked if bench.can(finder) and not bench.finds(finder, rule)]
        print(f"{rule}: {found or 'nobody'}", flush=True)
        if bool(found) != cell.startswith("equivalent: "):
            return ""
        return f"{rule}: {'called equivalent, and found' if found else 'found by nobody'}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(filter(None, pool.map(ask, rows)))
    return problems, len(rows)


def main():
    parser = argparse.ArgumentParser()
    for name in ("programs", "library", "driver", *WHOLE):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--every", action="store_true")
    parser.add_argument("rules", nargs="*")
    paths = parser.parse_args()
    with open(PAGE, encoding="utf-8") as file:
        rows = rows_of(file.read())
    if paths.rules:
        rows = [row for row in rows if row[0] in paths.rules]
    elif paths.every:
        rows = [row for row in rows if not finders_of(row[3])]
    begin = time.monotonic()
    bench = Bench(paths)
    self_test(bench)
    problems, asked = (ask_every if paths.every else check)(bench, rows)
    for problem in problems:
        print(problem)
    print(f"{len(rows)} rules, {asked} finds asked for, {len(problems)} problems, "
          f"{time.monotonic() - begin:.0f} s")
    return 1 if problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
