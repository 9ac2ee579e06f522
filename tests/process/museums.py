# SPDX-License-Identifier: MIT
"""The runners of planted faults (tests/gpu/museum.py, check_streams.py) with stand-ins: a program that does not end is killed
after its time, with what it has started, and named."""
import os
import subprocess
import sys

import program
from program import PATHS, InFolder

GPU = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu")
HANGS = "sleep 600"


def write(path, *lines):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(["#!/bin/sh", *lines, ""]))
    os.chmod(path, 0o755)


class Museums(InFolder):
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

    def table(self, *more):
        """What stream_sanitizer.py says with a compute-sanitizer that misses bug 5, reports twin 3, and with which bug 9 ends early."""
        museum = os.path.join(PATHS.build, "tests/gpu/museum_streams")
        if not os.path.exists(museum):
            self.skipTest("no nvcc")
        write(os.path.join(self.folder, "compute-sanitizer"), 'test "$1 $2 $3 $4" = "--tool memcheck --track-stream-ordered-races all" || exit 3',
              "shift 4", '"$@" || exit 4', 'case "$2$3" in 9) exit 1 ;; right3) count=1 ;; 5|right*) count=0 ;; *) count=1 ;; esac',
              'echo "========= ERROR SUMMARY: $count errors"')
        done = self.start("stream_sanitizer.py", "--command", PATHS.command, "--library", PATHS.library, "--program", museum,
                          "--driver", PATHS.driver, "--runtime", PATHS.runtime,
                          "--kernels", os.path.join(PATHS.build, "tests/gpu/libmuseum_others_kernels.so"), *more)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def test_the_table_beside_compute_sanitizer(self):
        code, said = self.table()
        self.assertEqual(said[-2:], ["check_streams: 12 of 12 found, 0 of 12 right twins reported, 0 ended with an error",
                                     "compute-sanitizer: 10 of 12 found, 1 of 12 right twins reported, 1 ended with an error"])
        rows = [line[34:].split() for line in said[1:-2]]
        self.assertEqual([row[:2] for row in rows], [["reported", "-"]] * 12)
        self.assertEqual({number: row[2:] for number, row in enumerate(rows) if row[2:] != ["reported", "-"]},
                         {3: ["reported", "reported"], 5: ["-", "-"], 9: ["error", "-"]})
        self.assertEqual(code, 0)

    def test_a_check_that_finds_nothing_fails_the_table(self):
        code, said = self.table("--conf", "check_streams:false")
        self.assertIn("check_streams: 0 of 12 found,", said[-2])
        self.assertEqual(code, 1)


if __name__ == "__main__":
    program.main()
