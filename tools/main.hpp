// SPDX-License-Identifier: MIT
// The main() that custash's programs share. No state.
#pragma once

#include <string>
#include <vector>

namespace custash {

// Runs `body` with the words behind the program's name, and returns its exit code. Errors go to
// standard error, also one of standard output itself, which may show only at the end.
int run_main(int argc, char** argv, int (*body)(const std::vector<std::string>& words));

}  // namespace custash
