# SPDX-License-Identifier: MIT
"""`python -m custash WORDS…` is the command `custash`. Scripts that it starts by themselves (`run train.py`) run in this
Python."""
import os
import shutil
import sys


def main():
    """Becomes the command: the one in this package (a wheel has it), else the one on PATH."""
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "custash")
    # The command removes CUSTASH_PYTHON. Where it is set, PATH has led back to here.
    if not os.path.exists(command) and "CUSTASH_PYTHON" not in os.environ:
        command = shutil.which("custash")
    if not command or not os.path.exists(command):
        sys.stderr.write("custash: the command custash is not on PATH\n")
        sys.exit(125)
    os.environ["CUSTASH_PYTHON"] = sys.executable
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
