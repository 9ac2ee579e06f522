// SPDX-License-Identifier: MIT
// property: checks the refinement property over random programs.
#include "tests/property/check.hpp"
#include "tests/property/command.hpp"

int main(int argc, char** argv) {
  return custash::property::run_command(argc, argv, custash::property::check_programs);
}
