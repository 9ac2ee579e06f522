// SPDX-License-Identifier: MIT
#include "tools/command/compare/sides.hpp"

#include "tools/command/launch.hpp"

#include <cstdlib>

namespace custash::compare {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Environment without_custash(const std::string& library) {
  return {preload_without(library, variable("LD_PRELOAD")), "enabled:false"};
}

Environment with_custash(const std::string& library,
                         const std::string& program,
                         const std::string& conf) {
  return {compose_preload(library, variable("LD_PRELOAD"), sanitizer_of(find_program(program))),
          join_conf({variable("CUSTASH_CONF"), conf})};
}

}  // namespace custash::compare
