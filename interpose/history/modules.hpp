// SPDX-License-Identifier: MIT
// The loaded file that holds an address of code. Takes the loader's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace custash {

struct ModulePlace {
  std::string path;      // empty where the address is in no file
  std::string build_id;  // hexadecimal; empty where the file has none
  std::uint64_t offset;  // an address of the file, as addr2line takes it
};

ModulePlace module_place(std::uint64_t address);

// The build id in a segment of notes, in hexadecimal; empty where it holds none.
std::string build_id_in(std::string_view notes, std::size_t alignment);

}  // namespace custash
