// SPDX-License-Identifier: MIT
#include "tools/snapshot/read.hpp"

#include "tools/replay/file.hpp"
#include "tools/replay/snapshot.hpp"

namespace custash::snapshot {
namespace {

constexpr std::string_view kDataBegin = R"(<script type="application/json" id="data">)";
constexpr std::string_view kDataEnd = "</script>";

// The JSON that a report shows; any other text as it is.
std::string_view json_in(const std::string& name, std::string_view bytes) {
  const auto first = bytes.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || bytes[first] != '<') return bytes;
  const auto begin = bytes.find(kDataBegin);
  const auto end = begin == std::string_view::npos ? begin : bytes.find(kDataEnd, begin);
  if (end == std::string_view::npos)
    throw BadSnapshot(name + ": a page, but no report of custash");
  const auto from = begin + kDataBegin.size();
  return bytes.substr(from, end - from);
}

Json parse_json(const std::string& name, std::string_view text) {
  constexpr int kDeepest = 16;  // what is written again is written by recursion
  return Json::parse(text, [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) throw BadSnapshot(name + ": no snapshot: too deep");
    return true;
  });
}

}  // namespace

Json parse_snapshot(const std::string& name, std::string_view bytes) {
  Json snapshot;
  try {
    snapshot = replay::looks_like_pickle(bytes) ? from_torch(name, bytes)
                                                : parse_json(name, json_in(name, bytes));
  } catch (const replay::BadTrace& error) {
    throw BadSnapshot(error.what());
  } catch (const Json::exception& error) {
    throw BadSnapshot(name + ": no snapshot: " + error.what());
  }
  check_snapshot(name, snapshot);
  return snapshot;
}

Json read_snapshot(const std::string& path) {
  std::string bytes;
  try {
    bytes = replay::read_file(path);
  } catch (const replay::BadTrace& error) {
    throw BadSnapshot(error.what());
  }
  return parse_snapshot(path, bytes);
}

}  // namespace custash::snapshot
