# SPDX-License-Identifier: MIT
"""check.py BUILD-FOLDER MODEL [--nightly] [--rule RULE]: searches one Promela model exhaustively with Spin.

Each configuration of a model is searched as the code is built: there must be no violation. Then with each of its
rules taken out: there must be one. Then with each thing that is known to be open: there must be one, so that
the day it is mended this test says so. A rule that is `equivalent` may be taken out; why, docs/testing.md says.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY_MIB = 3000
NIGHTLY_MEMORY_MIB = 12000  # the largest took 7 GiB and four minutes
SKIP = 77


# By the last thread and the last branch first, a violation is found after a tenth of the states, or fewer. So compiling costs more than running.
WITH_VIOLATION = "pan_from_the_end"
PROGRAMS = {"pan": ["-O2"], WITH_VIOLATION: ["-O0", "-DREVERSE", "-DT_REVERSE"]}


class Bounds:
    """A model with bounds: `ends` looks for threads that stand still as well (others end by their budget)."""

    def __init__(self, name, model, defines, removed=(), known=(), equivalent=(), ends=False, nightly=False):
        self.name, self.model, self.defines = name, model, defines
        self.removed, self.known, self.equivalent = removed, known, equivalent
        self.ends, self.nightly = ends, nightly


PENDING = ("counted_before_driver", "covers_read_after_record", "retire_ignores_pending",
           "last_raised_after_pending", "pending_raised_late")
TABLE = [
    Bounds("one-thread", "reuse", "THREADS=1 CALLS=6 S=3 B=2",
           removed=("debt_not_taken", "debt_not_paid", "lane_of_several", "free_takes_late_fence",
                    "fence_at_reuse", "stream_order_ignored", "pressure_waits_for_all", "pressure_waits_for_ever",
                    "plain_memory_freed_at_once", "marks_of_others_count")),
    Bounds("one-busy-stream", "reuse", "THREADS=1 CALLS=6 S=2 B=2 WARM=1 TWIN=0",
           removed=("freed_since_the_mark_counts",)),
    Bounds("busy-streams", "reuse", "THREADS=1 CALLS=6 S=3 B=2 WARM=2 TWIN=0", removed=("wait_is_no_submission",)),
    Bounds("two-threads", "reuse", "THREADS=2 CALLS=5 CALLS_OF_SECOND=1 S=2 B=1 STREAMED=0 WARM=1",
           removed=PENDING, known=("known_free_before_return", "known_two_host_threads")),
    Bounds("capture", "capture", "OPS=2 WORKERS=2 CAPTURES=1", ends=True,
           removed=("no_pass", "gate_of_one_timeline", "step_does_not_wait", "pass_does_not_look", "wait_is_no_step",
                    "lane_not_asked", "no_tail_before_wait", "ended_before_driver", "counted_after_step",
                    "looks_before_counting", "paying_stream_not_asked", "capturing_asked_before_pass",
                    "nothing_prepared")),
    Bounds("peer-access", "peers", "CALLS=7 B=2",
           removed=("peers_do_not_pay", "paid_here_counts_abroad", "copies_do_not_pay", "graphs_pay_here_only")),
    Bounds("peer-at-work", "peers", "CALLS=7 B=2 WARM=1", removed=("pays_abroad_once",)),
    Bounds("no-place", "peers", "CALLS=6 B=2 NO_PLACE=1", removed=("owed_not_waited_for", "debt_in_spite_of_peers"),
           equivalent=("owed_taken_for_settled",)),
    Bounds("same-device", "peers", "CALLS=6 B=2 SAME_DEVICE=1", removed=("free_waits_here_only",)),
    Bounds("peer-threads", "peers", "CALLS=5 CALLS_OF_SECOND=2 B=2 NO_PLACE=1",
           removed=("hand_outs_not_waited_for", "flag_set_after_wait")),
    Bounds("ends", "ends", "USERS=2 VISITS=2 CLOSES=2", ends=True,
           removed=("looks_before_counting", "close_does_not_wait", "late_user_goes_on", "leaves_without_notify",
                    "broken_before_abandoned", "others_frees_not_waited_for", "pages_back_at_abandon",
                    "abandoned_taken_for_over", "ended_before_driver", "late_user_leaves_quietly",
                    "abandoned_asked_first", "ending_taken_for_ended")),
    Bounds("membarrier", "thread_cache", "OPS=2 BLOCKS=2 ASYMMETRIC=1", ends=True,
           removed=("no_membarrier", "no_await", "owner_does_not_look", "owner_stays_busy", "used_cleared_late",
                    "leave_is_no_release", "looks_before_busy", "give_back_is_no_release", "asks_after_barrier",
                    "count_read_before_lock")),
    Bounds("no-membarrier", "thread_cache", "OPS=2 BLOCKS=2 ASYMMETRIC=0", ends=True,
           removed=("asked_is_acquire", "busy_is_acquire")),
    Bounds("unpaid", "unpaid", "TAKERS=2", ends=True,
           removed=("unpaid_is_relaxed", "unpaid_stored_relaxed", "debt_read_relaxed", "debt_taken_relaxed",
                    "asks_before_taking", "granter_does_not_wait")),
    Bounds("sleep", "sleep", "OPS=2 SLEEPS=1", ends=True,
           removed=("submissions_do_not_ask", "nothing_barred", "work_not_waited_for", "calls_not_waited_for",
                    "pending_raised_late", "opened_before_contents", "looks_before_counting",
                    "holders_not_waited_for", "reopened_without_notify", "capture_asked_first",
                    "capture_does_not_pass", "two_wake", "pending_kept_at_gate", "made_without_look",
                    "listed_before_closing", "end_does_not_hold", "failed_copy_taken_for_done",
                    "waking_not_given_up", "failed_portion_opens")),
    Bounds("room", "room", "ROUNDS=2", ends=True,
           removed=("locks_are_waited_for", "stopped_is_waited_for", "part_is_kept", "wakers_do_not_look",
                    "killed_keeps_its_turn", "allocation_keeps_awake")),
    # Larger bounds, and the rules that are equivalent.
    Bounds("one-thread-7", "reuse", "THREADS=1 CALLS=7 S=3 B=2", nightly=True),
    Bounds("one-thread-equivalent", "reuse", "THREADS=1 CALLS=6 S=3 B=2", nightly=True,
           equivalent=("debt_lane_kept", "late_fence_waited_for")),
    Bounds("capture-3", "capture", "OPS=3 WORKERS=2 CAPTURES=1", ends=True, nightly=True),
    Bounds("peer-access-8", "peers", "CALLS=8 B=2", nightly=True),
    Bounds("sleep-twice", "sleep", "OPS=1 SLEEPS=2", ends=True, nightly=True),
    Bounds("ends-3", "ends", "USERS=3 VISITS=1 CLOSES=2", ends=True, nightly=True),
]


def rules_of(model):
    """Names of the rules in a model, each with its kind and number."""
    with open(os.path.join(HERE, model + ".pml"), encoding="utf-8") as file:
        return {name: (kind, number) for name, kind, number in
                re.findall(r"#define (\w+) \((removed|known) == (\d+)\)", file.read())}


def build(bounds, folder):
    """Spin writes a search in C; it and what it is made from lie in the build folder."""
    os.makedirs(folder, exist_ok=True)
    defines = ["-D" + each for each in bounds.defines.split()]
    made = subprocess.run(["spin", "-a", *defines, os.path.join(HERE, bounds.model + ".pml")], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if made.returncode != 0 or "rror" in made.stdout:
        sys.exit(f"{bounds.name}: spin: {made.stdout}{made.stderr}")
    for program, how in PROGRAMS.items():
        subprocess.run([os.environ.get("CC", "cc").split()[-1], "-w", "-DSAFETY", *how,
                        f"-DMEMLIM={NIGHTLY_MEMORY_MIB if bounds.nightly else MEMORY_MIB}", "-o", program, "pan.c"], cwd=folder, check=True)


def search(bounds, folder, program, **rule):
    """How many states there are, and the violation or None. Anything but a whole search ends the test."""
    environment = {k: v for k, v in os.environ.items() if k not in ("REMOVED", "KNOWN")}
    environment.update(rule)
    ran = subprocess.run([os.path.join(folder, program), "-m200000", "-w24", *([] if bounds.ends else ["-E"])],
                         cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = ran.stdout + ran.stderr
    states = re.search(r"(\d+) states, stored", said)
    errors = re.search(r"errors: (\d+)", said)
    violation = re.search(r"^pan:1: (.*)", said, re.M)
    whole = "Search not completed" not in said and "search depth too small" not in said
    if ran.returncode != 0 or not states or not errors or (int(errors[1]) == 0) != whole or \
            (int(errors[1]) != 0 and not violation):
        sys.exit(f"{bounds.name} {rule}: the search did not end: {said[-2000:]}")
    return int(states[1]), violation[1][:60] if violation else None


def check(bounds, folder, only=None):
    """Prints a line a search; returns the problems. `only`: as built and without this rule, nothing else."""
    problems = []
    rules = rules_of(bounds.model)
    build(bounds, folder)

    def one(title, wanted, **rule):
        start = time.monotonic()
        states, violation = search(bounds, folder, WITH_VIOLATION if wanted else "pan", **rule)
        good = (violation is not None) == wanted
        print(f"{bounds.name}: {title}: {states:,} states, {violation or 'no violation'}, "
              f"{time.monotonic() - start:.1f} s{'' if good else ': NOT AS EXPECTED'}", flush=True)
        if not good:
            problems.append(f"{bounds.name}: {title}")

    print(f"{bounds.name}: {bounds.model}.pml, {bounds.defines}")
    one("as built", False)
    for name in bounds.removed if only is None else [only]:
        one("with " + name, True, REMOVED=rules[name][1])
    for name in bounds.equivalent if only is None else []:
        one("equivalent with " + name, False, REMOVED=rules[name][1])
    for name in bounds.known if only is None else []:
        one(name, True, KNOWN=rules[name][1])
    return problems


def unused_rules(model):
    """Each rule of a model is in some row of the table, of its own kind."""
    rows = [row for row in TABLE if row.model == model]
    removed = {name for row in rows for name in row.removed + row.equivalent}
    known = {name for row in rows for name in row.known}
    return [f"{model}.pml: {name} is in no row" for name, (kind, _) in rules_of(model).items()
            if name not in (removed if kind == "removed" else known)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="build folder")
    parser.add_argument("model", choices=sorted({row.model for row in TABLE}))
    parser.add_argument("--nightly", action="store_true", help="the larger bounds only")
    parser.add_argument("--rule", help="only the bounds in which this rule is taken out: as built, and without it")
    options = parser.parse_args()
    if not shutil.which("spin"):
        print("skipped: spin is not installed (Debian's package spin)")
        sys.exit(SKIP)
    problems = unused_rules(options.model)
    rows = [row for row in TABLE if row.model == options.model and row.nightly == options.nightly and
            options.rule in (None, *row.removed)]
    for row in rows:
        problems += check(row, os.path.join(os.path.abspath(options.folder), row.name), options.rule)
    found = sum(len(row.removed) if options.rule is None else 1 for row in rows)
    print(f"{options.model}: {len(rows)} bounds, {found} removed rules, {len(problems)} problems")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems or not rows else 0)


main()
