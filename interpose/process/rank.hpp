// SPDX-License-Identifier: MIT
// The rank of a process among those that one launcher started. Pure.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace custash {

// Set by torchrun, Open MPI, other PMIx launchers, MPICH and Slurm. The first one counts:
// torchrun under srun has its own rank and Slurm's.
inline constexpr const char* kRankVariables[] = {
    "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};

// Nothing where the value of such a variable is no rank.
inline std::optional<int> parse_rank(std::string_view value) {
  int rank = 0;
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, rank);
  if (read.ec != std::errc() || read.ptr != end || rank < 0) return std::nullopt;
  return rank;
}

}  // namespace custash
