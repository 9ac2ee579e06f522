# SPDX-License-Identifier: MIT
"""docs/evidence.md is what docs/evidence.json makes of it, and its tests skip no more than the budget allows.

  evidence.py --add FILE…   adds the results in these files to docs/evidence.json, and writes docs/evidence.md
  evidence.py --write       writes docs/evidence.md
  evidence.py --clean       fails if the tree has changes that no commit has

Results are JSON: {"commit", "machine", "driver", "suites": {NAME: {"passed", "failed", "skipped": {REASON: COUNT}, "said"}}}.
tests/gpu/everything.py leaves such a file in its output folder. That of `tools/test --evidence` names neither commit nor
machine: it is the commit that is checked out, on the simulator. A commit "before COMMIT" is the last one that can have been
tested; that COMMIT has reported the result. A new row replaces the one of the same suite, machine and driver.
"""
import json
import os
import subprocess
import sys

from source import ROOT, finish, read

DATA, PAGE = "docs/evidence.json", "docs/evidence.md"
FORMAT = "custash evidence 1"
# The tests that all rows together may skip. Lower it whenever fewer do. To raise it, say in the commit message why they cannot run.
SKIPS = 1
HEAD = """# Evidence

This page lists what has never run on hardware, and then the latest result that was entered of each
suite on each kind of machine. A part without a row has no entered result. `tests/lint/evidence.py`
writes it from [evidence.json](evidence.json), and [testing.md](testing.md#evidence) says how to add
results.

## Never run on hardware

| what | tested instead |
| --- | --- |
"""
RAN = """
## What ran

For the simulator the columns count Meson tests; for a GPU, the programs of one part of
`tests/gpu/everything.py`, and in older rows the checks named in the last column. Age is the number
of commits between a row and the newest one. *before X*: the commit tested was not recorded, and X
reported the result.

| suite | machine | driver | commit | age | passed | failed | skipped | what it showed |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def key(row):
    return row["suite"], row["machine"], row["driver"]


def skips(row):
    return sum(row["skipped"].values())


def merged(data, results, describe):
    """The data with the results in place of older ones; `describe` gives the number of commits up to one, and its date."""
    for found in results:
        number, date = describe(found["commit"].split()[-1])
        for suite, counts in found["suites"].items():
            row = {"suite": suite, "machine": found["machine"], "driver": found["driver"], "commit": found["commit"], "number": number,
                   "date": date, "passed": counts["passed"], "failed": counts["failed"], "skipped": counts["skipped"], "said": counts["said"]}
            data["rows"] = [old for old in data["rows"] if key(old) != key(row)] + [row]
    data["rows"].sort(key=lambda row: (-row["number"], key(row)))
    return data


def page_of(data):
    newest = max((row["number"] for row in data["rows"]), default=0)
    never = [f"| {row['what']} | {row['instead']} |\n" for row in data["never"]]
    ran = []
    for row in data["rows"]:
        counts = ["–" if row[name] is None else f"{row[name]:,}" for name in ("passed", "failed")]
        skipped = "; ".join(f"{count}: {reason}" for reason, count in sorted(row["skipped"].items())) or "0"
        cells = [row["suite"], row["machine"], row["driver"], f"{row['commit']}, {row['date']}", str(newest - row["number"]), *counts, skipped, row["said"]]
        ran.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return HEAD + "".join(never) + RAN + "".join(ran)


def problems_of(data, page, budget):
    problems = [] if page == page_of(data) else [f"{PAGE} is not what {DATA} makes of it (tests/lint/evidence.py --write)"]
    count = sum(map(skips, data["rows"]))
    if count > budget:
        problems.append(f"{DATA}: {count} tests are skipped, {budget} may be (SKIPS in tests/lint/evidence.py): " +
                        "; ".join(f"{row['suite']}, {row['machine']}: {', '.join(row['skipped'])}" for row in data["rows"] if skips(row)))
    return problems


def git(*words):
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"evidence: {done.stderr.strip()}")
    return done.stdout.strip()


def describe(commit):
    return int(git("rev-list", "--count", commit)), git("show", "--no-patch", "--format=%cs", commit)


def expect_clean():
    if git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{DATA}", f":!{PAGE}"):
        sys.exit("evidence: the tree has changes that no commit has; commit them and test again")


def complete(results):
    """Results of the commit that is checked out have no name yet."""
    if "commit" not in results:
        expect_clean()
        results |= {"commit": git("rev-parse", "HEAD"), "machine": f"simulator, {os.uname().machine}", "driver": "simulated"}
    before = "before " if results["commit"].startswith("before ") else ""
    return results | {"commit": before + git("rev-parse", "--short=8", results["commit"].split()[-1])}


def save(data):
    for path, text in ((DATA, json.dumps(data, indent=1, ensure_ascii=False) + "\n"), (PAGE, page_of(data))):
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
            file.write(text)


def self_test():
    """A stale page and a skip too many are found; a new row replaces the old one of its kind alone."""
    def results(commit, machine, **counts):
        return {"commit": commit, "machine": machine, "driver": "1", "suites": {"unit": {"passed": 3, "failed": 0, "skipped": {}, "said": ""} | counts}}

    commits = {"aa": (7, "2026-01-01"), "bb": (9, "2026-01-02")}.get
    data = {"format": FORMAT, "never": [{"what": "Arm", "instead": "QEMU"}], "rows": []}
    merged(data, [results("before aa", "one"), results("aa", "two", skipped={"no tool": 2}), results("bb", "one", passed=4)], commits)
    assert [(row["commit"], row["machine"], row["passed"]) for row in data["rows"]] == [("bb", "one", 4), ("aa", "two", 3)], data
    page = page_of(data)
    assert "| aa, 2026-01-01 | 2 | 3 | 0 | 2: no tool |" in page and page.index("| Arm |") < page.index("| unit |"), page
    assert not problems_of(data, page, 2) and problems_of(data, page.replace("| 4 |", "| 5 |"), 2) and problems_of(data, page, 1)


def main():
    self_test()
    if sys.argv[1:] == ["--clean"]:
        return expect_clean()
    data = json.loads(read(DATA))
    if sys.argv[1:2] == ["--add"]:
        results = [complete(json.load(open(path, encoding="utf-8"))) for path in sys.argv[2:]]
        return save(merged(data, results, describe))
    if sys.argv[1:] == ["--write"]:
        return save(data)
    finish(problems_of(data, read(PAGE), SKIPS), len(data["rows"]))


main()
