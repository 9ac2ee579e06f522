# SPDX-License-Identifier: MIT
"""Runs one small program for a limited time. What it has started ends with it."""
import os
import signal
import subprocess

LATE = "timeout"


def run(command, env, seconds):
    """(standard output, exit status or LATE, standard error)"""
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                          start_new_session=True) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
            return output, process.returncode, errors
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # custash run and the program hold the same pipes
            output, errors = process.communicate()
            return output, LATE, errors
