// SPDX-License-Identifier: MIT
// Frame: one function of a stack, as a snapshot has it. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace custash {

class JsonWriter;

struct Frame {
  std::string module;        // a path; empty for Python
  std::string build_id;      // of the module, in hexadecimal
  std::uint64_t offset = 0;  // of the call, as addr2line takes it; without a module an address
  std::string name;          // of the function, where it is known
  std::string file;          // of Python; of others the command finds it later
  int line = 0;
};

// "app+0x1288"; without a module the address.
std::string place_in(const std::string& module, std::uint64_t offset);

// The function's name; place_in() where it is not known.
std::string name_of(const Frame& frame);

// "name (file.cpp:12)", "name (app+0x1288)" or "app+0x1288", as every text has it.
std::string text_of(const Frame& frame);

// Its members, as a snapshot has them.
void write_members(const Frame& frame, JsonWriter* out);

}  // namespace custash
