# SPDX-License-Identifier: MIT
"""Files that the command and the library make: nothing that is there is lost, nothing half-made stays.
As root each test runs a second time as an ordinary user."""
import contextlib
import lzma
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import unittest

import program as shared
from program import PATHS, Case, environment

PATHS.command = ""
NOBODY = 65534
MIB = 1 << 20
NOT_OURS = b"epoch,loss\n1,0.5\n"


def small_files():
    """In the child: no file may grow past 64 KiB, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))


class Files(Case):
    user = None  # who runs the commands

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        if self.user is None:
            return
        os.chown(self.folder, self.user, self.user)
        if subprocess.run(["test", "-r", PATHS.library, "-a", "-x", PATHS.command, "-a", "-w", self.folder],
                          check=False, **self.who()).returncode != 0:
            self.skipTest(f"user {self.user} cannot read what was built")

    def who(self):
        return {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self, name, text=NOT_OURS):
        with open(self.path(name), "wb") as file:
            file.write(text)
        if self.user is not None:
            os.chown(self.path(name), self.user, self.user)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def there(self):
        return sorted(os.listdir(self.folder))

    def node(self, name, minor):
        """A character device of the test's own: 3 as /dev/null, 7 as /dev/full."""
        try:
            os.mknod(self.path(name), stat.S_IFCHR | 0o666, os.makedev(1, minor))
            os.chmod(self.path(name), 0o666)
            with open(self.path(name), "wb"):
                pass
        except OSError as why:
            self.skipTest(f"no device node here: {why}")
        return self.path(name)

    def start(self, *words, **options):
        env = environment(preload=options.pop("preload", False), CUSTASH_SIM="devices=1", **options.pop("env", {}))
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(words, env=env, cwd=self.folder, **{**pipes, **options}, **self.who())

    def end(self, process, code=0):
        """What it said, on standard output and on standard error."""
        out, errors = process.communicate(timeout=60)
        if code is not None:
            self.assertEqual(process.returncode, code, errors)
        return out, errors.decode(), process.returncode

    def custash(self, *words, code=0, err="", **options):
        out, errors, _ = self.end(self.start(PATHS.command, *words, **options), code)
        if words[0] == "run":  # success is told, too
            errors = re.sub(r"^custash: \S+ written \(.*\n", "", errors, flags=re.M)
        self.assertEqual(errors, err)
        return out

    def record(self, path, *words, what="quick", code=5, err=""):
        return self.custash("run", "--record", path, "--lib", PATHS.library, *words, "--",
                            os.path.join(PATHS.programs, "record"), what, code=code, err=err)

    def snapshots(self):
        """s.json, s.html, s.pickle and s.trace.json, in the folder."""
        history = os.path.join(PATHS.programs, "history")
        self.end(self.start(history, "work", self.folder, preload=True, env={"CUSTASH_CONF": "history:1000"}))
        return self.path("s.json")

    def is_recording(self, name):
        self.assertEqual(self.read(name).split(b"\n")[0], b"# custash trace 1")
        self.assertIn(b" 1000 -\n", self.read(name))
        self.assertEqual(stat.S_IMODE(os.stat(self.path(name)).st_mode), 0o600)

    def is_report(self, text):
        self.assertTrue(text.startswith(b"<!DOCTYPE html>") and text.rstrip().endswith(b"</html>"), text[:80])

    # ---- What is there already.

    def test_what_is_no_recording_stays(self):
        xz = lzma.compress(NOT_OURS)
        for text in (NOT_OURS, b"2024-01-01,7\n", b"\0\0\0\0", b"\xfd not xz", xz, b"1 2 a 3 4 5 6\n", b"1 0 a 1 2\n",
                     b"# custash\n", b"1 0 x 1 2 -\n"):
            path = self.make("data.csv", text)
            self.record(path, code=125,
                        err=f"custash: {path}: exists and is not a custash recording; --force replaces it\n")
            self.assertEqual((self.there(), self.read("data.csv")), (["data.csv"], text))
        self.record(path, "--force")
        self.is_recording("data.csv")

    def test_recordings_are_replaced(self):
        event = b"1 0 a 1 2 -\n"
        for text in (b"", event, b"# custash trace 1\n", b"# custash trace 1\n" + event, lzma.compress(event),
                     lzma.compress(b"# custash trace 1\n")):
            self.record(self.make("app.trace", text))
            self.is_recording("app.trace")
            self.assertEqual(self.there(), ["app.trace"])
        self.record(self.make("app.trace.xz", lzma.compress(event)))
        with lzma.open(self.path("app.trace.xz")) as file:
            self.assertIn(b" 1000 -\n", file.read())
        self.assertEqual(self.there(), ["app.trace", "app.trace.xz"])

    def test_a_recording_stays_until_there_is_a_new_one(self):
        path = self.make("app.trace", b"1 0 a 1 2 -\n")
        self.custash("run", "--record", path, "--lib", PATHS.library, "--", "/bin/true",
                     err="custash: nothing was recorded in app.trace: the program used no CUDA, or a line above says why\n")
        self.assertEqual((self.there(), self.read("app.trace")), (["app.trace"], b"1 0 a 1 2 -\n"))

    def test_a_report_stays_until_there_is_a_new_one(self):
        words = ("run", "--record-history", self.path("r.json"), "--lib", PATHS.library, "--")
        quiet = [os.path.join(PATHS.programs, "history"), "quiet"]
        self.custash(*words, *quiet)
        old = self.read("r.json")
        self.custash(*words, "/bin/true", err="custash: no process reported the use of CUDA: r.json not written\n")
        self.assertEqual((self.there(), self.read("r.json")), (["r.json"], old))
        # Of two processes the first has the name, and the other one a name of its own.
        said = self.end(self.start(PATHS.command, *words, "sh", "-c", '"$@" && "$@"', "sh", *quiet))[1]
        self.assertEqual(said.count(" written ("), 2)
        own = [name for name in self.there() if name != "r.json"]
        self.assertNotEqual(self.read("r.json"), old)
        self.assertEqual(len(own), 1)
        self.assertRegex(own[0], r"^r\.\d+\.json$")
        for name in self.there():
            self.assertEqual(stat.S_IMODE(os.stat(self.path(name)).st_mode), 0o600)

    def test_what_is_no_report_stays(self):
        source = self.snapshots()
        before = self.there()
        names = {"mine.html": "a custash report", "mine.json": "a custash snapshot",
                 "mine.pickle": "a custash snapshot for PyTorch's viewer", "mine.trace.json": "a custash snapshot for Perfetto"}
        history = os.path.join(PATHS.programs, "history")
        for name, kind in names.items():
            path = self.make(name)
            why = f"custash: {path}: exists and is not {kind}; --force replaces it\n"
            self.custash("run", "--record-history", path, "--lib", PATHS.library, "--", history, "quiet", code=125, err=why)
            self.assertEqual(self.read(name), NOT_OURS)
            self.custash("run", "--force", "--record-history", path, "--lib", PATHS.library, "--", history, "quiet")
            self.assertNotEqual(self.read(name), NOT_OURS)
            self.custash("run", "--record-history", path, "--lib", PATHS.library, "--", history, "quiet")
        self.assertEqual(self.there(), sorted(before + list(names)))
        path = self.make("mine.html")
        self.custash("report", source, "-o", path, code=1,
                     err=f"custash: {path}: exists and is not a custash report; --force replaces it\n")
        self.assertEqual(self.read("mine.html"), NOT_OURS)
        self.custash("report", source, "-o", path, "--force")
        self.is_report(self.read("mine.html"))
        self.custash("report", source, "-o", path)
        # A file of ours of another kind.
        path = self.make("mine.html", self.read("s.json"))
        self.custash("report", path, "-o", path, code=1,
                     err=f"custash: {path}: exists and is not a custash report; --force replaces it\n")
        # PyTorch's own pickle is no file of ours.
        path = self.make("mine.pickle", b"\x80\x04\x95\x0a\0\0\0\0\0\0\0}\x94\x8c\x08segments\x94]\x94s.")
        self.custash("run", "--record-history", path, "--lib", PATHS.library, "--", history, "quiet", code=125,
                     err=f"custash: {path}: exists and is not {names['mine.pickle']}; --force replaces it\n")

    def test_a_snapshot_of_a_process_replaces_snapshots_only(self):
        self.make("my.html")
        with self.serving() as process:
            pid = str(process.pid)
            self.custash("snapshot", pid, "-o", "my.html", code=1,
                         err="custash: my.html: exists and is not a custash report; --force replaces it\n")
            self.assertEqual(self.read("my.html"), NOT_OURS)
            self.custash("snapshot", pid, "-o", "my.html", "--force")
            for _ in range(2):
                self.custash("snapshot", pid)
            self.is_report(self.custash("snapshot", pid, "-o", "-").replace(b"\0", b""))
            # The name that the command makes up follows no link.
            os.unlink(self.path(f"custash-{pid}.html"))
            os.symlink(self.make("victim", b""), self.path(f"custash-{pid}.html"))
            self.custash("snapshot", pid, code=1, err=f"custash: custash-{pid}.html: is a symbolic link\n")
        self.is_report(self.read("my.html"))
        self.assertEqual(self.read("victim"), b"")

    def test_pictures(self):
        trace = self.make("t.trace", b"1 0 a 1 3000000 -\n2 0 f 1 3000000 -\n")
        path = self.make("p.svg")
        self.custash("replay", trace, "--plot", path, code=125,
                     err=f"custash: {path}: exists and is not a custash picture; --force replaces it\n")
        self.assertEqual(self.read("p.svg"), NOT_OURS)
        self.custash("replay", trace, "--plot", path, "--force")
        self.custash("replay", trace, "--plot", path)
        said = self.custash("replay", trace, "--plot", "-", "--json")
        self.assertIn(b"</svg>", said)
        self.custash("bandwidth", "--plot", self.make("mine.svg"), code=125,
                     err=f"custash: {self.path('mine.svg')}: exists and is not a custash picture; --force replaces it\n")
        self.assertEqual(self.there(), ["mine.svg", "p.svg", "t.trace"])

    def test_the_library_replaces_its_own_snapshots_only(self):
        history = os.path.join(PATHS.programs, "history")
        path = self.make("s.html")
        out = self.end(self.start(history, "errors", path, preload=True))
        self.assertIn(f"1 1 7 {path}: exists and is not a custash report\n", out[0].decode())
        self.assertEqual((self.read("s.html"), self.there()), (NOT_OURS, ["s.html"]))
        os.unlink(path)
        for _ in range(2):
            out = self.end(self.start(history, "errors", path, preload=True))
            self.assertIn("1 1 0 ", out[0].decode())
        self.is_report(self.read("s.html"))
        self.assertEqual(self.there(), ["s.html"])

    # ---- Devices, fifos, links, standard output.

    def test_devices_are_written_to_and_never_replaced(self):
        source = self.snapshots()
        null, full = self.node("null", 3), self.node("full", 7)
        for path in (null, full):
            self.record(path, code=125, err=f"custash: {path}: is not a regular file\n")
            self.record(path, "--force", code=125, err=f"custash: {path}: is not a regular file\n")
        self.custash("report", source, "-o", full, code=1, err=f"custash: {full}: No space left on device\n")
        self.custash("report", source, "-o", null)
        for path in (null, full):
            self.assertTrue(stat.S_ISCHR(os.lstat(path).st_mode))
        done = self.start(os.path.join(PATHS.programs, "record"), "quick", preload=True, env={"CUSTASH_CONF": f"record:{full}"})
        self.assertEqual(self.end(done, 5)[1], f"custash: record:{full}: is not a regular file; nothing is recorded\n")
        self.assertEqual(len(self.there()), 6)

    def test_standard_output(self):
        source = self.snapshots()
        os.symlink("/proc/self/fd/1", self.path("stdout"))
        self.is_report(self.custash("report", source, "-o", "-"))
        self.is_report(self.custash("report", source, "-o", self.path("stdout")))
        with open(self.path("out.html"), "wb") as file:
            self.custash("report", source, "-o", self.path("stdout"), stdout=file)
            self.custash("report", source, "-o", "-", stdout=file)
        self.assertEqual(self.read("out.html").count(b"</html>"), 2)
        self.assertEqual(os.readlink(self.path("stdout")), "/proc/self/fd/1")
        self.assertNotIn("-", self.there())
        self.record("-", code=125, err="custash: -: standard output is the program's; name a file\n")

    def test_fifos(self):
        source = self.snapshots()
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        os.chmod(fifo, 0o666)
        self.record(fifo, code=125, err=f"custash: {fifo}: is not a regular file\n")
        self.custash("report", source, "-o", fifo, code=1, err=f"custash: {fifo}: no process reads from it\n")
        got = []
        reader = threading.Thread(target=lambda: got.append(self.read("fifo")))
        reader.start()
        give_up = time.monotonic() + 60
        while not got and time.monotonic() < give_up:
            self.start(PATHS.command, "report", source, "-o", fifo).communicate(timeout=60)
            reader.join(0.1)
        reader.join()
        self.is_report(got[0])
        self.assertTrue(stat.S_ISFIFO(os.lstat(fifo).st_mode))

    def test_a_link_that_the_user_names_is_followed_and_stays(self):
        os.mkdir(self.path("far"))
        if self.user is not None:
            os.chown(self.path("far"), self.user, self.user)
        for name, text in (("far/old.trace", b"1 0 a 1 2 -\n"), ("far/new.trace", None)):
            if text is not None:
                self.make(name, text)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path("link"))
            os.symlink(name, self.path("link"))
            if not os.path.lexists(self.path("second")):
                os.symlink("link", self.path("second"))
            self.record(self.path("second"))
            self.is_recording(name)
            self.assertEqual((os.readlink(self.path("link")), os.readlink(self.path("second"))), (name, "link"))
        self.assertEqual(sorted(os.listdir(self.path("far"))), ["new.trace", "old.trace"])
        self.assertEqual(self.there(), ["far", "link", "second"])

    @contextlib.contextmanager
    def serving(self, err="", **env):
        """A process that holds memory, takes signals and works a little at each line that it reads."""
        with tempfile.TemporaryFile() as errors:
            process = self.start(os.path.join(PATHS.programs, "history"), "serve", preload=True, env=env,
                                 stdin=subprocess.PIPE, stderr=errors)
            try:
                self.assertEqual(process.stdout.readline(), b"ready\n")
                yield process
                process.stdin.close()
                self.assertEqual(process.wait(timeout=60), 0)
                errors.seek(0)
                self.assertEqual(errors.read().decode(), err)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()

    def test_a_name_that_the_process_chooses_follows_no_link(self):
        victim = self.make("victim", b"")
        os.symlink(victim, self.path("x.json"))
        os.symlink(victim, self.path("x.oom.json"))
        with self.serving(CUSTASH_CONF=f"snapshot_signal:{int(signal.SIGUSR1)},snapshot:{self.path('x.json')}") as process:
            # Names that could be known beforehand.
            for name in (f"x.json.{process.pid}.part", f"x.{process.pid}.json.part", f"x.1.{process.pid}.json"):
                os.symlink(victim, self.path(name))
            planted = self.there()
            process.send_signal(signal.SIGUSR1)
            give_up = time.monotonic() + 60
            while f"x.{process.pid}.json" not in self.there() and time.monotonic() < give_up:
                time.sleep(0.01)
            self.assertEqual(self.there(), sorted(planted + [f"x.{process.pid}.json"]))
        made = [name for name in self.there() if name not in planted]
        self.assertEqual(set(made), {f"x.{process.pid}.json", f"x.2.{process.pid}.json"})  # the signal's and the exit's
        for name in made:
            self.assertEqual(stat.S_IMODE(os.lstat(self.path(name)).st_mode), 0o600)
        for name in planted:
            self.assertEqual(os.path.islink(self.path(name)), name != "victim")
        self.assertEqual(self.read("victim"), b"")

    def test_no_option_takes_two_dashes(self):
        for words in (("run", "--record", "--", "true"), ("run", "--record-history", "--", "true"), ("run", "--conf", "--", "true"),
                      ("run", "--record=--", "true"), ("report", "x.json", "--output", "--"), ("replay", "x", "--plot", "--")):
            said = self.end(self.start(PATHS.command, *words), 125)[1]
            self.assertIn("needs a value", said)
            self.assertEqual(self.there(), [])

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
            said = self.end(self.start(PATHS.command, "run", "--record", path, "--lib", PATHS.library, "--", "echo", "ran"), 125)
            self.assertEqual((said[0], len(said[1].splitlines())), (b"", 1))
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
        done = self.start(os.path.join(PATHS.programs, "record"), "quick", preload=True,
                          env={"CUSTASH_CONF": f"record:{self.path('traces')}"})
        self.assertEqual(self.end(done, 5)[1], f"custash: record:{self.path('traces')}: Is a directory; nothing is recorded\n")
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
                                            ".trace.json; no snapshot\n")

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
class FilesOfAnOrdinaryUser(Files):
    user = NOBODY


shared.main()
