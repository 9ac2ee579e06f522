// SPDX-License-Identifier: MIT
#include "pinned/host_limits.hpp"

#include "allocator/base/thread.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fcntl.h>
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

// The path of the process's group in a line "<number>:<controllers>:<path>".
std::string group_path(std::string_view groups, std::string_view controllers) {
  std::string head(1, ':');
  head.append(controllers).append(":");
  const auto at = groups.find(head);
  if (at == std::string_view::npos) return {};
  const auto start = at + head.size();
  return std::string(groups.substr(start, groups.find('\n', start) - start));
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // in memory.stat
};

// Of the group and those above it. In a container perhaps only the root is visible.
Bytes least_room(const std::string& root, std::string path, const GroupFiles& files) {
  Bytes least = kUnknown;
  for (;; path.resize(path.find_last_of('/'))) {
    const std::string folder = root + path;
    const Bytes limit = number_at(read_file(folder + files.limit));
    const Bytes usage =
        limit == kUnknown ? kUnknown : number_at(read_file(folder + files.usage));
    if (usage != kUnknown) {
      const Bytes cache = meminfo_field(read_file(folder + "/memory.stat"), files.reclaimable);
      const Bytes used = cache == kUnknown ? usage : usage - std::min(usage, cache);
      least = std::min(least, limit - std::min(limit, used));
    }
    if (path.size() <= 1) return least;
  }
}

Bytes own_group_room() {
  return group_room(read_file("/proc/self/cgroup"), "/sys/fs/cgroup");
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

Bytes group_room(const std::string& groups, const std::string& root) {
  constexpr GroupFiles kV1{
      "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};
  constexpr GroupFiles kV2{"/memory.max", "/memory.current", "inactive_file"};
  return std::min(least_room(root, group_path(groups, ""), kV2),
                  least_room(root + "/memory", group_path(groups, "memory"), kV1));
}

Bytes available_host_memory() {
  return std::min(system_room(), own_group_room());
}

std::string describe_host_limits() {
  return "system_available=" + in_words(system_room()) +
         " control_group_available=" + in_words(own_group_room());
}

}  // namespace custash
