# SPDX-License-Identifier: MIT
"""The runners of planted faults (tests/gpu/museum.py, check_streams.py) with stand-ins: a program that does not end is killed
after its time, with what it has started, and named."""
import os
import subprocess
import sys
import tempfile

import program
from program import PATHS, Case

PATHS.command = ""
GPU = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu")
HANGS = "sleep 600"


def write(path, *lines):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(["#!/bin/sh", *lines, ""]))
    os.chmod(path, 0o755)


class Museums(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, script, *words):
        env = program.environment(False, PATH=f"{self.folder}:{os.environ['PATH']}", PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run([sys.executable, os.path.join(GPU, script), *words, "--seconds", "2"], env=env, capture_output=True, text=True,
                              timeout=60, check=False)

    def museum(self, fault, right):
        path = os.path.join(self.folder, "museum")
        write(path, 'case "$1" in', '"") echo "0 the fault" ;;', f"0) {fault} ;;", f"right) {right} ;;", "esac")
        done = self.start("museum.py", "--command", PATHS.command, "--library", PATHS.library, "--program", path, "--right", "1")
        self.assertEqual((done.returncode, done.stderr), (1, ""))  # nothing is found, either
        return done.stdout

    def test_a_fault_has_its_time(self):
        said = self.museum(HANGS, "exit 0")
        self.assertIn("(status timeout: ", said)
        self.assertIn("\nnot over after 2 s: the fault\n", said)

    def test_a_right_program_has_its_time(self):
        said = self.museum("exit 0", HANGS)
        self.assertIn("\n1 right programs: 1 with a finding or another status\n", said)
        self.assertIn("\nnot over after 2 s: right 0\n", said)

    def test_of_programs_that_end_no_time_is_told(self):
        self.assertNotIn("not over", self.museum("exit 0", "exit 0"))

    def test_a_program_of_streams_has_its_time(self):
        write(os.path.join(self.folder, "nvidia-smi"), "echo GPU 0")
        write(os.path.join(self.folder, "tests/process/check_streams"), 'case "$1" in', "--list) echo right_event right_order ;;",
              f"right_event) {HANGS} ;;", '*) echo \'{"findings": []}\' >"${CUSTASH_CONF##*guard_report:}" ;;', "esac")
        write(os.path.join(self.folder, "interpose/libcustash.so"))
        done = self.start("check_streams.py", "--build", self.folder)
        self.assertIn("FAIL: right_event found [] not over after 2 s\n", done.stdout)
        self.assertIn("ok: right_order\n2 programs, 1 bad\n", done.stdout)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    program.main()
