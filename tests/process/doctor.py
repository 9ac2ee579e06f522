# SPDX-License-Identifier: MIT
"""custash doctor: what it finds on a machine and in a program, over the simulated driver."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import program as shared
from actor import Actor
from program import PATHS, Case, environment

PATHS.command = ""


class Doctor(Case):
    def doctor(self, *words, code=0, err="", **more):
        """The findings, by subject; a program of PATHS.programs may be named after --."""
        words = [os.path.join(PATHS.programs, w) if os.path.exists(os.path.join(PATHS.programs, w)) else w
                 for w in words]
        done = subprocess.run([PATHS.command, "doctor", "--json", "--lib", PATHS.library, *words],
                              env=environment(preload=False, **more), capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (code, err), done.stdout)
        findings = {}
        for finding in json.loads(done.stdout)["findings"] if done.stdout else ():
            findings.setdefault(finding["subject"], []).append(finding)
        return findings

    def one(self, findings, subject):
        self.assertEqual(len(findings.get(subject, ())), 1, (subject, findings))
        return findings[subject][0]

    def test_a_machine_that_is_well(self):
        findings = self.doctor(CUSTASH_SIM="devices=1")
        self.assertEqual(self.one(findings, "CUSTASH_CONF")["level"], "ok")
        self.assertIn("CUDA 13.0, 1 device", self.one(findings, "driver")["what"])
        self.assertIn("whole context", self.one(findings, "fence")["what"])
        self.assertIn("backing: mapped pages; memory pools; registers", self.one(findings, "device 0")["what"])
        for subject in ("huge pages", "locked memory", "libcustash.so"):
            self.assertTrue(self.one(findings, subject)["what"])

    def test_what_backs_memory_is_what_custash_will_use(self):
        for conf, sim, word in (("backing:driver", "devices=1", "plain"), ("", "devices=2", "plain"),
                                ("backing:vmm", "devices=2", "mapped"), ("backing:vmm", "devices=1,vmm=0", "plain")):
            findings = self.doctor(CUSTASH_CONF=conf, CUSTASH_SIM=sim)
            self.assertIn("backing: " + word, self.one(findings, "device 0")["what"], (conf, sim))

    def test_a_device_that_does_not_register_host_memory(self):
        findings = self.doctor(CUSTASH_SIM="devices=1,register=0")
        self.assertIn("does not register host memory", self.one(findings, "device 0")["what"])

    def with_driver(self, code, version, devices=1):
        """The findings beside a driver of these answers, which has nothing but what is asked here."""
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "cuda.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write(f"int cuInit(unsigned f) {{ return {code}; }}\n"
                           f"int cuDriverGetVersion(int *v) {{ *v = {version}; return 0; }}\n"
                           f"int cuDeviceGetCount(int *n) {{ *n = {devices}; return 0; }}\n")
            subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", os.path.join(folder, "libcuda.so.1"), source],
                           check=True)
            return self.doctor(code=0 if (code, devices) == (0, 1) and version >= 11020 else 1,
                               LD_LIBRARY_PATH=folder)

    def test_what_a_driver_lacks(self):
        findings = self.with_driver(0, 11020)
        self.assertIn("CUDA 11.2, 1 device", self.one(findings, "driver")["what"])
        self.assertIn("12.5", self.one(findings, "fence")["advice"])
        self.assertIn("plain cuMemAlloc; no memory pools", self.one(findings, "device 0")["what"])
        for answers, word in (((34, 13000), "stub"), ((100, 13000), "no device"), ((0, 13000, 0), "no device"),
                              ((999, 13000), "does not start, code 999"), ((0, 11010), "CUDA 11.1")):
            finding = self.one(self.with_driver(*answers), "driver")
            self.assertEqual(finding["level"], "problem")
            self.assertIn(word, finding["what"])
            self.assertTrue(finding["advice"])

    def test_no_driver(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "libcuda.so.1"), "w", encoding="utf-8") as file:
                file.write("no library\n")
            findings = self.doctor(code=1, LD_LIBRARY_PATH=folder)
        self.assertEqual(self.one(findings, "driver")["level"], "problem")

    def test_wrong_options_are_problems(self):
        findings = self.doctor(code=1, CUSTASH_CONF="backing:paper,nonsense:1")
        self.assertEqual([f["level"] for f in findings["CUSTASH_CONF"]], ["problem", "problem"])
        self.assertIn("paper", findings["CUSTASH_CONF"][0]["what"])
        findings = self.doctor(CUSTASH_CONF="enabled:false")
        self.assertEqual(self.one(findings, "CUSTASH_CONF")["level"], "warning")

    def test_the_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertNotIn("MPS", self.doctor(CUDA_MPS_PIPE_DIRECTORY=folder))
            with open(os.path.join(folder, "control"), "w", encoding="utf-8"):
                pass
            findings = self.doctor(CUDA_MPS_PIPE_DIRECTORY=folder, CUDA_INJECTION64_PATH="/x.so",
                                   CUDA_VISIBLE_DEVICES="1,0")
        self.assertIn("limit:", self.one(findings, "MPS")["advice"])
        self.assertIn("a tool", self.one(findings, "CUDA_INJECTION64_PATH")["what"])
        self.assertEqual(self.one(findings, "CUDA_VISIBLE_DEVICES")["what"], "shows 1,0")
        for value in ("", "-1"):
            findings = self.doctor(code=1, CUDA_VISIBLE_DEVICES=value)
            self.assertEqual(self.one(findings, "CUDA_VISIBLE_DEVICES")["level"], "problem")

    def test_memory_checkers(self):
        for more in ({"NV_SANITIZER_INJECTION_PORT_BASE": "1"}, {"NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN": "1"},
                     {"CUDA_INJECTION64_PATH": "/x/libsanitizer-collection.so"}):
            (name,) = more
            self.assertIn("nothing is cached", self.one(self.doctor(**more), name)["what"])
            finding = self.one(self.doctor(CUSTASH_CONF="caching:always", **more), name)
            self.assertEqual(finding["level"], "warning")

    def door(self, name, module=None):
        """What is said of a module of a program: its first finding."""
        findings = self.doctor("--", name)
        for subject, list_ in findings.items():
            if os.path.basename(subject) == (module or name):
                return list_[0]["what"]
        return None

    def test_each_door(self):
        self.assertRegex(self.door("doors"), "opens the driver")
        self.assertRegex(self.door("doors_linked"), "linked with the driver")
        self.assertRegex(self.door("orphan"), "no CUDA")
        self.assertRegex(self.door("api_static"), "linked in")
        if PATHS.runtime:
            self.assertRegex(self.door("runtime_static"), "static CUDA runtime")
            self.assertRegex(self.door("runtime_shared"), r"linked with libcudart\.so")
            self.assertRegex(self.door("runtime_shared", "libcudart.so.13"), "the shared CUDA runtime")

    def test_a_process_that_runs(self):
        sim = {"CUSTASH_SIM": "devices=1"}
        with Actor(**sim) as actor:
            subject = f"process {actor.pid}"
            findings = self.doctor("--pid", str(actor.pid), **sim)
            self.assertIn("has served no allocation", self.one(findings, subject)["what"])
            actor.ok("alloc 1000")
            findings = self.doctor("--pid", str(actor.pid), **sim)
            self.assertEqual((self.one(findings, subject)["level"], self.one(findings, subject)["what"][-41:]),
                             ("ok", "has served 1 allocations of device memory"))
            path = os.path.join(PATHS.programs, "actor")
            self.assertIn("opens the driver by itself", self.one(findings, path)["what"])
            self.assertEqual(self.one(findings, PATHS.library)["what"], "custash")
        with Actor(preload=False, **sim) as actor:
            finding = self.one(self.doctor("--pid", str(actor.pid), code=1, **sim), f"process {actor.pid}")
            self.assertEqual((finding["level"], finding["what"]), ("problem", "runs without custash"))
        finding = self.one(self.doctor("--pid", str(actor.pid), code=1, **sim), f"process {actor.pid}")
        self.assertEqual(finding["what"], "there is none")
        finding = self.one(self.doctor("--pid", str(os.getpid()), **sim), f"process {os.getpid()}")
        self.assertEqual(finding["what"], "has not come to CUDA")

    def test_a_process_with_two_drivers(self):
        code = ("import ctypes; l = ctypes.CDLL(None); ctypes.CDLL('libcuda.so.1'); l.dlmopen.restype = ctypes.c_void_p;"
                "print(bool(l.dlmopen(ctypes.c_long(-1), b'libcuda.so.1', 2)), flush=True); input()")
        with subprocess.Popen([sys.executable, "-c", code], env=environment(preload=True, CUSTASH_SIM="devices=1"),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "True\n")
            findings = self.doctor("--pid", str(process.pid), CUSTASH_SIM="devices=1")
            (twice,) = [f for all in findings.values() for f in all if f["what"] == "is loaded 2 times"]
            self.assertEqual((twice["level"], "libcuda.so" in twice["subject"]), ("warning", True))

    def test_a_script_stands_for_its_interpreter(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script")
            with open(script, "w", encoding="utf-8") as file:
                file.write("#!/usr/bin/env -S doors_linked\n")
            os.chmod(script, 0o755)
            path = PATHS.programs + ":" + os.environ["PATH"]
            findings = self.doctor("--", script, PATH=path)
            self.assertIn("a script, run by", self.one(findings, script)["what"])
            linked = findings[os.path.join(PATHS.programs, "doors_linked")]
            self.assertIn("linked with the driver", linked[0]["what"])

    def test_programs_that_cannot_be_served(self):
        with tempfile.TemporaryDirectory() as folder:
            source, static = os.path.join(folder, "a.c"), os.path.join(folder, "a")
            with open(source, "w", encoding="utf-8") as file:
                file.write("int main(void) { return 0; }\n")
            subprocess.run(["cc", "-static", "-o", static, source], check=True)
            findings = self.doctor("--", static, code=1)
            self.assertIn("linked statically", self.one(findings, static)["what"])
            damaged = os.path.join(folder, "damaged")
            with open(os.path.join(PATHS.programs, "doors"), "rb") as file:
                whole = file.read()
            for length in range(0, 4096, 37):
                with open(damaged, "wb") as file:
                    file.write(whole[:length])
                os.chmod(damaged, 0o755)
                done = subprocess.run([PATHS.command, "doctor", "--lib", PATHS.library, "--", damaged],
                                      env=environment(preload=False), capture_output=True, text=True,
                                      timeout=60, check=False)
                self.assertIn(done.returncode, (0, 1), (length, done.stderr))
            lacking = os.path.join(folder, "doors_linked")
            shutil.copy(os.path.join(PATHS.programs, "doors_linked"), lacking)
            said = [f["what"] for f in self.doctor("--", lacking, code=1, LD_LIBRARY_PATH=folder)[lacking]]
            self.assertIn("needs libcuda.so.1, which is not found", said)

    def test_a_program_that_is_not_there(self):
        self.doctor("--", "no-such-program", code=127, err="custash: no-such-program: not found on PATH\n")

    def test_text_says_what_json_says(self):
        done = subprocess.run([PATHS.command, "doctor", "--lib", PATHS.library],
                              env=environment(preload=False, CUSTASH_CONF="nonsense"), capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        for findings in self.doctor(code=1, CUSTASH_CONF="nonsense").values():
            for finding in findings:
                self.assertIn(f"{finding['subject']}: {finding['what']}\n", done.stdout)
                self.assertIn(finding["advice"], done.stdout)


shared.main()
