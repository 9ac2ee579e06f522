# SPDX-License-Identifier: MIT
"""The command's contract: what the program sees, and every exit code. Argument: the command."""
import os
import subprocess
import sys
import tempfile

from source import finish

COMMAND = sys.argv[1]
LIBRARY = os.path.realpath(os.path.join(os.path.dirname(COMMAND), "../interpose/libcustash.so"))
SHOW = ["sh", "-c", 'printf "%s\\n" "$LD_PRELOAD" "$CUSTASH_CONF"']
problems = []
checked = 0


def run(*words, **environment):
    clean = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "CUSTASH_CONF")}
    return subprocess.run([COMMAND, *words], env={**clean, **environment}, capture_output=True, text=True,
                          check=False)


def expect(what, done, code=0, out=None, err=None):
    global checked
    checked += 1
    if done.returncode != code:
        problems.append(f"{what}: exit code {done.returncode}, not {code}: {done.stderr.strip()}")
    if out is not None and done.stdout != out:
        problems.append(f"{what}: printed {done.stdout!r}, not {out!r}")
    if err is not None and err not in done.stderr:
        problems.append(f"{what}: standard error lacks {err!r}: {done.stderr.strip()!r}")
    if err is None and done.stderr:
        problems.append(f"{what}: standard error is not empty: {done.stderr.strip()!r}")


def main():
    other = "/lib/x86_64-linux-gnu/libm.so.6"
    if not os.path.exists(other):
        other = LIBRARY
    expect("the library beside the command is found", run("run", "--", *SHOW), out=f"{LIBRARY}\n\n")
    expect("-- may be left out", run("run", *SHOW), out=f"{LIBRARY}\n\n")
    kept = f"{LIBRARY}:{other}" if other != LIBRARY else LIBRARY
    expect("LD_PRELOAD is kept, ours first", run("run", "--", *SHOW, LD_PRELOAD=other), out=f"{kept}\n\n")
    expect("ours stands there once", run("run", "--", *SHOW, LD_PRELOAD=f"{LIBRARY}:{other}"), out=f"{kept}\n\n")
    expect("the command line comes after the environment",
           run("run", "--summary", "--conf", "log:off", "--", "sh", "-c", 'echo "$CUSTASH_CONF"',
               CUSTASH_CONF="log:warn"), out="log:warn,log:off,summary:true\n",
           err="custash: no CUDA was used: no summary\n")
    expect("the program's options are its own", run("run", "--", "echo", "--summary", "--help", "--"),
           out="--summary --help --\n")
    expect("the program's exit code is kept", run("run", "--", "sh", "-c", "exit 3"), code=3)
    expect("no program", run("run"), code=125, err="no program given")
    expect("a wrong option", run("run", "--nonsense", "--", "true"), code=125, err="--nonsense")
    expect("no such library", run("run", "--lib", "/nowhere/lib.so", "--", "true"), code=125, err="/nowhere/lib.so")
    expect("no such program", run("run", "--", "no-such-program"), code=127, err="no-such-program")
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "plain")
        with open(plain, "w", encoding="utf-8") as file:
            file.write("data\n")
        expect("not a program", run("run", "--", plain), code=126, err=plain)
    expect("version", run("version"), out=run("--version").stdout)
    help_text = run("run", "--help").stdout
    for word in ("Examples", "LD_PRELOAD", "backing:auto|vmm|driver", "Exit status"):
        if word not in help_text:
            problems.append(f"custash run --help lacks {word!r}")
    finish(problems, checked)


main()
