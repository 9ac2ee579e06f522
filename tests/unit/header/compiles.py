# SPDX-License-Identifier: MIT
"""custash.hpp as it is installed, by each compiler here and as each standard, without a warning; and
that misuse does not compile. Argument: the root of the repository."""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = sys.argv[1]
COMPILERS = [c for c in ("g++", "clang++") if shutil.which(c)]

GOOD = """
#include <custash.hpp>
#include <vector>
template class custash::pinned_buffer<float>;
int main() {
  try {
    custash::pinned_buffer<float> a(10), b = std::move(a);
    a = std::move(b);
    for (float& x : a) x = 1;
    a.record_event(nullptr);
    custash::pinned_resource resource(CUSTASH_HOST_PORTABLE);
    std::pmr::vector<float> values(a.begin(), a.end(), &resource);
    return static_cast<int>(values.size());
  } catch (const custash::bad_alloc& failed) {
    return failed.status();
  } catch (const custash::error& failed) {
    return failed.status();
  }
}
"""
SPAN = """
#include <custash.hpp>
float f(const custash::pinned_buffer<float>& a) { return a.span()[0] + std::span<const float>(a)[1]; }
"""
# What must be refused, and a word of the reason.
BAD = {
    "deleted": "custash::pinned_buffer<int> a(1); auto b = a;",
    "the device copies bytes": "custash::pinned_buffer<std::vector<int>> a(1);",
    "no constructor is run": "struct S { int x = 1; }; custash::pinned_buffer<S> a(1);",
    "aligned to 512": "struct alignas(1024) S { char x; }; custash::pinned_buffer<S> a(1);",
    "no known conversion|could not convert|conversion from": "custash::pinned_buffer<int> a = 5;",
}


def compiled(compiler, standard, source, include, *flags):
    command = [compiler, f"-std=c++{standard}", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror",
               "-fsyntax-only", f"-I{include}", *flags, "-xc++", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False)


def main():
    problems, checked = [], 0
    with tempfile.TemporaryDirectory() as include:
        for name in ("custash.h", "custash.hpp"):
            shutil.copy(os.path.join(ROOT, "interpose", name), include)
        for compiler in COMPILERS:
            for standard in ("17", "20"):
                for flags in ((), ("-DCUSTASH_PRELOADED",)):
                    for source in (GOOD, SPAN)[:2 if standard == "20" else 1]:
                        done = compiled(compiler, standard, source, include, *flags)
                        checked += 1
                        if done.returncode:
                            problems.append(f"{compiler} c++{standard} {flags}: {done.stderr}")
            for reason, line in BAD.items():
                source = "#include <custash.hpp>\n#include <vector>\nvoid f() { " + line + " }\n"
                if line.startswith("struct"):
                    struct, rest = line.split("; custash", 1)
                    source = f"#include <custash.hpp>\n{struct};\nvoid f() {{ custash{rest} }}\n"
                done = compiled(compiler, "20", source, include)
                checked += 1
                if not done.returncode or not any(word in done.stderr for word in reason.split("|")):
                    problems.append(f"{compiler} takes: {line}\n{done.stderr}")
    print("\n".join(problems) + f"\n{checked} compiled by {' '.join(COMPILERS)}, {len(problems)} problems")
    sys.exit(1 if problems or not checked else 0)


main()
