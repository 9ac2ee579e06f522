// SPDX-License-Identifier: MIT
// The options of the demo `bandwidth`, and what they do.
#pragma once

#include <string>
#include <vector>

namespace custash::bandwidth {

struct CommandOptions {
  std::vector<std::string> sizes = {"64k", "1m", "16m", "256m"};
  std::vector<std::string> directions = {"h2d", "d2h"};
  std::vector<std::string> memories = {"pageable", "pinned"};
  std::vector<std::string> allocations = {"cached", "cold"};
  std::vector<unsigned> processes = {1};
  unsigned repetitions = 11;
  int device = 0;
  std::string plot;
  bool force = false;  // replace a picture that is not custash's
  bool json = false;
  bool mistakes = false;
};

// The exit code: 0; 1 when it could not be measured, the reason on standard error. A wrong
// option throws.
int run_command(const CommandOptions& options);

}  // namespace custash::bandwidth
