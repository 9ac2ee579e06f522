# SPDX-License-Identifier: MIT
"""The one place that calls `custash compare` and reads its JSON (docs/compare.md)."""
import json
import subprocess

FORMAT = "custash comparison 1"


class Failed(Exception):
    """The comparison gave no result; the text says why."""


def command(custash, library, program, way, words, rounds, warmup):
    options = ["--runs", str(rounds), "--warmup", str(warmup), "--lib", library, "--timeout", str(program.timeout)]
    if program.metric:
        options += ["--metric", program.metric, *(["--metric-higher"] if program.higher else [])]
    for name, value in way.with_custash.items():
        options += ["--with-env", f"{name}={value}"]
    for pattern in program.ignore:
        options += ["--ignore", pattern]
    return [custash, "compare", "--json", *options, "--", *words]


def run(line, environment, folder):
    """The comparison. Its exit status 1 says that the sides differ, which the JSON says, too."""
    done = subprocess.run(line, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    if done.returncode not in (0, 1):
        raise Failed(f"custash compare: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}")
    try:
        found = json.loads(done.stdout)
    except json.JSONDecodeError as why:
        raise Failed(f"custash compare printed no JSON: {done.stderr.strip()[-400:]}") from why
    if found.get("format") != FORMAT:
        raise Failed(f"custash compare printed {found.get('format')!r}, not {FORMAT!r}")
    if found["failure"]:
        raise Failed(found["failure"])
    if not found["served"] or found["served"]["processes"] == 0:
        raise Failed("it did not use CUDA")  # some programs then work without a GPU
    return found


def figures(found, program):
    """What the wall keeps of it."""
    name = "metric" if program.metric else "wall time"
    key = "metric" if program.metric else "wall_s"
    row = next(each for each in found["results"] if each["name"] == name)
    memory = next((each for each in found["results"] if each["name"].startswith("peak")), None)
    return {
        **{side: [each[side][key] for each in found["rounds"]] for side in ("without", "with")},
        "p": row["p"],
        "with_custash": row["with_custash"],
        "same": found["same"],
        "difference": found["output_differs"],
        "calls_avoided": found["served"]["calls_avoided"],
        "memory": memory and [memory[side]["median"] for side in ("without", "with")],
        "verdicts": found["verdicts"],
        "warnings": found["warnings"],
    }
