# SPDX-License-Identifier: MIT
"""What the tests of files share: a folder of their own, and commands that a user runs in it."""

import contextlib
import os
import re
import resource
import shutil
import stat
import subprocess
import tempfile

from program import PATHS, Case, environment, render

NOBODY = 65534
MIB = 1 << 20
NOT_OURS = b"epoch,loss\n1,0.5\n"


def small_files():
    """In the child: no file may grow past 64 KiB, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))


class FilesCase(Case):
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
        render(self.folder)
        return self.path("s.json")

    def is_recording(self, name):
        self.assertEqual(self.read(name).split(b"\n")[0], b"# custash trace 1")
        self.assertIn(b" 1000 -\n", self.read(name))
        self.assertEqual(stat.S_IMODE(os.stat(self.path(name)).st_mode), 0o600)

    def is_report(self, text):
        self.assertTrue(text.startswith(b"<!DOCTYPE html>") and text.rstrip().endswith(b"</html>"), text[:80])

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
