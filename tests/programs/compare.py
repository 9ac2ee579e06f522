# SPDX-License-Identifier: MIT
"""The one place that calls `custash compare` and reads its JSON (docs/performance.md)."""
import json
import math
import signal
import subprocess
import time

FORMAT = "custash comparison 1"
PATIENCE = 8  # seconds: after Ctrl-C, custash gives the program 5 to end


class Failed(Exception):
    """The comparison gave no result; the text says why."""


def command(custash, library, program, way, words, rounds, warmup, picture=None):
    options = ["--runs", str(rounds), "--warmup", str(warmup), "--lib", library, "--timeout", str(program.timeout)]
    if program.metric:
        options += ["--metric", program.metric, *(["--metric-higher"] if program.higher else [])]
    if picture:
        options += ["--export", picture]
    for name, value in way.with_custash.items():
        options += ["--with-env", f"{name}={value}"]
    for pattern in program.ignore:
        options += ["--ignore", pattern]
    return [custash, "compare", "--json", *options, "--", *words]


def finished(line, environment, folder, end):
    """Runs the command, until `end` by the monotonic clock. After Ctrl-C it waits for custash, which ends the program; killed, it could not."""
    with subprocess.Popen(line, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace") as process:
        try:
            out, errors = process.communicate(timeout=None if end is None else max(0, end - time.monotonic()))
        except (KeyboardInterrupt, subprocess.TimeoutExpired) as why:
            if isinstance(why, subprocess.TimeoutExpired):
                process.send_signal(signal.SIGINT)  # it reports the rounds that are complete
            try:
                out, errors = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise why from None
            if isinstance(why, KeyboardInterrupt):
                raise
        return subprocess.CompletedProcess(line, process.returncode, out, errors)


def run(line, environment, folder, end=None):
    """The comparison. Its exit status 1 says that the sides differ, which the JSON says, too."""
    done = finished(line, environment, folder, end)
    if done.returncode not in (0, 1, 128 + signal.SIGINT):
        raise Failed(f"custash compare: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}")
    try:
        found = json.loads(done.stdout)
    except json.JSONDecodeError as why:
        raise Failed(f"custash compare printed no JSON: {done.stderr.strip()[-400:]}") from why
    if found.get("format") != FORMAT:
        raise Failed(f"custash compare printed {found.get('format')!r}, not {FORMAT!r}")
    if found["interrupted"] and not found["rounds"]:
        raise Failed("the time ended before a round was complete")
    if found["failure"]:
        why, said = found["failure"], " ".join(done.stderr.split())  # which has what the program wrote last, too
        raise Failed(said[said.find(why):][:400] if why in said else why)
    if not found["served"] or found["served"]["processes"] == 0:
        raise Failed("it did not use CUDA")  # some programs then work without a GPU
    return found


def share(served):
    """Of the allocations that custash may serve, and of their bytes; None where the program makes none."""
    if served["allocations_servable"] == 0:
        return None
    return [served["allocations"] / served["allocations_servable"],
            served["requested_bytes"] / max(1, served["requested_bytes_servable"])]


def figures(found, program):
    """What the wall keeps of it."""
    name = "metric" if program.metric else "wall time"
    key = "metric" if program.metric else "wall_s"
    row = next(each for each in found["results"] if each["name"] == name)
    values = {side: [each[side][key] for each in found["rounds"]] for side in ("without", "with")}
    for value in values["without"] + values["with"]:
        if not (math.isfinite(value) and value > 0):
            raise Failed(f"the {name} is {value:g}: no ratio can be made of it")
    memory = next((each for each in found["results"] if each["name"].startswith("peak")), None)
    return {
        **values,
        "p": row["p"],
        "with_custash": row["with_custash"],
        "same": found["same"],
        "difference": found["output_differs"],
        "calls_avoided": found["served"]["calls_avoided"],
        "share": share(found["served"]),
        "passed": found["served"]["passed"],
        "memory": memory and [memory[side]["median"] for side in ("without", "with")],
        "verdicts": found["verdicts"],
        "warnings": found["warnings"],
    }
