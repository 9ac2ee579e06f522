# SPDX-License-Identifier: MIT
"""What `meson install` puts on a machine: programs that are built against it, with pkg-config, with CMake and with nvcc,
the installed command, the shells, the manual page, the Python module. tests/setup/packages.py has what tools/package builds."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import program
from program import PATHS, Case

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONSUMER = """
#include <custash.h>
#include <stdio.h>
#ifdef __cplusplus
extern "C" {
#endif
int cuInit(unsigned);
int cuMemAlloc_v2(unsigned long long *, size_t);
int cuMemFree_v2(unsigned long long);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
#ifdef __cplusplus
}
#endif
int main(void) {
  unsigned long long memory = 0;
  void *context = 0, *other = 0;
  custash_counter_t bytes = {0};
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
  if (cuMemAlloc_v2(&memory, 5000) || custash_malloc(&other, 0, 100)) return 2;
  if (custash_allocated_bytes(0, &bytes) || bytes.current < 5100) return 3;
  if (cuMemFree_v2(memory) || custash_free(other)) return 4;
  printf("served %d\\n", custash_version());
  return 0;
}
"""
PINNED = """
#define CUSTASH_PRELOADED
#include <custash.hpp>
#include <cstdio>
int main() {
  custash::pinned_buffer<float> buffer(1000);
  std::printf("pinned %zu\\n", buffer.size());
}
"""
# A program or, without main, its plug-in that uses the shared runtime.
RUNTIME = """
#include <custash.h>
#include <stdio.h>
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int work(void) {
  void *memory = 0;
  custash_counter_t bytes = {0};
  if (cudaMalloc(&memory, 5000)) return 1;
  if (custash_allocated_bytes(0, &bytes) || bytes.current < 5000) return 2;
  if (cudaFree(memory)) return 3;
  return puts("served") < 0;
}
#ifndef PLUGIN
int main(void) { return work(); }
#endif
"""
HOST = """
#include <dlfcn.h>
#include <stddef.h>
int main(int argc, char **argv) {
  void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  int (*work)(void) = NULL;
  if (plugin != NULL) *(void **)&work = dlsym(plugin, "work");
  return work == NULL ? 9 : work();
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.24)
project(consumer C CXX)
find_package(custash ${WANTED} REQUIRED)
find_library(CUDA cuda PATHS ${DRIVER} NO_DEFAULT_PATH REQUIRED)
add_executable(linked consumer.c)
target_link_libraries(linked PRIVATE custash::custash ${CUDA})
if(RUNTIME)
  add_executable(runtime runtime.c)
  target_link_libraries(runtime PRIVATE custash::custash ${RUNTIME})
endif()
add_executable(preloaded pinned.cpp)
target_link_libraries(preloaded PRIVATE custash::headers)
file(WRITE ${CMAKE_BINARY_DIR}/library "${CUSTASH_LIBRARY}")
"""


def execute(*words, **more):
    return subprocess.run([str(each) for each in words], capture_output=True, text=True, timeout=300, check=False,
                          **more)


class Installed(Case):
    temporary = None

    @classmethod
    def setUpClass(cls):
        cls = Installed  # once, for all
        if cls.temporary:
            return
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name)
        done = execute("meson", "install", "-C", PATHS.build, "--no-rebuild", "--destdir", cls.root / "installed")
        assert done.returncode == 0, done.stdout + done.stderr
        cls.pc = next((cls.root / "installed").rglob("custash.pc"))
        cls.prefix = next(cls.pc.parents[i] for i in range(5) if (cls.pc.parents[i] / "bin/custash").exists())
        cls.libdir = cls.pc.parents[1]
        for name, text in (("consumer.c", CONSUMER), ("runtime.c", RUNTIME), ("host.c", HOST), ("pinned.cpp", PINNED),
                           ("CMakeLists.txt", CMAKE)):
            (cls.root / name).write_text(text)
        # A name to link with: the simulator has only libcuda.so.1.
        os.symlink(os.path.join(PATHS.driver, "libcuda.so.1"), cls.root / "libcuda.so")
        cls.cudart = next(pathlib.Path(PATHS.runtime).glob("libcudart.so.*"), None) if PATHS.runtime else None

    def built(self, *words, **more):
        done = execute(*words, **more)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout


class Install(Installed):
    def serves(self, consumer):
        """The program's calls come to custash, and those of libraries that it loads would, too."""
        self.assertEqual(self.succeed(str(consumer), preload=False), f"served {int('%d%02d%02d' % program.VERSION)}\n")
        self.assertRegex(self.built("nm", "-D", "--defined-only", consumer), r"\bT cuMemFree_v2\b")

    def flags(self, *names):
        if not shutil.which("pkg-config"):
            self.skipTest("no pkg-config")
        env = {**os.environ, "PKG_CONFIG_PATH": str(self.pc.parent)}
        return self.built("pkg-config", "--static", "--cflags", "--libs", *names, env=env).split()

    def test_linked_by_pkg_config(self):
        self.built("cc", self.root / "consumer.c", "-o", self.root / "by_pkg_config", *self.flags("custash"),
                   f"-L{self.root}", "-lcuda")
        self.serves(self.root / "by_pkg_config")

    def test_the_checks_are_linked_by_pkg_config(self):
        self.built("cc", self.root / "consumer.c", "-o", self.root / "checked", *self.flags("custash-check", "custash"),
                   f"-L{self.root}", "-lcuda")
        self.serves(self.root / "checked")
        self.assertIn("custash_open_checks", self.built("nm", self.root / "checked"))

    def test_linked_beside_the_shared_runtime(self):
        """Each linker here, both orders, position independent and not; and a plug-in's runtime."""
        if not self.cudart:
            self.skipTest("no runtime double")
        flags = self.flags("custash")
        plugin = self.root / "libplugin.so"
        self.built("cc", "-shared", "-fPIC", "-DPLUGIN", f"-I{self.prefix}/include", self.root / "runtime.c", "-o",
                   plugin, self.cudart)
        for linker in ("bfd", "gold", "lld"):
            if not shutil.which(f"ld.{linker}"):
                continue
            cc = ["cc", f"-fuse-ld={linker}", "-Wl,--as-needed", "-o"]
            for pie, libraries in (("-pie", [self.cudart, *flags]), ("-no-pie", [*flags, self.cudart])):
                linked = self.root / f"runtime_{linker}{pie}"
                self.built(*cc, linked, pie, self.root / "runtime.c", *libraries)
                self.assertEqual(self.succeed(str(linked), preload=False), "served\n", linked)
            host = self.root / f"host_{linker}"
            self.built(*cc, host, self.root / "host.c", *flags)
            self.assertEqual(self.succeed(str(host), str(plugin), preload=False), "served\n", host)

    def test_linked_by_nvcc(self):
        """As the README has it."""
        if not shutil.which("nvcc"):
            self.skipTest("no nvcc")
        source = self.root / "consumer.cu"
        source.write_text(CONSUMER)
        self.built("nvcc", "-forward-unknown-to-host-compiler", source, "-o", self.root / "by_nvcc", *self.flags("custash"),
                   f"-L{self.root}", "-lcuda")
        self.serves(self.root / "by_nvcc")

    def test_by_cmake(self):
        if not shutil.which("cmake"):
            self.skipTest("no cmake")
        there = self.root / "cmake"
        self.built("cmake", "-S", self.root, "-B", there, f"-DCMAKE_PREFIX_PATH={self.prefix}",
                   f"-DDRIVER={self.root}", f"-DRUNTIME={self.cudart or ''}", "-DWANTED=%d.%d" % program.VERSION[:2])
        self.built("cmake", "--build", there)
        self.serves(there / "linked")
        if self.cudart:
            self.assertEqual(self.succeed(str(there / "runtime"), preload=False), "served\n")
        library = (there / "library").read_text()
        self.assertTrue(os.path.samefile(library, self.libdir / "libcustash.so"), library)
        self.assertEqual(self.succeed(str(there / "preloaded"), LD_PRELOAD=library), "pinned 1000\n")
        done = execute("cmake", "-S", self.root, "-B", self.root / "wrong", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DWANTED=99.0")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("version: %d.%d.%d" % program.VERSION, done.stderr)

    def test_the_command_finds_the_library_beside_it(self):
        out = self.built(self.prefix / "bin/custash", "run", "--", "sh", "-c", 'echo "$LD_PRELOAD"')
        self.assertTrue(os.path.samefile(out.split()[0], self.libdir / "libcustash.so"), out)

    def test_the_command_finds_the_programs_beside_it(self):
        trace = ROOT / "tests/traces/serving.trace.xz"
        self.assertIn("serving", self.built(self.prefix / "bin/custash", "replay", trace))
        with tempfile.TemporaryDirectory() as alone:
            command = shutil.copy(self.prefix / "bin/custash", alone)
            done = execute(command, "replay", trace)
            self.assertEqual((done.returncode, done.stderr),
                             (125, "custash: custash-replay is not next to this command; tools/build makes it\n"))

    def test_the_python_module_knows_where_the_library_is(self):
        where = next((self.root / "installed").rglob("_where.py"))
        looked_at = {folder for python in ("python3", "/usr/bin/python3") if shutil.which(python)
                     for folder in self.built(python, "-c", "import site; print(*site.getsitepackages(), sep='\\n')").split()}
        folder = f"/{where.parents[1].relative_to(self.root / 'installed')}"
        prefix = f"/{self.prefix.relative_to(self.root / 'installed')}/"
        if any(each.startswith(prefix) for each in looked_at):
            self.assertIn(folder, looked_at)
        library = where.read_text().split('"')[-2]
        self.assertTrue(str(self.libdir).endswith(library), (library, self.libdir))
        env = program.environment(False, PYTHONPATH=str(where.parents[1]), PYTHONDONTWRITEBYTECODE="1",
                                  CUSTASH_LIBRARY=str(self.libdir / "libcustash.so"))
        self.assertEqual(self.built(sys.executable, "-c", "import custash; print(custash.version())", env=env),
                         f"{program.VERSION}\n")


class Shells(Installed):
    """What the command says of itself: the same options in --help, in each shell and in the manual."""

    def setUp(self):
        self.command = self.prefix / "bin/custash"
        words = self.built(self.command, "--help").split("Subcommands:")[1].splitlines()
        self.commands = [line.split()[0] for line in words if line.startswith("  ") and line[2] != " "]

    def options(self, command):
        if command == "help":  # its help is the help of custash itself
            return set()
        help_text = self.built(self.command, command, "--help")
        return {word.strip(",") for line in help_text.splitlines() if line.startswith("  -")
                for word in line.split()[0].split(",") if word.startswith("--")}

    def complete(self, *words):
        script = next((self.root / "installed").rglob("custash.bash"))
        listed = " ".join(f"'{word}'" for word in words)
        return set(self.built("bash", "-c", f"source {script}; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; "
                                            "_custash; printf '%s\\n' \"${COMPREPLY[@]}\"").split())

    def test_bash_offers_what_help_lists(self):
        self.assertLessEqual(set(self.commands), self.complete("custash", ""))
        self.assertIn("run", self.complete("custash", "ru"))
        checked = 0
        for command in self.commands:
            options = self.options(command)
            self.assertLessEqual(options, self.complete("custash", command, "--"), command)
            checked += len(options)
        self.assertGreater(checked, 20)
        self.assertIn("true", self.complete("custash", "run", "--", "tru"))

    def test_the_other_shells_take_their_scripts(self):
        for shell, name in (("bash", "custash.bash"), ("zsh", "_custash"), ("fish", "custash.fish")):
            script = next((self.root / "installed").rglob(name))
            for command in self.commands:
                self.assertIn(command, script.read_text())
            if shutil.which(shell):
                self.built(shell, "-n", script)

    def test_the_manual_has_every_command_and_option(self):
        page = next((self.root / "installed").rglob("custash.1"))
        plain = page.read_text().replace("\\-", "-")
        for command in self.commands:
            self.assertIn(f".SS custash {command}", plain)
            for option in self.options(command) - {"--help"}:
                self.assertIn(option, plain)
        if shutil.which("groff"):
            done = execute("groff", "-man", "-ww", "-Tutf8", "-z", page)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


program.main()
