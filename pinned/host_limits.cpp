// SPDX-License-Identifier: MIT
#include "pinned/host_limits.hpp"

#include "allocator/base/thread.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace custash {
namespace {

constexpr Bytes kUnknown = std::numeric_limits<Bytes>::max();

// These files are short, and stdio would allocate just when there is no memory.
std::string read_file(const std::string& path) {
  const CancellationOff off;
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  close(file);
  return text;
}

// "max", or any text that is no number, means no limit.
Bytes number_at(std::string_view text) {
  Bytes value = 0;
  const auto start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return kUnknown;
  const auto parsed = std::from_chars(text.data() + start, text.data() + text.size(), value);
  return parsed.ec == std::errc() ? value : kUnknown;
}

Bytes room(Bytes limit, Bytes usage, Bytes reclaimable) {
  if (limit == kUnknown || usage == kUnknown) return kUnknown;
  if (reclaimable != kUnknown) usage -= std::min(usage, reclaimable);
  return limit - std::min(limit, usage);
}

// The path of the process's group in a line "<number>:<controllers>:<path>".
std::string group_path(std::string_view groups, std::string_view controllers) {
  std::string head(1, ':');
  head.append(controllers).append(":");
  const auto at = groups.find(head);
  if (at == std::string_view::npos) return {};
  const auto start = at + head.size();
  return std::string(groups.substr(start, groups.find('\n', start) - start));
}

Bytes group_room_v2(const std::string& folder) {
  const Bytes limit = number_at(read_file(folder + "/memory.max"));
  if (limit == kUnknown) return kUnknown;
  return room(limit,
              number_at(read_file(folder + "/memory.current")),
              meminfo_field(read_file(folder + "/memory.stat"), "inactive_file"));
}

Bytes group_room_v1(const std::string& folder) {
  return room(number_at(read_file(folder + "/memory.limit_in_bytes")),
              number_at(read_file(folder + "/memory.usage_in_bytes")),
              meminfo_field(read_file(folder + "/memory.stat"), "total_inactive_file"));
}

Bytes group_room() {
  const std::string groups = read_file("/proc/self/cgroup");
  Bytes least = kUnknown;
  // In a container the path may be the host's, and only the root is visible.
  for (const std::string& path : {group_path(groups, ""), std::string()})
    least = std::min(least, group_room_v2("/sys/fs/cgroup" + path));
  for (const std::string& path : {group_path(groups, "memory"), std::string()})
    least = std::min(least, group_room_v1("/sys/fs/cgroup/memory" + path));
  return least;
}

Bytes system_room() {
  const Bytes kibibytes = meminfo_field(read_file("/proc/meminfo"), "MemAvailable:");
  return kibibytes == kUnknown ? kUnknown : kibibytes << 10U;
}

std::string in_words(Bytes bytes) {
  return bytes == kUnknown ? "unlimited" : std::to_string(bytes);
}

}  // namespace

Bytes meminfo_field(std::string_view text, std::string_view key) {
  for (auto at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') return number_at(text.substr(at + key.size()));
  }
  return kUnknown;
}

Bytes available_host_memory() {
  return std::min(system_room(), group_room());
}

Bytes lockable_bytes() {
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return known ? limit.rlim_cur : kUnknown;
}

std::string describe_host_limits() {
  return "system_available=" + in_words(system_room()) +
         " control_group_available=" + in_words(group_room()) +
         " memlock=" + in_words(lockable_bytes());
}

}  // namespace custash
