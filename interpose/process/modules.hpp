// SPDX-License-Identifier: MIT
// Which loaded file an address of code lies in: its path, its build id and the address as the
// file itself counts, from which the command finds the function and the line. Takes the
// loader's lock; no state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace custash {

struct ModulePlace {
  std::string path;      // empty where the address lies in no file
  std::string build_id;  // hexadecimal; empty where the file has none
  std::uint64_t offset;  // an address of the file, as addr2line takes it
};

ModulePlace module_place(std::uint64_t address);

// In hexadecimal, of a segment of notes; empty where it holds none.
std::string build_id_in(std::string_view notes, std::size_t alignment);

}  // namespace custash
