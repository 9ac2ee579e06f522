// SPDX-License-Identifier: MIT
// What a program has written: whether two runs wrote the same, and a number in it. Files are
// read in pieces, so they may be of any size.
#pragma once

#include "tools/command/compare/result.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <regex.h>

namespace custash::compare {

// A POSIX extended regular expression, as grep -E has it.
class Pattern {
 public:
  // Throws where it is wrong; `option` is named then.
  Pattern(const char* option, const std::string& expression);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  Pattern(Pattern&& other) = delete;

  [[nodiscard]] bool matches(const std::string& line) const;

  // Of the last match: its first group, or all of it where it has none.
  [[nodiscard]] std::optional<std::string> last_in(const std::string& line) const;

 private:
  using Groups = std::array<regmatch_t, 2>;
  bool find(const std::string& line, regoff_t from, Groups* groups) const;

  regex_t compiled_{};
};

using Patterns = std::vector<const Pattern*>;

// The place where two files first differ, byte for byte, without the lines that match one of
// `ignored`.
std::optional<Difference> first_difference(int before, int after, const Patterns& ignored);

// What `pattern` matches last in the file.
std::optional<std::string> last_match(int file, const Pattern& pattern);

}  // namespace custash::compare
