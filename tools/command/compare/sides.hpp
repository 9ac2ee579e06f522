// SPDX-License-Identifier: MIT
// The environment of the two sides. Both are made from this process's own.
#pragma once

#include <string>

namespace custash::compare {

struct Environment {
  std::string preload;  // LD_PRELOAD
  std::string conf;     // CUSTASH_CONF
};

// LD_PRELOAD may name custash already, and the program may have it linked in.
Environment without_custash(const std::string& library);

Environment with_custash(const std::string& library,
                         const std::string& program,
                         const std::string& conf);

}  // namespace custash::compare
