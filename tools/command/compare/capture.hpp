// SPDX-License-Identifier: MIT
// Capture: a file for what one run writes. It has no name, unless the user keeps it.
#pragma once

#include <string>

namespace custash::compare {

class Capture {
 public:
  // In the folder for temporary files.
  Capture();
  // Under this name, which must be free. Both throw.
  explicit Capture(const std::string& path);
  ~Capture();
  Capture(Capture&& other) noexcept;
  Capture& operator=(Capture&& other) noexcept;

  [[nodiscard]] int file() const { return file_; }

  // The last bytes of it, from the beginning of a line on.
  [[nodiscard]] std::string tail(std::size_t bytes) const;

  // False where its disk is full.
  [[nodiscard]] bool has_room() const;

 private:
  int file_ = -1;
};

}  // namespace custash::compare
