// SPDX-License-Identifier: MIT
#include "interpose/history/frame.hpp"

#include "interpose/process/json.hpp"
#include "interpose/process/printable.hpp"

#include <cinttypes>
#include <cstdio>

namespace custash {

std::string place_in(const std::string& module, std::uint64_t offset) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%" PRIx64, offset);
  return module.empty() ? text : module.substr(module.rfind('/') + 1) + "+" + text;
}

std::string name_of(const Frame& frame) {
  return frame.name.empty() ? place_in(frame.module, frame.offset) : frame.name;
}

std::string text_of(const Frame& frame) {
  if (!frame.file.empty())
    return printable(frame.name + " (" + frame.file + ":" + std::to_string(frame.line) + ")");
  if (frame.name.empty()) return printable(name_of(frame));
  return printable(frame.name + " (" + place_in(frame.module, frame.offset) + ")");
}

void write_members(const Frame& frame, JsonWriter* out) {
  out->text_member("module", frame.module);
  out->text_member("build_id", frame.build_id);
  out->member("offset", frame.offset);
  out->text_member("name", frame.name);
  out->text_member("file", frame.file);
  out->member("line", frame.line);
}

}  // namespace custash
