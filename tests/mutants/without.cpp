// SPDX-License-Identifier: MIT
// The one rule that does not hold: CUSTASH_WITHOUT_RULE names it. A name that no rule has ends
// the process, so that nobody takes a rule for unfound that was misspelt.
#include "allocator/base/rule.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace custash {
namespace {

constexpr const char* kNames[] = {
#define CUSTASH_NAME(name) #name,
    CUSTASH_EACH_RULE(CUSTASH_NAME)
#undef CUSTASH_NAME
};

constinit int without = -1;

// Before main, so that programs which never ask for a rule report a wrong name, too.
[[gnu::constructor]] void read_environment() {
  const char* const name = std::getenv("CUSTASH_WITHOUT_RULE");
  if (name == nullptr) return;
  int at = 0;
  for (const char* const each : kNames) {
    if (std::strcmp(name, each) == 0) without = at;
    ++at;
  }
  if (without >= 0) return;
  std::fprintf(stderr, "CUSTASH_WITHOUT_RULE: no rule is called %s\n", name);
  std::_Exit(2);
}

}  // namespace

bool holds(Rule rule) {
  return static_cast<int>(rule) != without;
}

}  // namespace custash
