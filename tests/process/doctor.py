# SPDX-License-Identifier: MIT
"""custash doctor: what it finds on a machine and in a program, over the simulated driver."""
import ctypes.util
import glob
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import unittest

import program as shared
from actor import Actor
from program import PATHS, InFolder, custash, environment, must_load_the_library, within

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Doctor(InFolder):
    def doctor(self, *words, code=0, err="", library=None, **more):
        """The findings, by subject; a program of PATHS.programs may be named after --."""
        words = [os.path.join(PATHS.programs, w) if os.path.exists(os.path.join(PATHS.programs, w)) else w
                 for w in words]
        done = custash("doctor", "--json", "--lib", library or PATHS.library, *words, **more)
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
        for subject in ("huge pages", "libcustash.so"):
            self.assertTrue(self.one(findings, subject)["what"])

    def test_what_backs_memory_is_what_custash_will_use(self):
        for conf, sim, word in (("backing:driver", "devices=1", "plain"), ("", "devices=2", "mapped"),
                                ("", "devices=2,peers=0", "plain"), ("backing:vmm", "devices=2,peers=0", "mapped"),
                                ("backing:vmm", "devices=1,vmm=0", "plain")):
            findings = self.doctor(CUSTASH_CONF=conf, CUSTASH_SIM=sim)
            self.assertIn("backing: " + word, self.one(findings, "device 0")["what"], (conf, sim))

    def test_a_device_that_does_not_register_host_memory(self):
        findings = self.doctor(CUSTASH_SIM="devices=1,register=0")
        self.assertIn("does not register host memory", self.one(findings, "device 0")["what"])

    def test_a_device_whose_kernels_reach_pageable_memory(self):
        found = self.one(self.doctor(CUSTASH_SIM="devices=1,pageable=1"), "device 0")
        self.assertEqual(found["level"], "note")
        self.assertIn("kernels reach pageable memory", found["what"])
        self.assertIn("free:strict", found["advice"])
        found = self.one(self.doctor(CUSTASH_SIM="devices=1"), "device 0")
        self.assertEqual((found["level"], found["advice"]), ("ok", ""))
        self.assertNotIn("pageable", found["what"])

    def with_driver(self, code, version, devices=1, lacks=None):
        """The findings beside a driver of these answers, which has only the calls that custash must have."""
        with open(os.path.join(ROOT, "allocator/base/driver.hpp"), encoding="utf-8") as file:
            needed = set(re.findall(r'X\(Required,[\s\\]*\w+,[\s\\]*"(\w+)"', file.read())) - {"cuDeviceGetCount", lacks}
        self.assertGreater(len(needed), 20)
        source = self.path("cuda.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(f"int cuInit(unsigned f) {{ return {code}; }}\n"
                       f"int cuDriverGetVersion(int *v) {{ *v = {version}; return 0; }}\n"
                       f"int cuDeviceGetCount(int *n) {{ *n = {devices}; return 0; }}\n" +
                       "".join(f"int {name}() {{ return 801; }}\n" for name in needed))
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", self.path("libcuda.so.1"), source],
                       check=True)
        return self.doctor(code=0 if (code, devices, lacks) == (0, 1, None) and version >= 11020 else 1,
                           LD_LIBRARY_PATH=self.folder)

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

        said = self.with_driver(0, 11020, lacks="cuStreamGetCtx")["driver"]
        self.assertEqual([finding["level"] for finding in said], ["ok", "problem"])
        self.assertIn("programs run without custash", said[1]["what"])

    def test_no_driver(self):
        self.write("libcuda.so.1", "no library\n")
        findings = self.doctor(code=1, LD_LIBRARY_PATH=self.folder)
        self.assertEqual(self.one(findings, "driver")["level"], "problem")

    def test_wrong_options_are_problems(self):
        findings = self.doctor(code=1, CUSTASH_CONF="backing:paper,nonsense:1")
        self.assertEqual([f["level"] for f in findings["CUSTASH_CONF"]], ["problem", "problem"])
        self.assertIn("paper", findings["CUSTASH_CONF"][0]["what"])
        findings = self.doctor(CUSTASH_CONF="enabled:false")
        self.assertEqual(self.one(findings, "CUSTASH_CONF")["level"], "warning")

    def test_options_that_do_nothing_beside_another_are_told(self):
        for conf, said in (("sleep_after:5,control:false", ["sleep_after needs control:true"]),
                           ("sleep_after:5,deep_trim_after:1,backing:driver", ["sleep_after needs mapped pages", "deep_trim_after needs mapped pages"]),
                           ("sleep_dir:/nonexistent", ["sleep_dir:/nonexistent: No such file or directory"]),
                           ("yield_after:5,neighbours:off", ["yield_after needs neighbours:true"]), ("yield_after:5", []),
                           ("sleep_after:5,deep_trim_after:1", []), ("turns:5", ["option 'turns' was removed and does nothing: run such programs one after the "
                                                                                    "other, or let the idle one sleep (yield_after)"]), ("control:false", [])):
            findings = self.doctor(CUSTASH_CONF=conf)["CUSTASH_CONF"]
            self.assertEqual([each["what"] for each in findings if each["level"] == "warning"], said)

    def test_the_environment(self):
        self.assertNotIn("MPS", self.doctor(CUDA_MPS_PIPE_DIRECTORY=self.folder))
        with open(self.path("control"), "w", encoding="utf-8"):
            pass
        findings = self.doctor(CUDA_MPS_PIPE_DIRECTORY=self.folder, CUDA_INJECTION64_PATH="/x.so",
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
            self.assertIn("caches nothing", self.one(self.doctor(**more), name)["what"])
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
            self.assertRegex(self.door("runtime_shared", "libcudart.so.13"), "the shared CUDA runtime; served at the runtime")
            findings = self.doctor("--", "runtime_shared", CUSTASH_SIM="devices=1")
            self.assertEqual([f for fs in findings.values() for f in fs if f["subject"].endswith("runtime_shared") and f["advice"]], [])

    def test_programs_that_known_differences_may_concern(self):
        def risks(name):
            findings = self.doctor("--", name, CUSTASH_SIM="devices=1")
            return [f["what"] for fs in findings.values() for f in fs if "Known differences" in f.get("advice", "")]
        self.assertEqual(len(risks("risky")), 1)
        self.assertIn("without a call that waits", risks("risky")[0])
        for name in ("risky_but_waits", "doors_linked", "doors"):
            self.assertEqual(risks(name), [])

    def test_custash_linked_in_beside_the_shared_runtime(self):
        if not PATHS.runtime:
            self.skipTest("no runtime double")
        self.assertEqual(self.door("runtime_custash_shared"), "custash is linked in")
        linked = json.dumps(self.doctor("--", "runtime_custash_shared"))
        self.assertIn("set CUSTASH_CONF=summary:true", linked)
        self.assertNotIn("custash run --summary", linked)
        self.assertEqual(self.door("runtime_custash_shared", "libcudart.so.13"),
                         "the shared CUDA runtime; served through its look-up of the driver")
        silent = self.path("silent")
        with open(os.path.join(PATHS.programs, "runtime_custash_shared"), "rb") as file:
            whole = file.read()
        with open(silent, "wb") as file:  # as one that was linked by custash before it showed dlsym
            file.write(whole.replace(b"dlsym\0", b"dlsyn\0"))
        os.chmod(silent, 0o755)
        findings = self.doctor("--", silent, code=1)
        (runtime,) = [f[0] for subject, f in findings.items() if os.path.basename(subject) == "libcudart.so.13"]
        self.assertEqual((runtime["level"], runtime["what"]),
                         ("problem", "the shared CUDA runtime; not served: its look-ups bypass custash"))

    def test_a_process_that_runs(self):
        sim = {"CUSTASH_SIM": "devices=1"}
        with Actor(**sim) as actor:
            subject = f"process {actor.pid}"
            findings = self.doctor("--pid", str(actor.pid), **sim)
            finding = self.one(findings, subject)
            self.assertEqual(finding["level"], "warning")
            self.assertIn("it has no device memory yet, or has the option control:off", finding["what"])
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
        self.assertEqual(finding["what"], "no such process")
        finding = self.one(self.doctor("--pid", str(os.getpid()), **sim), f"process {os.getpid()}")
        self.assertEqual(finding["what"], "has loaded no CUDA library")

    def test_the_share_that_was_served(self):
        sim = {"CUSTASH_SIM": "devices=1"}
        with Actor(CUSTASH_CONF="pools:driver", **sim) as actor:
            for word in ("alloc", "alloc", "alloc_async", "alloc"):
                actor.ok(f"{word} 1000")
            finding = self.one(self.doctor("--pid", str(actor.pid), **sim), f"process {actor.pid}")
            self.assertEqual((finding["level"], finding["what"]),
                             ("ok", "runs under custash, which has served 3 of 4 allocations (75.0 %) and 75.0 % of their bytes; by the driver: "
                              "stream-ordered 1 (0.0 MiB)"))

    def test_a_process_with_custash_linked_in(self):
        with Actor(preload=False, name="actor_custash", CUSTASH_SIM="devices=1") as actor:
            actor.ok("alloc 1000")
            findings = self.doctor("--pid", str(actor.pid), CUSTASH_SIM="devices=1")
            finding = self.one(findings, f"process {actor.pid}")
            self.assertEqual((finding["level"], finding["what"]),
                             ("ok", "runs under custash, which has served 1 allocations of device memory"))

    def test_what_cannot_be_known_is_said_to_be_unknown(self):
        def finding(actor):
            return self.one(self.doctor("--pid", str(actor.pid)), f"process {actor.pid}")

        with Actor() as actor:
            actor.ok("alloc 1000")
            within(10, lambda: glob.glob(f"/dev/shm/custash.*.{actor.pid}.*"))  # its service starts with its first memory
            os.kill(actor.pid, signal.SIGSTOP)
            # A custash top elsewhere on this machine may have asked it just before.
            self.assertIn(finding(actor)["what"],
                          ("runs under custash; how much it was served is unknown: it does not answer",
                           "runs under custash, which had, when it was last asked, served 1 allocations of device memory"))
        with Actor(CUSTASH_CONF="control:off,neighbours:off") as actor:
            actor.ok("alloc 1000")
            self.assertIn("or has the option control:off", finding(actor)["what"])

    @unittest.skipUnless(os.geteuid() == 0, "becomes another user: needs root")
    def test_another_user_s_process(self):
        nobody = 65534
        with Actor(user=nobody) as actor:
            actor.ok("alloc 1000")
            subject = f"process {actor.pid}"
            finding = self.one(self.doctor("--pid", str(actor.pid)), subject)
            # Its service publishes figures by itself, once it has looked for memory that idles.
            self.assertRegex(finding["what"], "runs under custash; .* unknown: only its own user, nobody, may query it|when it was last asked")
            custash("top", "--once", "--delay", "0.05", user=nobody).check_returncode()
            finding = self.one(self.doctor("--pid", str(actor.pid)), subject)
            self.assertIn("had, when it was last asked, served 1 allocations of device memory", finding["what"])

    def test_a_process_with_two_drivers(self):
        code = ("import ctypes; l = ctypes.CDLL(None); ctypes.CDLL('libcuda.so.1'); l.dlmopen.restype = ctypes.c_void_p;"
                "print(bool(l.dlmopen(ctypes.c_long(-1), b'libcuda.so.1', 2)), flush=True); input()")
        must_load_the_library(sys.executable)
        with subprocess.Popen([sys.executable, "-c", code], env=environment(preload=True, CUSTASH_SIM="devices=1"),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "True\n")
            findings = self.doctor("--pid", str(process.pid), CUSTASH_SIM="devices=1")
            (twice,) = [f for all in findings.values() for f in all if f["what"] == "is loaded 2 times"]
            self.assertEqual((twice["level"], "libcuda.so" in twice["subject"]), ("warning", True))

    def test_a_script_stands_for_its_interpreter(self):
        script = self.path("script")
        self.write(script, "#!/usr/bin/env -S doors_linked\n")
        os.chmod(script, 0o755)
        path = PATHS.programs + ":" + os.environ["PATH"]
        findings = self.doctor("--", script, PATH=path)
        self.assertIn("a script, run by", self.one(findings, script)["what"])
        linked = findings[os.path.join(PATHS.programs, "doors_linked")]
        self.assertIn("linked with the driver", linked[0]["what"])

    def test_a_shim_chooses_what_it_starts(self):
        shim = self.path("python3")
        self.write(shim, '#!/usr/bin/env bash\nexec pyenv exec "${0##*/}" "$@"\n')
        os.chmod(shim, 0o755)
        link = self.path("python3.11")
        os.symlink("/usr/bin/env", link)
        for path, what in ((shim, "a shell script, run by .*bash: it starts another program"), (link, "a link to /usr/bin/env, which")):
            finding = self.one(self.doctor("--", path), path)
            self.assertRegex(finding["what"], what)
            self.assertIn(f"\"$({path} -c 'import sys; print(sys.executable)')\"", finding["advice"])
        text = self.path("text")
        shutil.copy(shim, text)
        finding = self.one(self.doctor("--", text), text)
        self.assertEqual(finding["advice"], "Name the program that it starts; custash run serves that one, too.")

    def test_programs_that_cannot_be_served(self):
        source, static = self.path("a.c"), self.path("a")
        self.write(source, "int main(void) { return 0; }\n")
        subprocess.run(["cc", "-static", "-o", static, source], check=True)
        findings = self.doctor("--", static, code=1)
        self.assertIn("linked statically", self.one(findings, static)["what"])
        damaged = self.path("damaged")
        with open(os.path.join(PATHS.programs, "doors"), "rb") as file:
            whole = file.read()
        for length in range(0, 4096, 37):
            with open(damaged, "wb") as file:
                file.write(whole[:length])
            os.chmod(damaged, 0o755)
            done = custash("doctor", "--lib", PATHS.library, "--", damaged)
            self.assertIn(done.returncode, (0, 1), (length, done.stderr))
        if ctypes.util.find_library("cuda"):
            return  # a machine with a driver: it is found
        lacking = self.path("doors_linked")
        shutil.copy(os.path.join(PATHS.programs, "doors_linked"), lacking)
        said = [f["what"] for f in self.doctor("--", lacking, code=1, LD_LIBRARY_PATH=self.folder)[lacking]]
        self.assertIn("needs libcuda.so.1, which is not found", said)

    def test_names_that_are_no_utf8_or_steer_the_terminal(self):
        for name, shown in ((b"a\xff", "a\\xff"), (b"a\x1b[31m", "a\\x1b[31m")):
            path = os.path.join(os.fsencode(self.folder), name)
            command = [PATHS.command, "doctor", "--lib", PATHS.library, "--json", "--"]
            shutil.copy(os.path.join(PATHS.programs, "doors"), path)
            env = environment(preload=False)
            done = subprocess.run([*command, path], env=env, capture_output=True, timeout=60, check=False)
            self.assertIn(os.path.basename(self.folder), str(json.loads(done.stdout.decode())))  # it is UTF-8
            done = subprocess.run([*command[:4], "--", path], env=env, capture_output=True, timeout=60, check=False)
            self.assertIn(f"{shown}: ", done.stdout.decode())
            done = subprocess.run([*command[:4], "--", name], env=env, capture_output=True, timeout=60, check=False)
            self.assertEqual(done.stderr.decode(), f"custash: {shown}: not found on PATH\n")
            done = subprocess.run([PATHS.command, "run", "--lib", PATHS.library, "--", name], env=env, capture_output=True, timeout=60,
                                  check=False)
            self.assertEqual(done.stderr.decode(), f"custash: {shown}: not found on PATH\n")

    def test_a_program_that_is_not_there(self):
        self.doctor("--", "no-such-program", code=127, err="custash: no-such-program: not found on PATH\n")
        text, script, gone = (self.path(name) for name in ("text", "script", "gone"))
        for path, line in ((text, "no program"), (script, f"#!{gone}")):
            self.write(path, line + "\n")
        os.chmod(script, 0o755)
        for path, code, why in ((gone, 127, "No such file or directory"), (self.folder, 126, "Is a directory"),
                                (text, 126, "Permission denied"),
                                (script, 127, f"its interpreter {gone}: No such file or directory")):
            self.doctor("--", path, code=code, err=f"custash: {path}: {why}\n")

    def test_a_process_and_a_program_at_once_are_refused(self):
        self.doctor("--pid", "3", "--", "true", code=125,
                    err="custash: doctor inspects a process (--pid) or a program, not both\n")

    def test_a_library_that_is_none(self):
        for path in ("/tmp", "/etc/passwd", os.path.join(PATHS.driver, "libcuda.so.1")):
            finding = self.one(self.doctor(library=path, code=1), "libcustash.so")
            self.assertEqual(finding["what"], f"not found; looked for {path} (not a libcustash.so)")
            done = custash("run", "--lib", path, "--", "true")
            self.assertEqual(done.returncode, 125)
            self.assertIn(f"{path} (not a libcustash.so)", done.stderr)

    def test_a_library_alone(self):
        finding = self.one(self.doctor(library=shutil.copy(PATHS.library, self.folder)), "libcustash-check.so")
        self.assertEqual((finding["level"], finding["what"]), ("warning", "not found beside libcustash.so"))

    def test_colours_are_for_terminals(self):
        def on_a_terminal(**more):
            ours, theirs = pty.openpty()
            with os.fdopen(ours, "rb") as screen:
                subprocess.run([PATHS.command, "doctor", "--lib", PATHS.library], stdout=theirs, timeout=60, check=True,
                               env=environment(preload=False, CUSTASH_SIM="devices=1", TERM="xterm", **more))
                os.close(theirs)
                return screen.read1(1 << 16)

        self.assertIn(b"\x1b[32mok      \x1b[0mlibcustash.so", on_a_terminal(NO_COLOR=""))
        self.assertNotIn(b"\x1b", on_a_terminal(NO_COLOR="1"))

    def test_text_says_what_json_says(self):
        done = custash("doctor", "--lib", PATHS.library, CUSTASH_CONF="nonsense")
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        for findings in self.doctor(code=1, CUSTASH_CONF="nonsense").values():
            for finding in findings:
                self.assertIn(f"{finding['subject']}: {finding['what']}\n", done.stdout)
                self.assertIn(finding["advice"], done.stdout)


shared.main()
