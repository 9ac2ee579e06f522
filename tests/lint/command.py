# SPDX-License-Identifier: MIT
"""The command's contract: what the program sees, and every exit code. Argument: the command."""
import os
import shutil
import subprocess
import sys
import tempfile

from source import finish

COMMAND = sys.argv[1]
LIBRARY = os.path.realpath(os.path.join(os.path.dirname(COMMAND), "../interpose/libcustash.so"))
TRACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../traces/serving.trace.xz")
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


def fails(why, *words, code=125, **environment):
    done = run(*words, **environment)
    expect(" ".join(words), done, code=code, out="", err=f"custash: {why}")
    if done.stderr.count("\n") != 1:
        problems.append(f"{words}: not one line: {done.stderr!r}")


def misuse():
    """A wrong command line is told in one line, with a hint where one is near."""
    fails("no command given; see custash --help")
    fails("rnu: no such command; did you mean run?\n", "rnu", "--", "true")
    fails("nvidia-smi: no such command (custash --help lists them; custash run -- nvidia-smi", "nvidia-smi")
    fails("--sumary: no such option; did you mean --summary? (custash run --help)", "run", "--sumary", "--", "true")
    fails("--versoin: no such option; did you mean --version? (custash --help)", "--versoin")
    fails("--nonsense: no such option (custash top --help)", "top", "--nonsense")
    fails("x: this command takes no such word (custash top --help)", "top", "x")
    fails("--record needs a value: FILE (custash run --help)", "run", "--record", "--", "true")
    fails("--conf needs a value: KEY:VALUE,... (custash run --help)", "run", "--conf")
    fails("pid: abc is not the number of a process (custash stat --help)", "stat", "abc")
    fails("pid: 0 is not the number of a process (custash trim --help)", "trim", "0")
    fails("shell: tcsh is none of bash, zsh and fish (custash completion --help)", "completion", "tcsh")
    fails("10q is not a size", "trim", str(os.getpid()), "10q")
    for size in ("10k", "1.5G", "100MB", "100MiB", "7"):
        fails(f"process {os.getpid()} does not run under custash", "trim", str(os.getpid()), size, code=1)
    fails("/bin/sh: no snapshot: it is an ELF program or library\n", "report", "/bin/sh", code=1)
    fails(f"{__file__}: no snapshot: no JSON at byte 1\n", "report", __file__, code=1)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(b"[1,2]")
        file.flush()
        fails(f"{file.name}: no snapshot", "report", file.name, code=1)
        fails("page.txt: its ending is none of .html, .json, .pickle, .trace.json, .pb.gz, .folded", "report", file.name, "-o", "page.txt", code=1)
    for words in (("help",), ("help", "run")):
        expect("help", run(*words), out=run(*words[1:], "--help").stdout)
    fails("rnu: no such command; did you mean run?", "help", "rnu")
    expect("-V", run("-V"), out=run("--version").stdout)


def conf():
    """--conf is checked before anything starts, and can be printed."""
    for text, why in (("limit:1.5X", "limit:1.5X is not a number of bytes"), ("limit:1", "limit:1 is less than 2 MiB"),
                      ("bakcing:vmm", "unknown option 'bakcing'; did you mean 'backing'?\n"),
                      ("summary:true;limit:50%", "'summary:true;limit:50%': write a comma between options")):
        fails(f"--conf: {why}", "run", "--conf", text, "--", "sh", "-c", "echo started")
    expect("a mistake in the environment is the library's to tell",
           run("run", "--", "sh", "-c", "echo started", CUSTASH_CONF="limit:1.5X"), out="started\n")
    expect("--print-conf tells mistakes of the environment", run("run", "--print-conf", CUSTASH_CONF="x:1"),
           err="custash: CUSTASH_CONF: unknown option 'x'")
    rows = [line.split("|")[1].strip(" `") for line in run("options").stdout.splitlines() if line.startswith("| `")]
    plain = run("run", "--print-conf").stdout.splitlines()
    if [line.split(":")[0] for line in plain] != rows or any(" " in line for line in plain):
        problems.append(f"--print-conf prints {plain}")
    changed = run("run", "--print-conf", "--leaks", "--conf", "log:INFO", "--", "no-such-program",
                  CUSTASH_CONF="limit:50%,log:warn").stdout.splitlines()
    told = [line.split() for line in changed if line not in plain]
    if told != [["limit:50%", "CUSTASH_CONF"], ["log:INFO", "command", "line"], ["leaks:true", "command", "line"]]:
        problems.append(f"--print-conf of changed options prints {told}")
    for check, means in (("--check-streams", {"check_streams:true", "guard_report:-"}),
                         ("--check-memory", {"guard:all+fill", "guard_report:-"})):
        changed = {line.split()[0] for line in run("run", "--print-conf", check).stdout.splitlines() if line not in plain}
        if changed != means:
            problems.append(f"{check} means {changed}")
    fails("--conf guard_report: with a check, write --json a.json", "run", "--check-memory", "--conf", "guard_report:a.json", "--", "true",
          code=125)
    fails("--json needs --check-memory or --check-streams", "run", "--json", "found.json", "--", "true", code=125)


def full_disk():
    """Output that cannot be written is an error of every command that prints."""
    for words in (("version",), ("--version",), ("--help",), ("run", "--help"), ("options",), ("man",), ("help",),
                  ("completion", "bash"), ("run", "--print-conf"), ("top", "--once"), ("doctor", "--json"), ("replay", TRACE, "--plot", "-")):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([COMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        expect(f"{words} on a full disk", done, code=1, err="custash: standard output cannot be written")


def completion():
    """What bash offers for the last of some words. Colons are words of their own in bash."""
    script = run("completion", "bash").stdout + """
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _custash; echo "${COMPREPLY[*]}"
    """
    for words, offered in ((("re",), "report replay"), (("help", "t"), "top trim"), (("run", "--re"), "--record --record-history"),
                           (("run", "--conf", "ba"), "backing:"), (("run", "--conf", "backing", ":", "d"), "driver"),
                           (("run", "--conf", "backing", ":"), "auto vmm whole driver"),
                           (("run", "--conf", "limit", ":", "50%,su"), "50%,summary:"),
                           (("replay", "--backend", ""), "sim cuda"),
                           (("completion", ""), "bash zsh fish"), (("stat", "--patience", ""), ""),
                           (("run", "--lib", "command.p"), "command.py"), (("replay", "command.p"), "command.py"),
                           (("top", "--delay", "command.p"), "")):
        done = subprocess.run(["bash", "-c", script, "bash", "custash", *words], capture_output=True, text=True, check=False,
                              cwd=os.path.dirname(os.path.abspath(__file__)))
        expect(f"completion of {words}", done, out=offered + "\n")
    for shell in ("bash", "zsh", "fish"):
        if shutil.which(shell):
            expect(f"{shell} reads its script",
                   subprocess.run([shell, "-n"], input=run("completion", shell).stdout, capture_output=True, text=True,
                                  check=False))


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
           err="custash: no process reported the use of CUDA: no summary\n")
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
        script = plain + ".py"
        with open(script, "w", encoding="utf-8") as file:
            file.write("import os, sys\nprint(sys.argv[1:], os.environ.get('CUSTASH_PYTHON'))\n")
        expect("a script of Python", run("run", script, "--x"), out="['--x'] None\n")
        expect("a script and its Python", run("run", "--", script, "y", CUSTASH_PYTHON=sys.executable),
               out="['y'] None\n")
        expect("a script and a Python that is gone", run("run", "--", script, CUSTASH_PYTHON="/none/python"),
               code=127, err="/none/python")
        expect("no script", run("run", "--", "none.py"), code=127, err="none.py: not found on PATH")
        with open(script, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho shell\n")
        os.chmod(script, 0o755)
        expect("a script with the right to execute", run("run", "--", script), out="shell\n")
    expect("version", run("version"), out=run("--version").stdout)
    help_text = run("run", "--help").stdout
    misuse()
    conf()
    full_disk()
    completion()
    for word in ("Examples", "LD_PRELOAD", "backing:auto|vmm|whole|driver", "Exit status"):
        if word not in help_text:
            problems.append(f"custash run --help lacks {word!r}")
    finish(problems, checked)


main()
