# SPDX-License-Identifier: MIT
"""Files that the command and the library make: nothing that is there is lost, nothing half-made stays.
As root each test runs a second time as an ordinary user."""
import contextlib
import lzma
import os
import signal
import stat
import threading
import time
import unittest

import program as shared
from files_case import FilesCase, NOBODY, NOT_OURS
from program import PATHS


class Files(FilesCase):
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
        self.make("app.trace.2024", event)  # a recording beside it
        for text in (b"", event, b"# custash trace 1\n", b"# custash trace 1\n" + event, event + b"\0old\n", lzma.compress(event),
                     lzma.compress(b"# custash trace 1\n")):
            self.record(self.make("app.trace", text))
            self.is_recording("app.trace")
            self.assertEqual(self.there(), ["app.trace", "app.trace.2024"])
        self.record(self.make("app.trace.xz", lzma.compress(event)))
        with lzma.open(self.path("app.trace.xz")) as file:
            self.assertIn(b" 1000 -\n", file.read())
        self.assertEqual(self.there(), ["app.trace", "app.trace.2024", "app.trace.xz"])
        self.assertEqual(self.read("app.trace.2024"), event)

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
        self.assertEqual(self.there(), ["p.svg", "t.trace"])

    def test_the_library_replaces_its_own_snapshots_only(self):
        history = os.path.join(PATHS.programs, "history")
        for asked, name in (("s.json", "s.json"), ("s.html", "s.html.json")):
            path = self.make(name)
            out = self.end(self.start(history, "errors", self.path(asked), preload=True))
            self.assertIn(f"1 1 7 {path}: exists and is not a custash snapshot\n", out[0].decode())
            self.assertEqual((self.read(name), self.there()), (NOT_OURS, [name]))
            os.unlink(path)
            for _ in range(2):
                out = self.end(self.start(history, "errors", self.path(asked), preload=True))
                self.assertIn("1 1 0 ", out[0].decode())
            self.assertTrue(self.read(name).startswith(b'{"format":"custash snapshot 1"'))
            self.assertEqual(self.there(), [name])
            os.unlink(path)

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


@unittest.skipIf(os.geteuid() != 0, "only root can be another user")
class FilesOfAnOrdinaryUser(Files):
    user = NOBODY


shared.main()
