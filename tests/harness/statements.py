# SPDX-License-Identifier: MIT
"""tests/harness/README.md names tests that exist, for each of S1 to S37, and every test of the suite
whose name begins with a number stands there."""
import argparse
import os
import re
import subprocess
import sys

STATEMENTS = [f"S{number}" for number in range(1, 38)]


def listed(suite, runtime):
    """The names of the suite's tests. Catch2 v2 and v3 differ in how they are asked."""
    env = dict(os.environ, LD_LIBRARY_PATH=runtime)
    for how in (["--list-test-names-only"], ["--list-tests", "--verbosity", "quiet"]):
        done = subprocess.run([suite, *how], env=env, capture_output=True, text=True, check=False)
        names = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        if any(name.startswith("S1 ") for name in names):
            return names
    sys.exit(f"the suite lists no tests: {done.stdout}{done.stderr}")


def problems_of(text, names):
    rows = re.findall(r"^\| (S\d+) \|.*\| ([^|]+) \|$", text, re.M)
    problems = [f"{s} has no row" for s in STATEMENTS if s not in {row[0] for row in rows}]
    told = set()
    for statement, tests in rows:
        quoted = re.findall(r"`([^`]+)`", tests)
        if not quoted:
            problems.append(f"{statement} names no test")
        for test in quoted:
            told.add(test)
            if test not in names:
                problems.append(f"{statement}: there is no test `{test}`")
            elif not test.startswith(statement + " "):
                problems.append(f"{statement}: `{test}` carries another number")
    problems += [f"`{name}` is in no row" for name in names
                 if re.match(r"S\d+ ", name) and name not in told]
    return problems


def self_test():
    """Each planted fault is found."""
    names = [f"{s} holds" for s in STATEMENTS]
    good = "\n".join(f"| {s} | says | `{s} holds` |" for s in STATEMENTS)
    assert not problems_of(good, names)
    for text, tests in ((good.replace("| S7 ", "| T7 "), names), (good.replace("`S9 holds`", "later"), names),
                        (good, names[1:]), (good, names + ["S3 holds twice"]),
                        (good.replace("`S5 holds`", "`S6 holds`"), names)):
        assert problems_of(text, tests)


def main():
    parser = argparse.ArgumentParser()
    for name in ("suite", "runtime", "page"):
        parser.add_argument("--" + name, required=True)
    args = parser.parse_args()
    self_test()
    with open(args.page, encoding="utf-8") as page:
        problems = problems_of(page.read(), listed(args.suite, args.runtime))
    print("\n".join(problems) or "every statement has its tests")
    sys.exit(1 if problems else 0)


main()
