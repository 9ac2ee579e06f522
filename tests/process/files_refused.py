# SPDX-License-Identifier: MIT
"""Files that cannot be made or written, and names that are refused. As root each test runs a second time
as an ordinary user."""
import os
import shutil
import stat
import subprocess
import unittest

import program as shared
from files_case import FilesCase, MIB, NOBODY, NOT_OURS, small_files
from program import PATHS, environment


class FilesRefused(FilesCase):
    # ---- No room, no right, no folder.

    def on_small_disk(self, script, *words, code=0, **env):
        """A shell script in a folder of 64 KiB that is gone afterwards; its words are $1, $2 …"""
        disk = self.path("disk")
        os.mkdir(disk)
        mount = ["unshare", "-m" if os.geteuid() == 0 and self.user is None else "-rm", "sh", "-ec"]
        make = 'mount -t tmpfs -o size=64k none "$0"; cd "$0"; '
        _, why, failed = self.end(self.start(*mount, make, disk), None)
        if failed:
            self.skipTest("nothing can be mounted here: " + why)
        return self.end(self.start(*mount, make + script, disk, *words, env=env), code)[:2]

    def test_a_full_disk_leaves_the_old_file(self):
        source = self.snapshots()
        page = self.make("page.html", self.custash("report", source, "-o", "-"))
        old = self.read("page.html")
        with open(source, "rb") as file:
            self.make("large.json", file.read().replace(b'"program":"', b'"program":"' + b"x" * 65536))
        before = self.there()
        self.custash("report", self.path("large.json"), "-o", page, code=1, preexec_fn=small_files,
                     err=f"custash: {page}: File too large\n")
        self.assertEqual((self.read("page.html"), self.there()), (old, before))
        script = 'printf old > x.html; code=0; "$1" report "$2" --force -o x.html || code=$?; cat x.html; ls -A; exit $code'
        self.assertEqual(self.on_small_disk(script, PATHS.command, self.path("large.json"), code=1),
                         (b"oldx.html\n", "custash: x.html: No space left on device\n"))

    def test_a_recording_on_a_full_disk(self):
        script = 'LD_PRELOAD="$1" "$2" quick || [ $? = 5 ]; ls -A'
        said = self.on_small_disk(script, PATHS.library, os.path.join(PATHS.programs, "record"), CUSTASH_CONF="record:a.trace")
        self.assertEqual(said, (b"", "custash: record:a.trace: No space left on device; nothing is recorded\n"))

    def test_a_log_that_fills_the_disk_says_so_once(self):
        script = 'head -c 65526 /dev/zero > x.log; LD_PRELOAD="$1" "$2" quick || [ $? = 5 ]; wc -c < x.log'
        said = self.on_small_disk(script, PATHS.library, os.path.join(PATHS.programs, "record"),
                                  CUSTASH_CONF="log:debug,log_file:x.log")
        self.assertEqual(said, (b"65536\n", "custash: log_file:x.log: No space left on device; log lines are lost\n"))

    def test_a_folder_that_cannot_be_written(self):
        source = self.snapshots()
        for path, why in (("none/x.html", "No such file or directory"), ("s.json/x.html", "Not a directory"),
                          ("far.html", "Is a directory"), ("/proc/x.html", None)):
            os.makedirs(self.path("far.html"), exist_ok=True)
            out, said, _ = self.end(self.start(PATHS.command, "report", source, "-o", path), 1)
            self.assertRegex(said, f"^custash: {path}: {why or '.+'}\n$")
            self.assertEqual(out, b"")
            for option in ("--record", "--record-history"):
                said = self.end(self.start(PATHS.command, "run", option, path, "--lib", PATHS.library, "--", "echo", "ran"), 125)
                self.assertEqual(said[0], b"")
                self.assertRegex(said[1], rf"^custash: \S*{path}: {why or '.+'}\n$")
        os.chmod(self.path("far.html"), 0o555)
        if self.user is not None or os.geteuid() != 0:  # root may write anywhere
            path = self.path("far.html/x.html")
            self.custash("report", source, "-o", path, code=1, err=f"custash: {path}: Permission denied\n")
            self.assertEqual(os.listdir(self.path("far.html")), [])

    def test_a_recording_that_cannot_grow_says_so_once(self):
        path = self.path("app.trace")
        with self.serving(f"custash: record:{path}: File too large; later calls are not recorded\n",
                          CUSTASH_CONF=f"record:{path}") as process:
            # Later than the start: the simulator's memory is a file, too.
            subprocess.run(["prlimit", f"--fsize={MIB + 4096}", "--pid", str(process.pid)], check=True, **self.who())
            out, _ = process.communicate(b"go\n" * 20000, timeout=60)
        self.assertEqual(out, b"done\n" * 20000)
        self.assertEqual(len(self.read("app.trace")), MIB)

    def test_a_folder_is_no_recording(self):
        os.mkdir(self.path("traces"))
        for path, why in ((self.path("traces"), "Is a directory"), ("/nowhere/at/all", "No such file or directory")):
            done = self.start(os.path.join(PATHS.programs, "record"), "quick", preload=True, env={"CUSTASH_CONF": f"record:{path}"})
            self.assertEqual(self.end(done, 5)[1], f"custash: record:{path}: {why}; nothing is recorded\n")
        self.assertEqual(self.there(), ["traces"])

    def test_what_a_killed_launcher_leaves_goes_with_the_next_run(self):
        record = os.path.join(PATHS.programs, "record")
        path = self.path("app.trace")
        launcher = self.start(PATHS.command, "run", "--record", path, "--lib", PATHS.library, "--",
                              "sh", "-c", '"$1" quick; kill -9 $PPID', "sh", record)
        self.end(launcher, -9)
        left = self.there()
        self.assertEqual(len(left), 1)
        self.assertRegex(left[0], r"^app\.trace\.[0-9a-f]{12}\.part$")
        self.assertEqual(self.custash("replay", "--json", self.path(left[0])).count(b'"events":1,'), 1)
        others = ["app.trace.0123456789ab.part", "app.trace.0123456789ab.part.txt", "app.trace.2024"]
        for name in others:  # none of them was left by a run
            self.make(name)
        self.record(path)
        self.is_recording("app.trace")
        self.assertEqual(self.there(), sorted(["app.trace", *others]))
        self.assertEqual([self.read(name) for name in others], [NOT_OURS] * 3)

    def test_a_run_leaves_what_another_still_records(self):
        path = self.path("app.trace")
        with self.start(PATHS.command, "run", "--record", path, "--lib", PATHS.library, "--",
                        os.path.join(PATHS.programs, "record"), "outlived", stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL) as running:
            self.assertEqual(running.wait(timeout=60), 0)
            left = self.there()
            self.record(path)
            self.assertEqual(self.there(), sorted(["app.trace", *left]))
            running.stdin.close()
            running.stderr.read()  # until the child has ended

    # ---- What run refuses before it starts anything.

    def refuse(self, *words):
        """What is said of `run` with these options; nothing is made, and nothing is started."""
        before = self.there()
        words = ("run", "--lib", PATHS.library, *words, "--", "sh", "-c", "touch started")
        said = self.end(self.start(PATHS.command, *words), 125)
        self.assertEqual((said[0], self.there()), (b"", before))
        return said[1]

    def test_places_in_conf_are_looked_at_before_the_start(self):
        os.mkdir(self.path("folder"))
        for key in ("record", "snapshot", "log_file"):
            for path, why in ((self.path("none/x.json"), "No such file or directory"), (self.path("folder"), "Is a directory")):
                self.assertEqual(self.refuse("--conf", f"{key}:{path}"), f"custash: --conf: {key}:{path}: {why}\n")
            if self.user is not None:
                path = self.path("folder/x.json")
                self.assertEqual(self.refuse("--conf", f"{key}:{path}"), f"custash: --conf: {key}:{path}: Permission denied\n")
        with open(self.path("file"), "x", encoding="ascii"):
            pass
        for path, why in ((self.path("none"), "No such file or directory"), (self.path("file"), "Not a directory")):
            self.assertEqual(self.refuse("--conf", f"sleep_dir:{path}"), f"custash: --conf: sleep_dir:{path}: {why}\n")
        self.assertEqual(self.refuse("--conf", "snapshot:x.txt"),
                         "custash: x.txt: its ending is none of .html, .json, .pickle, .trace.json, .pb.gz, .folded\n")
        self.assertIn("custash: --conf: limit", self.refuse("--conf", "limit:much"))

    def test_two_options_do_not_name_one_file(self):
        self.assertEqual(self.refuse("--record", "x.json", "--record-history", "./x.json"),
                         "custash: --record and --record-history name the same file\n")
        self.assertEqual(self.refuse("--record", "x.trace", "--conf", "record:y.trace"),
                         "custash: --record and --conf record: name two files; give one of them\n")
        self.assertEqual(self.refuse("--record-history", "x.json", "--conf", "snapshot:y.json"),
                         "custash: --record-history and --conf snapshot: name two files; give one of them\n")

    def test_a_file_needs_a_name(self):
        for option in ("--record", "--record-history", "--lib"):
            for words in ((option, ""), (option + "=",)):
                self.assertRegex(self.refuse(*words), f"^custash: {option}:? needs a value")
        self.assertEqual(self.refuse("--record", "a,b.trace"), "custash: --record takes a path without commas\n")

    # ---- The log.

    def logging(self, file):
        """What a program of several log lines says beside them."""
        process = self.start(os.path.join(PATHS.programs, "history"), "oom", self.folder, preload=True,
                             env={"CUSTASH_CONF": f"log:debug,log_file:{file}"})
        out, said, _ = self.end(process)
        self.assertEqual(out, b"")
        return said

    def test_a_log_makes_a_file_and_no_folder(self):
        self.assertEqual(self.logging(self.path("x.log")), "")
        self.assertIn(b"event=started", self.read("x.log"))
        self.assertGreater(self.read("x.log").count(b"\n"), 1)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("x.log")).st_mode), 0o600)
        size = len(self.read("x.log"))
        os.symlink("x.log", self.path("link.log"))
        self.assertEqual(self.logging(self.path("link.log")), "")  # the user's: followed, and appended to
        self.assertEqual(self.read("x.log").count(b"event=started"), 2)
        self.assertGreater(len(self.read("x.log")), size)
        os.mkfifo(self.path("fifo"))
        os.chmod(self.path("fifo"), 0o666)
        os.mkdir(self.path("folder"))
        for name, why in (("no/x/y.log", "No such file or directory"), ("folder", "Is a directory"),
                          ("fifo", "No such device or address")):
            self.assertEqual(self.logging(self.path(name)),
                             f"custash: log_file:{self.path(name)}: {why}; no log is kept\n")
        self.assertEqual(self.there(), ["fifo", "folder", "link.log", "x.log"])

    @unittest.skipUnless(os.geteuid() == 0, "makes links of other users: needs root")
    def test_links_of_other_users_are_not_followed(self):
        """In a folder that many write to, one of them could make custash write to its user's own files."""
        target = self.make("target")
        os.symlink("x.log", self.path("own.log"))
        for name, to in (("there", target), ("dangling", "new"), ("far", "dangling")):
            os.symlink(to, self.path(name))
            os.lchown(self.path(name), self.user or 0, self.user or 0)
        os.symlink("there", self.path("theirs"))
        for name in ("dangling", "theirs"):
            os.lchown(self.path(name), 4321, 4321)
        for name in ("dangling", "theirs", "far"):
            self.assertEqual(self.logging(self.path(name)),
                             f"custash: log_file:{self.path(name)}: Permission denied; no log is kept\n")
            link = "dangling" if name == "far" else name
            self.assertRegex(self.refuse("--record", name), f"/{link}: is a symbolic link of another user\n$|"
                                                            f": is a symbolic link of another user\n$")
        self.assertEqual(self.logging(self.path("own.log")), "")
        self.assertEqual(self.read("target"), NOT_OURS)
        self.assertEqual(self.there(), ["dangling", "far", "own.log", "target", "theirs", "there", "x.log"])
        self.assertEqual(self.logging(self.path("there")), "")
        self.assertIn(b"event=started", self.read("target"))

    def test_a_log_that_cannot_be_written_says_so_once(self):
        full = self.node("full", 7)
        self.assertEqual(self.logging(full), f"custash: log_file:{full}: No space left on device; log lines are lost\n")
        self.assertTrue(stat.S_ISCHR(os.lstat(full).st_mode))

    def test_a_log_on_a_closed_pipe_does_not_end_the_program(self):
        reader, writer = os.pipe()
        os.close(reader)
        env = environment(preload=True, CUSTASH_SIM="devices=1", CUSTASH_CONF="log:debug")
        done = subprocess.run([os.path.join(PATHS.programs, "record"), "quick"], env=env, stderr=writer, timeout=60,
                              check=False, **self.who())
        os.close(writer)
        self.assertEqual(done.returncode, 5)

    # ---- What reaches a terminal.

    def test_a_wrong_ending_is_told_once(self):
        done = self.start(os.path.join(PATHS.programs, "history"), "quiet", preload=True, env={"CUSTASH_CONF": "snapshot:x.txt"})
        self.assertEqual(self.end(done)[1], "custash: snapshot:x.txt: its ending is none of .html, .json, .pickle, "
                                            ".trace.json, .pb.gz, .folded; no snapshot\n")

    def test_names_cannot_steer_the_terminal(self):
        evil = self.path("his\x1b[31m\x07tory")
        shutil.copy(os.path.join(PATHS.programs, "history"), evil)
        _, said, _ = self.end(self.start(evil, "quiet", preload=True, env={"CUSTASH_CONF": "leaks:true"}))
        self.assertIn("his\\x1b[31m\\x07tory", said)
        self.assertNotIn("\x1b", said)
        self.end(self.start(evil, "work", self.folder, preload=True, env={"CUSTASH_CONF": "history:1000"}))
        with open(self.path("s.json"), "r+", encoding="utf-8") as file:
            text = file.read().replace('"name":"keep_weights"', '"name":"a\\u001b[2Jb\\u009bc\\nd"')
            file.seek(0)
            file.write(text)
        said = self.custash("leaks", self.path("s.json")).decode()
        self.assertIn("a\\x1b[2Jb\\xc2\\x9bc\\x0ad", said)
        self.assertNotIn("\x1b", said)
        process = self.start(evil, "serve", preload=True, stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        said = self.custash("top", "--once", "--delay", "0.05").decode()
        self.end(process)
        self.assertIn("his\\x1b[31m", said)
        self.assertNotIn("\x1b", said)


@unittest.skipIf(os.geteuid() != 0, "only root can be another user")
class FilesRefusedToAnOrdinaryUser(FilesRefused):
    user = NOBODY


shared.main()
