// SPDX-License-Identifier: MIT
// What programs were made of: how many of those that ran had peers, captures over devices and
// so on, so that a run in which nothing of a kind came up is not taken for a good one.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace custash::property {

struct Program;

inline constexpr std::size_t kMostKinds = 24;

// By kind: the programs that had it.
using KindCounts = std::array<std::uint64_t, kMostKinds>;

void count_kinds(const Program& program, KindCounts* counts);

std::string tell_kinds(const KindCounts& counts);
// The kinds of which there was none.
std::string missing_kinds(const KindCounts& counts);

}  // namespace custash::property
