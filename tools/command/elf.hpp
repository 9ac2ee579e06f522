// SPDX-License-Identifier: MIT
// What a 64-bit ELF file needs and shows. All but Contents is pure: it works on the file's
// bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace custash {

// A file's bytes, mapped: libraries of frameworks have gigabytes. Empty where it cannot be
// read.
class Contents {
 public:
  explicit Contents(const std::string& path);
  ~Contents();
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// The names of DT_NEEDED, in order; empty where the bytes are no such file, or damaged.
std::vector<std::string> needed_of(std::string_view file);

// The program's loader (PT_INTERP); empty where it has none, or the bytes are damaged.
std::string loader_of(std::string_view file);

// Whether it shows this function to other modules; false where the bytes are no such file.
bool shows(std::string_view file, std::string_view function);

// Whether it takes this function from another module; likewise false.
bool calls(std::string_view file, std::string_view function);

}  // namespace custash
