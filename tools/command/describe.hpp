// SPDX-License-Identifier: MIT
// The command's own description, for shells and for man: made from what the command line is
// parsed by, so that it says what the command takes. No state.
#pragma once

#include <string>
#include <vector>

namespace custash {

struct OptionText {
  std::string name;                // of a positional; else the longest of `names`
  std::vector<std::string> names;  // "-o", "--output"; none for a positional
  std::string type;                // "TEXT"
  std::string help;
  bool takes_value = false;
};

struct CommandText {
  std::string name;
  std::string help;
  std::string footer;
  std::vector<OptionText> options;  // positionals, too
};

struct Description {
  std::vector<CommandText> commands;
  std::vector<OptionText> options;  // of custash itself
};

// A completion script. `shell` is bash, zsh or fish.
std::string completion(const Description& custash, const std::string& shell);

// custash(1), in man's language.
std::string man_page(const Description& custash);

}  // namespace custash
