# SPDX-License-Identifier: MIT
"""custash run of programs that the loader treats in their own way: built with a sanitizer, or for musl."""
import os
import shutil
import subprocess

import program
from program import PATHS, InFolder, custash, environment, machine_of

# Says what is preloaded, and ends with 7.
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  const char* const preloaded = getenv("LD_PRELOAD");
  puts(preloaded == NULL ? "nothing" : preloaded);
  return 7;
}
"""
# Has a block of device memory for a moment.
WITH_CUDA = """
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) return 1;
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
  int (*retain)(void**, int) = (int (*)(void**, int))dlsym(library, "cuDevicePrimaryCtxRetain");
  int (*set)(void*) = (int (*)(void*))dlsym(library, "cuCtxSetCurrent");
  int (*allocate)(unsigned long long*, size_t) = (int (*)(unsigned long long*, size_t))dlsym(library, "cuMemAlloc_v2");
  int (*release)(unsigned long long) = (int (*)(unsigned long long))dlsym(library, "cuMemFree_v2");
  void* context = NULL;
  unsigned long long block = 0;
  if (init(0) != 0 || retain(&context, 0) != 0 || set(context) != 0) return 2;
  return allocate(&block, 1 << 20) != 0 || release(block) != 0 ? 3 : 7;
}
"""


class Launch(InFolder):
    def setUp(self):
        if machine_of(PATHS.library) != machine_of("/bin/sh"):
            self.skipTest("the compiler is for another processor than the library")
        super().setUp()

    def built(self, name, *options, source=SOURCE):
        """A program, or None where the compiler cannot build it so."""
        file, out = os.path.join(self.folder, name + ".c"), os.path.join(self.folder, name)
        with open(file, "w", encoding="ascii") as text:
            text.write(source)
        done = subprocess.run(["gcc", *options, "-o", out, file, "-ldl"], capture_output=True, check=False)
        return out if done.returncode == 0 else None

    def custash(self, *words, **more):
        return custash(words[0], "--lib", PATHS.library, *words[1:], CUSTASH_SIM="devices=1", **more)

    def test_the_library_is_found_without_proc(self):
        words = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no mount namespace of its own")
        done = subprocess.run([*words, PATHS.command, "run", "--", "env"], capture_output=True, text=True, timeout=60, check=False,
                              env=environment(False, CUSTASH_SIM="devices=1"))
        self.assertIn("LD_PRELOAD=" + os.path.realpath(PATHS.library), done.stdout, done.stderr)

    def test_a_launcher_inside_another_has_the_reports(self):
        program = self.built("cuda", source=WITH_CUDA)
        inner = [PATHS.command, "run", "--lib", PATHS.library]
        for words, said in (([], "custash: device 0: 1 allocations, 1 frees;"),
                            (["--summary"], "custash: a custash command inside this one has the reports: no summary\n")):
            done = self.custash("run", "--summary", "--", *inner, *words, "--", program)
            self.assertEqual(done.returncode, 7)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stderr.count("custash: device 0: 1 allocations"), 1)
            self.assertNotIn("no process reported", done.stderr)

    def test_a_sanitizer_s_runtime_comes_first(self):
        for sanitizer, runtime in (("address", "libasan.so"), ("thread", "libtsan.so"), ("leak", "liblsan.so")):
            app = self.built("app", "-fsanitize=" + sanitizer)
            if app is None or subprocess.run([app], capture_output=True, check=False).returncode != 7:
                continue
            with self.subTest(sanitizer):
                done = self.custash("run", "--", app)
                self.assertEqual((done.returncode, done.stderr), (7, ""))
                self.assertRegex(done.stdout, rf"^{runtime}[.0-9]*:{PATHS.library}\n$")
                served = self.custash("run", "--summary", "--", self.built("cuda", "-fsanitize=" + sanitizer, source=WITH_CUDA))
                self.assertEqual(served.returncode, 7, served.stderr)
                self.assertIn("1 allocation", served.stderr)
                (finding,) = [line for line in self.custash("doctor", "--", app).stdout.splitlines() if "sanitizer" in line]
                self.assertIn("must be the first library", finding)

    def test_one_that_is_preloaded_already_stays_first(self):
        app = self.built("app")
        runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
        if self.built("sanitized", "-fsanitize=address") is None or "/" not in runtime:
            self.skipTest("no address sanitizer here")
        done = self.custash("run", "--", app, LD_PRELOAD=f"{runtime} libm.so.6", ASAN_OPTIONS="detect_leaks=0")
        self.assertEqual((done.returncode, done.stdout), (7, f"{runtime}:{PATHS.library}:libm.so.6\n"), done.stderr)

    def test_a_program_for_musl_runs_without_custash_and_that_is_said(self):
        """Its loader is glibc's under another name: what counts is what is asked of it."""
        loader = os.path.join(self.folder, "ld-musl-x86_64.so.1")
        plain = self.built("plain")
        found = subprocess.run(["readelf", "-p", ".interp", plain], capture_output=True, text=True, check=True).stdout.split()[-1]
        os.symlink(found, loader)
        app = self.built("app", "-Wl,--dynamic-linker=" + loader)
        done = self.custash("run", "--", app)
        self.assertEqual((done.returncode, done.stdout), (7, "nothing\n"))
        self.assertEqual(done.stderr, f"custash: warning: {app} will run without custash: "
                                      "musl's loader loads it, and libcustash.so needs glibc\n")
        done = self.custash("run", "--", app, LD_PRELOAD=f"{PATHS.library} libm.so.6")
        self.assertEqual(done.stdout, "libm.so.6\n")
        done = self.custash("doctor", "--", app)
        self.assertEqual(done.returncode, 1)
        self.assertIn("runs without custash: musl's loader loads it", done.stdout)
        done = self.custash("compare", "--", app)
        self.assertEqual(done.returncode, 125)
        self.assertIn("musl's loader loads it", done.stderr)


if __name__ == "__main__":
    if shutil.which("gcc") is None:
        raise SystemExit(77)
    program.main()
