// SPDX-License-Identifier: MIT
// The subcommand `custash replay`: its options, and what they do in the program custash-replay.
#pragma once

#include "tools/replay/device.hpp"

#include <string>
#include <vector>

namespace custash::replay {

inline constexpr const char* kSearch = "search";

struct CommandOptions {
  std::vector<std::string> files;
  std::string backend = "sim";
  std::string through = "custash";
  std::string conf;
  std::string capacity;  // empty: not asked for; kSearch; or a size
  std::string plot;
  bool force = false;  // replace a picture that is not custash's
  bool json = false;
  bool models = false;
  bool idle = false;
  unsigned in_flight = DeviceOptions().in_flight;
};

// Words as CLI11 should see them: `--capacity` takes the next word only if it is a size.
std::vector<std::string> prepared(std::vector<std::string> words);

extern const char* const kHelp;  // below the options in --help

// The exit code: 0; 1 when a trace cannot be read, did not fit or its replay went wrong. A
// wrong option throws.
int run_command(const CommandOptions& options);

}  // namespace custash::replay
