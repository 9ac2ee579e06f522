// SPDX-License-Identifier: MIT
// property_pinned: as property, for programs with pinned memory.
#include "tests/property/check.hpp"
#include "tests/property/command.hpp"

int main(int argc, char** argv) {
  return custash::property::run_command(argc, argv, custash::property::check_pinned_programs);
}
