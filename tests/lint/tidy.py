# SPDX-License-Identifier: MIT
"""clang-tidy finds nothing in the product, nor does Clang's analysis of its locks. Argument: the build folder. A unit
that was clean is read again when one of its files, its flags or the checks have changed. Skipped where there is no
clang-tidy."""
import concurrent.futures
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from source import PRODUCT, ROOT, files, finish, read

TIDY = shutil.which("clang-tidy")
CONFIG = ".clang-tidy"
# Checks whose faults are in PLANTED.
TRIED = ("bugprone-unused-raii", "bugprone-use-after-move", "modernize-use-override", "performance-for-range-copy",
         "performance-move-const-arg", "performance-unnecessary-value-param")
LOCKS = "clang-diagnostic-thread-safety-"
FINDING = re.compile(r"^(\S+?):(\d+):\d+: (?:error|warning): (.*) \[([\w.-]+)[^]]*\]$", re.M)
PLANTED = """#include "allocator/base/mutex.hpp"
#include <mutex>
#include <string>
#include <utility>
#include <vector>
struct Base {
  virtual ~Base() = default;
  virtual void f();
};
struct Heir : Base {
  virtual void f();
};
std::string make();
unsigned long planted(std::string copied, std::mutex& mutex, const std::vector<std::string>& all) {
  std::unique_lock<std::mutex>{mutex};
  const std::string fixed = make();
  std::string moved = std::move(fixed);
  std::string taken = std::move(moved);
  unsigned long sum = copied.size() + taken.size();
  for (const std::string each : all) sum += each.size();
  return sum + moved.size();
}
class Guarded {
 public:
  int peek() { return value_; }
  int read() {
    custash::Lock lock(mutex_);
    return value_;
  }
 private:
  custash::Mutex mutex_{custash::LockRank::Registry};
  int value_ GUARDED_BY(mutex_) = 0;
};
"""


def flags_of(command):
    """What decides the meaning of the source; GCC's own switches are left behind."""
    kept, words = [], shlex.split(command)
    for word, following in zip(words, words[1:] + [""]):
        if word.startswith(("-I", "-D", "-U", "-std=")):
            kept.append(word)
        elif word.startswith("-isystem"):
            kept += [word] if word != "-isystem" else [word, following]
    return kept


def commands_of(build):
    """How a build folder compiles each source; in a unity build the file which includes it, and seven others."""
    commands = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for command in json.load(file):
            path = os.path.join(command["directory"], command["file"])
            sources = [path]
            is_unity = re.search(r"-unity\d+\.cpp$", path) is not None
            if is_unity:
                with open(path, encoding="utf-8") as unit:
                    sources = re.findall(r'#include\s*[<"](.+?)[>"]', unit.read())
            for source in sources:
                name = os.path.relpath(os.path.join(command["directory"], source), ROOT)
                if is_unity or name not in commands:
                    commands[name] = (path, command)
    return commands


def findings(unit, flags, folder):
    """Lines of `path:line: what [check]`."""
    command = [TIDY, "--quiet", f"--config-file={os.path.join(ROOT, CONFIG)}", f"--checks={LOCKS}*", unit, "--", "-Wthread-safety",
               *flags]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = {f"{os.path.relpath(os.path.join(folder, path), ROOT)}:{line}: {what} [{check}]"
             for path, line, what, check in FINDING.findall(done.stdout)}
    if done.returncode and not found:
        found.add(f"{unit}: clang-tidy failed: {done.stdout}{done.stderr}")
    return found


@functools.lru_cache(None)
def hash_of(path):
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def files_of(unit, flags, folder):
    """The unit and all that it includes."""
    done = subprocess.run(["c++", "-M", *flags, unit], cwd=folder, capture_output=True, text=True, check=True)
    return [os.path.join(folder, name) for name in done.stdout.split(":", 1)[1].replace("\\\n", " ").split()]


@functools.lru_cache(None)
def version():
    return subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout


def findings_since(unit, command, into):
    """As findings(), but of units that have changed since they were clean. A file that is gone has no hash."""
    # With assertions, as some values are for them alone.
    flags = [*flags_of(command["command"]), "-DCUSTASH_CHECKS=1"]
    folder = command["directory"]
    what = [flags, LOCKS, read(CONFIG), version()]
    note = os.path.join(into, os.path.relpath(unit, ROOT).replace("/", "-") + ".json")
    if os.path.exists(note):
        clean = json.loads(read(note))
        if clean["what"] == json.loads(json.dumps(what)) and all(hash_of(f) == h for f, h in clean["files"].items()):
            return set()
    files = {name: hash_of(name) for name in files_of(unit, flags, folder)}  # as they are before they are read
    found = findings(unit, flags, folder)
    if not found:
        with open(note, "w", encoding="utf-8") as file:
            json.dump({"what": what, "files": files}, file)
    return found


def self_test():
    """Each check of TRIED sees its fault, in a source that a unit includes."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "pinned"))
        for name, text in (("pinned/planted.cpp", PLANTED), ("unit.cpp", '#include "pinned/planted.cpp"\n')):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        found = findings(os.path.join(folder, "unit.cpp"), ["-std=c++20", f"-I{ROOT}"], folder)
    missed = [check for check in TRIED if not any(line.endswith(f"[{check}]") for line in found)]
    assert not missed, f"not seen: {missed}; seen: {found}"
    assert sum(LOCKS in line for line in found) == 1, f"of two accesses, one is not guarded: {found}"


def main():
    if TIDY is None:
        print("no clang-tidy")
        sys.exit(77)
    build = os.path.abspath(sys.argv[1])
    self_test()
    into = os.path.join(build, "tests/lint/tidy")
    os.makedirs(into, exist_ok=True)
    commands = commands_of(build)
    sources = [s for s in files(*PRODUCT, ends=(".cpp",)) if s in commands]
    assert "allocator/order/timeline.cpp" in sources, "the core is not among what would be looked at"
    units = dict(commands[source] for source in sources)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = set().union(*pool.map(lambda unit: findings_since(unit, units[unit], into), units))
    finish(sorted(found), len(sources))


main()
