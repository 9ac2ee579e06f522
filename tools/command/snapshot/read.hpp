// SPDX-License-Identifier: MIT
// Snapshots from files of any origin, as the JSON of docs/snapshot-schema.json, checked:
// whatever is written in the file, what comes out has all that the schema asks for, and every
// index in it points at something. No state.
#pragma once

#include "tools/replay/pickle.hpp"

#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace custash::snapshot {

using Json = nlohmann::json;

inline constexpr std::int64_t kMost = std::int64_t{1}
                                      << 53;  // largest integer that JavaScript holds exactly

// What is wrong with a file: "FILE: why".
struct BadSnapshot : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a file holds, unpacked if it is .xz; "-" is standard input. Throws BadSnapshot.
std::string read_bytes(const std::string& path);

// custash's JSON, a report (the JSON in it), or PyTorch's pickle; `name` is for complaints.
// Throws BadSnapshot; runs nothing that is in the bytes.
// `progress` is called now and then with how many bytes of how many have been read.
using Told = replay::Pickle::Told;
Json parse_snapshot(const std::string& name, std::string_view bytes, const Told& progress = {});

// JSON that is not nested too deep; what it holds is not looked at.
Json parse_json(const std::string& name, std::string_view text, const Told& progress);

// Throws where something is missing or points at nothing (check.cpp).
void check_snapshot(const std::string& name, const Json& snapshot);

// PyTorch's, converted (torch.cpp).
Json from_torch(const std::string& name, std::string_view bytes, const Told& progress);

}  // namespace custash::snapshot
