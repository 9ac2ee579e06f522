// SPDX-License-Identifier: MIT
#include "interpose/history/history_tracker.hpp"
#include "interpose/history/modules.hpp"

#include <array>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

namespace custash::history {
namespace {

// Another thread may unmap the file: then a read through this fails, and nothing worse happens.
class OwnMemory {
 public:
  OwnMemory() : file_(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC)) {}

  ~OwnMemory() {
    if (file_ >= 0) ::close(file_);
  }

  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  bool read(std::uint64_t address, void* to, std::size_t size) const {
    return pread(file_, to, size, static_cast<off_t>(address)) == static_cast<ssize_t>(size);
  }

 private:
  int file_;
};

struct Module {
  std::uint64_t bias;
  std::string build_id;
};

Module module_at(const OwnMemory& memory, std::uint64_t base) {
  constexpr std::size_t kMostSegments = 32;
  constexpr std::size_t kMostNotes = 4096;
  Module out{base, ""};
  ElfW(Ehdr) header;
  std::array<ElfW(Phdr), kMostSegments> segments;
  if (!memory.read(base, &header, sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > kMostSegments ||
      !memory.read(base + header.e_phoff, segments.data(), header.e_phnum * sizeof segments[0]))
    return out;
  for (std::size_t i = header.e_phnum; i-- > 0;)  // the first that is loaded comes last
    if (segments[i].p_type == PT_LOAD) out.bias = base - (segments[i].p_vaddr & ~4095ULL);
  for (std::size_t i = 0; i < header.e_phnum && out.build_id.empty(); ++i) {
    if (segments[i].p_type != PT_NOTE || segments[i].p_filesz > kMostNotes) continue;
    std::string notes(segments[i].p_filesz, '\0');
    if (memory.read(out.bias + segments[i].p_vaddr, notes.data(), notes.size()))
      out.build_id = build_id_in(notes, segments[i].p_align);
  }
  return out;
}

std::string_view path_in(const char* line, int at) {
  std::string_view path(line + at);
  while (!path.empty() && (path.front() == ' ' || path.back() == '\n')) {
    if (path.front() == ' ')
      path.remove_prefix(1);
    else
      path.remove_suffix(1);
  }
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return path.starts_with('/') ? path : std::string_view();
}

}  // namespace

std::vector<std::pair<ledger::ModuleRow, std::string>> mapped_code() {
  std::vector<std::pair<ledger::ModuleRow, std::string>> out;
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return out;
  const OwnMemory memory;
  std::array<char, PATH_MAX + 128> line;
  std::string last;  // the file that was seen last, and where it begins
  std::uint64_t base = 0;
  while (std::fgets(line.data(), static_cast<int>(line.size()), maps) != nullptr) {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t offset = 0;
    char rights[5] = {};
    int at = 0;
    if (std::sscanf(line.data(),
                    "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s%n",
                    &begin,
                    &end,
                    rights,
                    &offset,
                    &at) < 4)
      continue;
    const std::string_view path = path_in(line.data(), at);
    if (offset == 0 || path != last) base = begin - offset;
    last = path;
    if (rights[2] != 'x') continue;
    ledger::ModuleRow row{begin, end, 0, {}, {}};
    std::string texts(path);
    if (!path.empty()) {
      const Module module = module_at(memory, base);
      row.bias = module.bias;
      row.path = {0, static_cast<std::uint32_t>(path.size())};
      row.build_id = {row.path.size, static_cast<std::uint32_t>(module.build_id.size())};
      texts += module.build_id;
    }
    out.emplace_back(row, texts);
  }
  std::fclose(maps);
  return out;
}

}  // namespace custash::history
