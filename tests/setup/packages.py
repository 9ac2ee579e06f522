#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Installs custash in each way that docs/getting-started.md lists, without the network, and compares the demo's program over the
simulator with each. Prints how long that took.

  tests/setup/packages.py --build FOLDER [Pip|Meson|Packages]

Meson: `meson install`. Pip: `pip install .` and pipx. Packages: all that tools/package builds. What is missing here is skipped by name.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
VERSION = tuple(map(int, re.search(r"version: '(\d+)\.(\d+)\.(\d+)'", (ROOT / "meson.build").read_text()).groups()))
OFFLINE = ("--no-build-isolation", "--no-index", "--no-deps")
MODULES = {"__init__", "__main__", "_command", "_cupy", "_library", "_rmm", "_torch", "_torch_pools", "numba_manager"}
HEADERS = {"custash.h", "custash.hpp", "custash_calls.hpp", "custash_resource.hpp", "custash_thrust.hpp"}
LIBRARIES = {"libcustash.so", "libcustash.a", "libcustash-check.so", "libcustash-check.a", "libcustash-torch.so", "custash.symbols"}
TRAIN = """
import os, sys
import custash
memory = custash.malloc(5000)
print(sys.prefix, custash.preloaded(), custash.memory_allocated(), sys.argv[1:], os.environ.get("CUSTASH_PYTHON"))
custash.free(memory)
"""


def run(*words, **more):
    return subprocess.run([str(each) for each in words], capture_output=True, text=True, timeout=1500, check=False, **more)


def built(*words, **more):
    done = run(*words, **more)
    assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def simulated(**more):
    """The simulator, and nothing of the caller's settings."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CUSTASH", "LD_", "PYTHON", "PIP"))}
    return {**env, "LD_LIBRARY_PATH": f"{BUILD}/tests/sim:{BUILD}/tests/sim/cudart", "CUSTASH_SIM": "devices=1",
            "CUSTASH_SIM_KERNELS": f"{BUILD}/tests/demo/libdemo_kernels.so", "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": "/usr/bin:/bin", **more}


def python_with(module):
    """A Python with meson-python, which makes environments that have it, too; Debian's, where it comes from apt."""
    for python in ([sys.executable] if sys.prefix == sys.base_prefix else []) + ["/usr/bin/python3"]:
        if os.path.exists(python) and run(python, "-c", f"import {module}, pip, venv").returncode == 0:
            return python
    raise unittest.SkipTest(f"no Python with {module} (tools/setup --package)")


class Ways(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="custash-packages-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "train.py").write_text(TRAIN)
        self.begun = time.monotonic()

    def compare(self, command, way):
        out = built(command, "compare", "--runs", "2", "--warmup", "0", "--ignore", "^churn:", "--", BUILD / "tests/demo/churn_shared",
                    env=simulated(), cwd=self.folder)
        self.assertIn("wall time", out)
        print(f"{way}: {time.monotonic() - self.begun:.0f} s to the first comparison", flush=True)

    def runs(self, tree):
        """The command of the tree finds the tree's library, wherever that lies. Returns its folder."""
        self.assertEqual({each.name for each in (tree / "bin").iterdir()}, {"custash", "custash-replay"})
        (library,) = tree.rglob("libcustash.so")
        self.assertIn("LD_PRELOAD=" + str(library),
                      built(tree / "bin/custash", "run", "--", "env", env=simulated()).replace(str(tree.resolve()), str(tree)))
        return library.parent

    def holds(self, tree):
        """The tree has all that belongs into it, and what it says of its places is true wherever it lies."""
        libdir = self.runs(tree)
        self.assertLessEqual(HEADERS, {each.name for each in (tree / "include").iterdir()})
        self.assertLessEqual(LIBRARIES, {each.name for each in libdir.iterdir()})
        self.assertTrue((libdir / "cmake/custash/custash-config.cmake").exists())
        if shutil.which("pkg-config"):
            self.links(libdir)

    def links(self, libdir):
        """A C program with the library and the checks linked in, by pkg-config alone."""
        source = self.folder / "linked.c"
        source.write_text("#include <custash.h>\n#include <stdio.h>\nint main(void) { printf(\"%d\\n\", custash_version()); return 0; }\n")
        env = {**os.environ, "PKG_CONFIG_PATH": str(libdir / "pkgconfig")}
        flags = built("pkg-config", "--static", "--cflags", "--libs", "custash-check", "custash", env=env).split()
        built("cc", source, "-o", self.folder / "linked", *flags)
        major, minor, patch = VERSION
        self.assertEqual(built(self.folder / "linked", env=simulated()), f"{major * 10000 + minor * 100 + patch}\n")
        self.assertIn("custash_open_checks", built("nm", self.folder / "linked"))


class Meson(Ways):
    def test_it_installs_in_seconds_what_tools_build_has_built(self):
        build = ROOT / "build-installed"  # a folder of ours, where ccache knows the files
        shutil.rmtree(build, ignore_errors=True)
        self.addCleanup(shutil.rmtree, build, ignore_errors=True)
        built(ROOT / "tools/build", build)
        begun = time.monotonic()
        built("meson", "install", "-C", build, "--destdir", self.folder / "to")
        self.assertLess(time.monotonic() - begun, 30)
        self.assertFalse((build / "tests/sim/libcuda.so.1").exists(), "it built what is not installed")
        (command,) = (self.folder / "to").rglob("bin/custash")
        for name in ("custash.1", "custash.bash", "_custash", "custash.fish"):
            self.assertEqual(len(list((self.folder / "to").rglob(name))), 1, name)
        self.holds(command.parents[1])
        self.compare(command, "tools/build and meson install")


class Pip(Ways):
    def used(self, prefix):
        """The command and the module of an environment."""
        for words, preloaded in ((["custash", "run", "train.py", "x"], True),
                                 (["custash", "run", "--", "python", "train.py", "x"], True),
                                 (["python", "-m", "custash", "run", "train.py", "x"], True),
                                 (["python", "train.py", "x"], False)):
            done = run(prefix / "bin" / words[0], *words[1:], env=simulated(PATH=f"{prefix}/bin:/usr/bin:/bin"), cwd=self.folder)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{prefix} {preloaded} 5120 ['x'] None\n", ""), words)
        self.assertIn("--capacity", built(prefix / "bin/custash", "replay", "--help", env=simulated()))
        done = run(prefix / "bin/custash", "run", "--nonsense", env=simulated())
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        (package,) = prefix.glob("lib/python3*/site-packages/custash")
        self.assertLessEqual(MODULES, {each.stem for each in package.glob("*.py")})
        self.assertTrue((package / "py.typed").exists())
        self.holds(package)

    def installed(self, what, way):
        prefix = self.folder / "env"
        built(python_with("mesonpy"), "-m", "venv", "--system-site-packages", prefix)
        folder = [] if what.suffix == ".whl" else [f"--config-settings=builddir={ROOT}/build-wheel"]
        built(prefix / "bin/python", "-m", "pip", "install", *OFFLINE, *folder, what, env=simulated())
        self.compare(prefix / "bin/custash", way)
        self.used(prefix)

    def test_a_clone_is_installed_by_pip(self):
        self.installed(ROOT, "pip install .")

    def test_pipx_installs_the_wheel_of_a_clone(self):
        """pipx asks a clone for its name in an environment that lacks meson-python, unless the network is there."""
        if not shutil.which("pipx"):
            self.skipTest("no pipx")
        python = python_with("mesonpy")
        built(python, "-m", "pip", "wheel", *OFFLINE, f"--config-settings=builddir={ROOT}/build-wheel", "--wheel-dir", self.folder, ROOT,
              env=simulated())
        (wheel,) = self.folder.glob("*.whl")
        env = simulated(PIPX_HOME=str(self.folder / "home"), PIPX_BIN_DIR=str(self.folder / "bin"), PIP_NO_INDEX="1")
        built("pipx", "install", "--python", python, "--pip-args=--no-deps", wheel, env=env)
        self.compare(self.folder / "bin/custash", "pipx install")


class Packages(Pip):
    made = {}

    @classmethod
    def setUpClass(cls):
        python_with("mesonpy")
        lacking = [each for each in ("dpkg-buildpackage", "dh") if not shutil.which(each)]
        if not shutil.which("podman") and not shutil.which("docker"):
            lacking.append("podman")
        if lacking:
            raise unittest.SkipTest(f"no {lacking[0]} (tools/setup --package)")
        out = tempfile.TemporaryDirectory(prefix="custash-out-")
        cls.addClassCleanup(out.cleanup)
        cls.made = {name: cls.package(pathlib.Path(out.name, name)) for name in ("one", "two")}

    @staticmethod
    def package(out):
        done = subprocess.run([sys.executable, ROOT / "tools/package", "--out", out], stdout=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 0, done.stdout
        return [pathlib.Path(line) for line in done.stdout.splitlines()]

    def file(self, ending):
        (found,) = [each for each in self.made["one"] if each.name.endswith(ending)]
        return found

    def test_the_same_tree_gives_the_same_bytes(self):
        for one, two in zip(*self.made.values()):
            print(f"{one.name}: {one.stat().st_size / 1e6:.1f} MB", flush=True)
            self.assertEqual(one.name, two.name)
            if one.suffix not in (".buildinfo", ".changes") and "-image-" not in one.name:  # podman notes when it built
                self.assertEqual(*(hashlib.sha256(each.read_bytes()).hexdigest() for each in (one, two)), one.name)

    def test_a_wheel_serves_every_python(self):
        wheel = self.file(".whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.folder / "unzipped")
        glibc = self.newest_glibc(self.folder / "unzipped/custash")
        self.assertRegex(wheel.name, rf"^custash-[\d.]+-py3-none-manylinux_2_{glibc}_(x86_64|aarch64)\.whl$")
        self.installed(wheel, "pip install *.whl")

    def test_auditwheel_accepts_the_name(self):
        if run(sys.executable, "-c", "import auditwheel").returncode:
            self.skipTest("no auditwheel")
        wheel = self.file(".whl")
        said = " ".join(built(sys.executable, "-m", "auditwheel", "show", wheel).split())
        self.assertIn(f'platform tag: "{wheel.stem.split("-")[-1]}"', said)

    @staticmethod
    def newest_glibc(tree):
        needs = built("readelf", "-VW", *(tree / "bin").iterdir(), *(tree / "lib").glob("*.so"))
        return max(int(minor) for minor in re.findall(r"Name: GLIBC_2\.(\d+)", needs))

    def test_the_tarball_lies_anywhere(self):
        with tarfile.open(self.file("-linux-" + os.uname().machine + ".tar.gz")) as archive:
            self.assertEqual({(each.uid, each.gid) for each in archive}, {(0, 0)})
            archive.extractall(self.folder / "a b")
        (self.folder / "a b").rename(self.folder / "elsewhere")
        (tree,) = (self.folder / "elsewhere").iterdir()
        self.compare(tree / "bin/custash", "the tarball")
        self.holds(tree)
        out = built(sys.executable, "-c", "import custash; print(custash.version(), custash.preloaded())",
                    env=simulated(PYTHONPATH=str(tree / "lib/python3/site-packages")))
        self.assertEqual(out, f"{VERSION} False\n")
        # Zig's C++ runtime is another one: an exception must not pass from one library to the other.
        paths = {"command": BUILD / "tools/custash", "library": tree / "lib/libcustash.so", "programs": BUILD / "tests/process",
                 "driver": BUILD / "tests/sim", "build": BUILD, "schema": ROOT / "docs/snapshot-schema.json",
                 "runtime": BUILD / "tests/sim/cudart"}
        built(sys.executable, ROOT / "tests/process/check_library.py", *(word for name, path in paths.items() for word in (f"--{name}", path)),
              env=simulated(LD_LIBRARY_PATH=f"{BUILD}/tests/process:{BUILD}/tests/sim:{BUILD}/tests/sim/cudart"))

    def test_the_debian_package_is_clean(self):
        package = self.file("_" + built("dpkg", "--print-architecture").strip() + ".deb")
        built("dpkg-deb", "-x", package, self.folder / "unpacked")
        usr = self.folder / "unpacked/usr"
        self.compare(usr / "bin/custash", "the Debian package, unpacked")
        self.holds(usr)
        for path in ("lib/python3/dist-packages/custash/__init__.py", "share/man/man1/custash.1.gz", "share/doc/custash/changelog.gz",
                     "share/bash-completion/completions/custash.bash", "share/zsh/vendor-completions/_custash"):
            self.assertTrue((usr / path).exists(), path)
        self.assertRegex(built("dpkg-deb", "-f", package, "Depends"), r"^libc6 \(>= 2\.\d+\)\n$")
        names = {each.name for each in self.made["one"]}
        self.assertTrue({each for each in names if each.endswith(".dsc")} and {each for each in names if ".orig.tar" in each}, names)
        if not shutil.which("lintian"):
            self.skipTest("no lintian")
        done = run("lintian", "--allow-root", "--fail-on", "warning", "--tag-display-limit", "0", self.file(".changes"))
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_the_image_is_one_small_layer(self):
        path = self.file("-image-" + os.uname().machine + ".tar.gz")
        with tarfile.open(path) as archive:
            (manifest,) = json.load(archive.extractfile("manifest.json"))
            (layer,) = manifest["Layers"]
            with tarfile.open(fileobj=archive.extractfile(layer)) as files:
                size = sum(each.size for each in files)
                files.extractall(self.folder / "image")
        print(f"{path.name}: {size / 1e6:.1f} MB unpacked", flush=True)
        self.assertLess(size, 10e6)
        libdir = self.runs(self.folder / "image")
        self.assertEqual({each.name for each in libdir.glob("*custash*")}, {"libcustash.so", "libcustash-check.so", "libcustash-torch.so"})
        self.compare(self.folder / "image/bin/custash", "the image")


class Simulator(Ways):
    """The way without a GPU, from any folder."""

    def test_a_program_of_nvcc_is_compared(self):
        self.compare(BUILD / "tools/custash", "tools/build")

    def test_the_static_runtime_is_refused_with_the_reason(self):
        done = run(BUILD / "tests/demo/churn_static", env=simulated(), cwd=self.folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("custash: the simulated driver cannot run NVIDIA's CUDA runtime. Build the program with nvcc -cudart shared", done.stderr)


class Versions(unittest.TestCase):
    def test_the_recipes_have_the_version_of_the_project(self):
        recipe = (ROOT / "tools/packaging/conda/recipe.yaml").read_text()
        version = ".".join(map(str, VERSION))
        self.assertIn(f'version: "{version}"', recipe)
        self.assertTrue((ROOT / "tools/packaging/debian/changelog").read_text().startswith(f"custash ({version}-"))


def main():
    global BUILD  # pylint: disable=global-statement
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    BUILD = options.build.resolve()
    unittest.main(argv=["packages", *options.only], verbosity=2)


if __name__ == "__main__":
    main()
