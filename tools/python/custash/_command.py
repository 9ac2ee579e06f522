# SPDX-License-Identifier: MIT
"""Runs the command `custash` for the forms that the library does not write itself."""
import os
import shutil
import subprocess
import warnings

from . import _library


def find():
    """The one in this package (a wheel has it), else the one on PATH; None if there is none."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "custash")
    return own if os.path.exists(own) else shutil.which("custash")


def run(*words, given=None):
    """The output of the command, with `given` at its standard input. Raises Error with its complaint, or if there is no command."""
    command = find()
    if command is None:
        raise _library.Error(_library.FILE, "the command custash is not on PATH")
    env = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "CUSTASH_CONF")}
    done = subprocess.run([command, *words], env=env, input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _library.Error(_library.FILE, f"CUSTASH_ERROR_FILE: {done.stderr.strip()}")
    return done.stdout


def render(source, path):
    """Makes `path` from a snapshot's JSON, and removes that."""
    if find() is None:
        warnings.warn(f"{source} written; custash report {source} makes {path}, but the command is not on PATH", stacklevel=3)
        return
    run("report", os.path.abspath(source), "-o", os.path.abspath(path))  # a name may begin with a dash
    os.unlink(source)


def stat(device, *words):
    """`custash stat` of this process's numbers, which it need not ask for: it may not answer."""
    return run("stat", *words, given=_library.text("custash_stats_text", device, 0))
