# SPDX-License-Identifier: MIT
"""The recipes of docs/deploying.md, as far as this machine has what they need."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import program
from program import PATHS, Case, read

try:
    import kubernetes_validate
    import yaml
except ImportError:
    kubernetes_validate = None

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "deploying.md"
APP = """#!/bin/sh
printf 'device 0\\nalloc 100000\\nquit\\n' | {}/actor >/dev/null
"""


def blocks(language):
    return re.findall(rf"^```{language}\b[^\n]*\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


class Launchers(Case):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.app = os.path.join(self.folder, "app")
        with open(self.app, "w", encoding="ascii") as file:
            file.write(APP.format(PATHS.programs))
        os.chmod(self.app, 0o755)

    def reports(self, *words):
        done = subprocess.run(words, cwd=self.folder, env=program.environment(False), capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(name for name in os.listdir(self.folder) if name.endswith(".html"))

    def custash(self, name):
        return [PATHS.command, "run", "--lib", PATHS.library, "--record-history", name, "--"]

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_mpirun(self):
        mpirun = ["mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe", "-n", "4"]
        self.assertEqual(self.reports(*mpirun, *self.custash("inside-%r.html"), self.app), [f"inside-{i}.html" for i in range(4)])
        self.assertEqual(self.reports(*self.custash("outside-%r.html"), *mpirun, self.app)[4:],
                         [f"outside-{i}.html" for i in range(4)])

    @unittest.skipUnless(shutil.which("sinfo") and subprocess.run(["sinfo"], capture_output=True, check=False, timeout=60).returncode == 0,
                         "no Slurm runs here")
    def test_srun(self):
        self.assertEqual(self.reports("srun", "-n", "2", *self.custash("inside-%r.html"), self.app),
                         ["inside-0.html", "inside-1.html"])


class Page(Case):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_the_unit(self):
        unit = next(block for block in blocks("ini") if "ExecStart" in block)
        with tempfile.TemporaryDirectory() as folder:
            def complaints(text):
                path = os.path.join(folder, "custash-serve.service")
                with open(path, "w", encoding="ascii") as file:
                    file.write(text.replace("/usr/local/bin/custash", PATHS.command))
                done = subprocess.run(["systemd-analyze", "--user", "verify", path], capture_output=True, text=True,
                                      check=False, env={**os.environ, "XDG_RUNTIME_DIR": folder}, timeout=60)
                return [line for line in done.stderr.splitlines() if "custash-serve" in line]
            if not complaints(unit.replace("Restart=on-failure", "Restart=sometimes")):
                self.skipTest("systemd-analyze does not work here")
            self.assertEqual(complaints(unit), [])

    @unittest.skipIf(kubernetes_validate is None, "kubernetes-validate is not installed")
    def test_the_manifest(self):
        (manifest,) = [yaml.safe_load(block) for block in blocks("yaml") if "apiVersion" in block]
        version = kubernetes_validate.latest_version()
        kubernetes_validate.validate(manifest, version, strict=True)
        manifest["spec"]["template"]["spec"]["volume"] = []
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(manifest, version, strict=True)

    def test_the_shell(self):
        for block in blocks("sh"):
            done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "")

    def test_each_metric_is_described(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.prom")
            subprocess.run([PATHS.command, "serve", "--textfile", path, "--once"], check=True, env=program.environment(False))
            names = re.findall(r"^# TYPE (\S+)", read(path), re.M)
        page = PAGE.read_text(encoding="utf-8")
        self.assertGreater(len(names), 15)
        for name in names:
            short = re.sub(r"^custash_(process|device)_", "", name).replace("allocated_bytes_peak", "_peak")
            self.assertTrue(f"`{name}`" in page or f"`…{short}`" in page, name)


program.main()
