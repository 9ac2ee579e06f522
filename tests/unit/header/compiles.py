# SPDX-License-Identifier: MIT
"""custash.hpp as it is installed, by each compiler here and as each standard, without a warning; and
that misuse does not compile; the headers for CCCL likewise, where it is. Arguments: the root of the
repository, the toolkit's include folder."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

ROOT, TOOLKIT = sys.argv[1:]
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
    a.record_stream(nullptr);
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
CCCL = """
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#include <custash_resource.hpp>
#include <custash_thrust.hpp>
static_assert(cuda::mr::async_resource_with<custash::device_resource, cuda::mr::device_accessible>);
template class custash::device_allocator<double>;
void* f(custash::device_resource memory, cuda::stream_ref stream) {
  cuda::mr::async_resource_ref<cuda::mr::device_accessible> reference(memory);
  return reference.allocate_async(10, stream);
}
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
        for path in glob.glob(os.path.join(ROOT, "interpose/api", "custash*.h*")):
            shutil.copy(path, include)
        cccl = os.path.join(TOOLKIT, "cccl")
        there = os.path.exists(os.path.join(cccl, "cuda/memory_resource"))  # of CUDA 13; before, it differs
        for compiler in COMPILERS:
            for standard in ("17", "20"):
                for flags in ((), ("-DCUSTASH_PRELOADED",)):
                    sources = [GOOD] + [SPAN] * (standard == "20")
                    # CCCL takes seconds: once a compiler.
                    sources += [CCCL] * bool(there and flags and (standard == "17") == (compiler == "g++"))
                    for source in sources:
                        done = compiled(compiler, standard, source, include, *flags,
                                        "-isystem", TOOLKIT, "-isystem", cccl)
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
