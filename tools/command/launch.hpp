// SPDX-License-Identifier: MIT
// The launcher's parts, each a function of values: what LD_PRELOAD and CUSTASH_CONF become,
// where the library lies, what speaks against preloading into a program. Only start() and
// add_python() change anything.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace custash {

// Exit codes of the command, as env(1) has them.
inline constexpr int kExitCustash = 125;      // custash run itself failed
inline constexpr int kExitNotRunnable = 126;  // the program was found but cannot be run
inline constexpr int kExitNotFound = 127;     // the program was not found

// Ours first (the first library that defines a symbol wins), then what was there, once each. A
// sanitizer's runtime precedes all: it ends a program in which another library is the first.
// `runtime`: the program's, which may be empty.
std::string compose_preload(std::string_view ours,
                            std::string_view present,
                            std::string_view runtime);

// `present` without `ours`, and without any other libcustash.so.
std::string preload_without(std::string_view ours, std::string_view present);

// The sanitizer's runtime that a program is linked with, such as libasan.so.8; else empty.
std::string sanitizer_of(const std::string& path);

// Options in one line; empty parts are left out. The last word for a key wins.
std::string join_conf(std::initializer_list<std::string_view> parts);

// Absolute path of libcustash.so: `given` if not empty, else beside this command, in the build
// tree or installed. Empty when there is none; `tried` then names every place, and what is no
// such library.
std::string find_library(std::string_view given, std::vector<std::string>* tried);

// The libcustash-check.so that this libcustash.so opens; empty if there is none.
std::string check_library_of(const std::string& library);

// As find_library; throws where there is none that LD_PRELOAD can name.
std::string require_library(std::string_view given);

// Throws where check_library_of finds none.
void require_check_library(const std::string& library);

// The file that execvp would run, or empty.
std::string find_program(std::string_view name);

// Puts a Python before a script that nothing else would run: a file NAME.py without the right
// to execute, or one that PATH does not lead to. `python -m custash` names its own in
// CUSTASH_PYTHON, which is removed from the environment.
void add_python(std::vector<std::string>* program);

// Why the dynamic loader will not put a library into this file; empty when it will.
std::string why_not_preloadable(const std::string& path);

// Whether musl's loader loads it, which fails with a library that needs glibc.
bool uses_musl(const std::string& path);

// Replaces this process by the program. Returns an exit code when it could not.
int start(const std::vector<std::string>& program);

// The path of a program of custash's, beside this one; empty where it is not there.
std::string beside(const std::string& name);

}  // namespace custash
