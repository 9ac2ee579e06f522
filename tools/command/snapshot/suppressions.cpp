// SPDX-License-Identifier: MIT
#include "tools/command/snapshot/suppressions.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <fnmatch.h>

namespace custash::snapshot {
namespace {

bool matches(const std::string& glob, const std::string& text) {
  return !text.empty() && fnmatch(glob.c_str(), text.c_str(), 0) == 0;
}

// "src/app.cpp" and "app.cpp" match "/build/src/app.cpp", too.
bool matches_path(const std::string& glob, const std::string& path) {
  for (std::size_t at = 0;; ++at) {
    if (matches(glob, path.substr(at))) return true;
    at = path.find('/', at);
    if (at == std::string::npos) return false;
  }
}

// "a::f(int)" matches by "f", "a::f" and as a whole.
bool matches_function(const std::string& glob, const std::string& name) {
  std::size_t end = name.size();
  int depth = 0;
  while (name.ends_with(')') && end > 0) {
    --end;
    depth += name[end] == ')' ? 1 : name[end] == '(' ? -1 : 0;
    if (depth == 0) break;
  }
  const std::string plain = name.substr(0, end);
  const std::size_t own = plain.rfind("::");
  return matches(glob, name) || matches(glob, plain) ||
         (own != std::string::npos && matches(glob, plain.substr(own + 2)));
}

std::string trimmed(const std::string& line) {
  constexpr const char* kBlanks = " \t\r";
  const std::size_t begin = line.find_first_not_of(kBlanks);
  return begin == std::string::npos
             ? ""
             : line.substr(begin, line.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

Suppressions::Suppressions(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line = trimmed(line); !line.empty() && line.front() != '#') globs_.push_back(line);
  if (!file.eof()) throw std::runtime_error(path + ": " + std::strerror(errno));
}

bool Suppressions::match(const Frame& frame) const {
  const std::string line = frame.file + ":" + std::to_string(frame.line);
  return std::any_of(globs_.begin(), globs_.end(), [&](const std::string& glob) {
    return matches_function(glob, frame.name) ||
           (!frame.file.empty() &&
            (matches_path(glob, frame.file) || matches_path(glob, line))) ||
           matches_path(glob, frame.module);
  });
}

}  // namespace custash::snapshot
