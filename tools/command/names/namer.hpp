// SPDX-License-Identifier: MIT
// Namer: function, file and line of a place in a module, by the debug information or the
// symbols of the module's file or of its separate debug file. A file that is not the one that
// ran names nothing. State: the files that are open.
#pragma once

#include "tools/command/names/debuginfod.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace custash::names {

struct Line {
  std::string function;
  std::string file;  // empty where only the function is known
  int line = 0;
};

class ModuleFile;

class Namer {
 public:
  // `recorded`: seconds since 1970. Files without a build id that were changed later name
  // nothing.
  Namer(Servers servers, std::int64_t recorded);
  ~Namer();
  Namer(const Namer&) = delete;
  Namer& operator=(const Namer&) = delete;

  // False where libdw cannot be opened; then nothing gets a name.
  [[nodiscard]] static bool works();

  // Innermost first: the functions that are inlined there, then the one that they are inlined
  // into. Empty where nothing is known. `named`: the function is known, the line is missing.
  std::vector<Line> lines_at(const std::string& module,
                             const std::string& build_id,
                             std::uint64_t address,
                             bool named);

 private:
  std::int64_t recorded_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<ModuleFile>> files_;
};

}  // namespace custash::names
