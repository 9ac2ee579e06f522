#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs each planted fault of a program such as museum.cu under `custash run --check-memory` and says what was found.

  museum.py --command build/tools/custash --program build/tests/gpu/museum [--only NUMBER,...] [--conf KEY:VALUE,...] [--jobs N] [--json FILE]
            [--check memory|streams] [--right N] [--devices N] [--seconds N]

found: there is a finding. block: it names the right block, alone or among others. kind: it says rightly what happened, and that of the
right block alone. A fault whose address is not known counts as found and, where its block is among the suspects, for the block.
On the simulator (--driver, --runtime, --kernels) all faults are expected to be found, on a GPU too; the exit status is 1 if one is not. It is
1, too, where less than 95 % of them have the right block, or on a GPU the right kind: the simulator does not tell a fault's address.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

import limited

SKIPPED = 77
LEAST = 0.95  # of the faults have the right block, and on a GPU the right kind


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--library", default="")
    parser.add_argument("--driver", default="", help="folder of the simulated driver")
    parser.add_argument("--runtime", default="", help="folder of the runtime")
    parser.add_argument("--kernels", default="", help="what the kernels do on the simulator")
    parser.add_argument("--only", default="")
    parser.add_argument("--conf", default="")
    parser.add_argument("--check", choices=("memory", "streams"), default="memory")
    parser.add_argument("--right", type=int, default=2, help="so many right programs there are")
    parser.add_argument("--devices", type=int, default=1, help="so many the simulator has")
    parser.add_argument("--jobs", type=int, default=1, help="so many at a time")
    parser.add_argument("--seconds", type=float, default=60, help="for one program; more is a failure")
    parser.add_argument("--json", default="", help="write every finding to this file")
    return parser.parse_args()


def environment(given):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CUSTASH")}
    folders = [f for f in (given.driver, given.runtime) if f]
    if folders:
        env["LD_LIBRARY_PATH"] = ":".join(folders + [env.get("LD_LIBRARY_PATH", "")]).strip(":")
    if given.driver:
        env["CUSTASH_SIM"] = f"devices={given.devices}"
    if given.kernels:
        env["CUSTASH_SIM_KERNELS"] = given.kernels
    return env


def plant(given, *words):
    """One program: what was expected, (kind, address, bytes) each, and the report. None: there is no GPU."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "found.json")
        command = [given.command, "run", f"--check-{given.check}", "--json", path]
        command += ["--lib", given.library] if given.library else []
        command += ["--conf", given.conf] if given.conf else []
        output, status, errors = limited.run([*command, "--", given.program, *words], environment(given), given.seconds)
        if status == SKIPPED:
            return None
        report = {"findings": []}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        expected = [(kind, int(address, 16), int(size))
                    for kind, address, size in re.findall(r"^expect (\w+) (\S+) (\d+)$", output, re.M)]
        return {"words": words, "status": status, "expected": expected, "findings": report["findings"], "errors": errors}


def judge(result):
    """(found, right block, right kind)"""
    def is_block(suspect, want):
        return (int(suspect["address"], 16), suspect["bytes"]) == want[1:]

    findings = result["findings"]
    block = any(is_block(s, want) for f in findings for s in f["suspects"] for want in result["expected"])
    kind = any(len(f["suspects"]) == 1 and is_block(f["suspects"][0], want) and f["suspects"][0]["kind"] == want[0]
               for f in findings for want in result["expected"])
    return bool(findings), block, kind


def wrong(result):
    """Findings that are certain, and about another block than the planted fault's."""
    blocks = [want[1:] for want in result["expected"]]
    return [f for f in result["findings"] if f["certain"] and
            not any((int(s["address"], 16), s["bytes"]) in blocks for s in f["suspects"])]


def main():
    given = arguments()
    listed = subprocess.run([given.program], env=environment(given), capture_output=True, text=True, check=True).stdout
    faults = [line.split(" ", 1) for line in listed.splitlines()]
    if given.only:
        faults = [fault for fault in faults if fault[0] in given.only.split(",")]
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        planted = pool.map(lambda fault: plant(given, fault[0]), faults)
        return say(given, faults, planted)


def say(given, faults, planted):
    results = []
    for (number, name), result in zip(faults, planted):
        if result is None:
            print("skipped: no GPU")
            return SKIPPED
        result["name"] = name
        result["found"], result["block"], result["kind"] = judge(result)
        result["wrong"] = len(wrong(result))
        results.append(result)
        marks = " ".join(word if result[word] else "-" * len(word) for word in ("found", "block", "kind"))
        print(f"{number:>3} {marks}  {name}" + ("" if result["found"] else f" (status {result['status']}: {result['errors'][-200:]!r})") +
              (f"  WRONG {result['wrong']}" if result["wrong"] else ""), flush=True)
    count = {word: sum(r[word] for r in results) for word in ("found", "block", "kind")}
    right = [] if given.only else [plant(given, "right", str(number)) for number in range(given.right)]
    false = [r for r in right if r["findings"] or r["status"] != 0]
    for result in false:
        print(f"right program {result['words'][1]}: status {result['status']}, findings: {json.dumps(result['findings'])[:2000]}")
    print(f"{len(right)} right programs: {len(false)} with a finding or another status")
    print(f"{len(results)} faults: {count['found']} found, {count['block']} with the right block, {count['kind']} with the right block and "
          f"kind; {sum(r['wrong'] for r in results)} wrong")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    late = [result["name"] for result in results if result["status"] == limited.LATE]
    late += [" ".join(result["words"]) for result in right if result["status"] == limited.LATE]
    if late:
        print(f"not over after {given.seconds:g} s: {', '.join(late)}")
    exact = not late and all(count[word] >= LEAST * len(results) for word in ("block", *(() if given.driver else ("kind",))))
    return 0 if count["found"] == len(results) and exact and not false and not any(r["wrong"] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
