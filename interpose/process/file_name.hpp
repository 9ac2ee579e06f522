// SPDX-License-Identifier: MIT
// Marks in the names of files, so that each process of a launcher writes a file of its own:
// %r its rank, %h its host, %p its number, %% a percent sign. The rank is that among the
// processes that one launcher started.
#pragma once

#include <charconv>
#include <climits>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>
#include <unistd.h>

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

namespace custash::file_name {

struct Parts {
  std::optional<int> rank;
  std::string host;
  pid_t process = 0;
};

// Whether filled() would change it.
inline bool has_marks(std::string_view name) {
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    if (name[i] != '%') continue;
    ++i;
    if (std::string_view("rhp%").find(name[i]) != std::string_view::npos) return true;
  }
  return false;
}

// A process without a rank has "none". Any other percent sign stays.
inline std::string filled(std::string_view name, const Parts& parts) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char mark = name[i] == '%' && i + 1 < name.size() ? name[i + 1] : '\0';
    if (mark == 'r')
      out += parts.rank ? std::to_string(*parts.rank) : "none";
    else if (mark == 'h')
      out += parts.host;
    else if (mark == 'p')
      out += std::to_string(parts.process);
    else
      out += name[i];
    if (mark != '\0' && std::string_view("rhp%").find(mark) != std::string_view::npos) ++i;
  }
  return out;
}

inline std::optional<int> own_rank() {
  for (const char* const name : kRankVariables) {
    const char* const value = std::getenv(name);
    if (value == nullptr) continue;
    if (const auto rank = parse_rank(value)) return rank;
  }
  return std::nullopt;
}

inline std::string own_host() {
  char host[HOST_NAME_MAX + 1] = {};
  return gethostname(host, sizeof host - 1) == 0 && host[0] != '\0' ? host : "unknown";
}

// Of this process. Reads the environment.
inline Parts own_parts() {
  return {own_rank(), own_host(), getpid()};
}

}  // namespace custash::file_name
