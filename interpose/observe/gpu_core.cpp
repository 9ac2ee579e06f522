// SPDX-License-Identifier: MIT
#include "interpose/observe/gpu_core.hpp"

#include <algorithm>
#include <cstring>

#include <elf.h>

namespace custash::gpu_core {
namespace {

constexpr std::uint16_t kMachine = 190;  // EM_CUDA
constexpr std::uint32_t kRegisters = 0x80000000U + 5;
constexpr std::uint32_t kSms = 0x80000000U + 11;
constexpr std::uint32_t kWarps = 0x80000000U + 14;
constexpr std::uint32_t kThreads = 0x80000000U + 15;

// The beginnings of rows.
struct Sm {
  std::uint32_t id, padding, exception, pc_valid;
  std::uint64_t pc;
};

struct Warp {
  std::uint64_t pc;
  std::uint32_t id, valid, active, broken, pc_valid;
};

struct Thread {
  std::uint64_t pc, offset;
  std::uint32_t lane, index[3], exception;
};

// Whole or not at all.
template <typename T>
bool take(std::string_view from, std::uint64_t at, T* out) {
  if (at > from.size() || from.size() - at < sizeof *out) return false;
  std::memcpy(out, from.data() + at, sizeof *out);
  return true;
}

using Sections = std::vector<Elf64_Shdr>;

Sections sections_of(std::string_view file) {
  Elf64_Ehdr head;
  Sections out;
  if (!take(file, 0, &head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != kMachine ||
      head.e_type != ET_CORE || head.e_shentsize < sizeof(Elf64_Shdr))
    return out;
  // Where there are too many for the header, the first section tells how many there are.
  std::uint64_t count = head.e_shnum;
  Elf64_Shdr section;
  if (count == 0 && take(file, head.e_shoff, &section)) count = section.sh_size;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!take(file, head.e_shoff + i * head.e_shentsize, &section)) break;
    out.push_back(section);
  }
  return out;
}

std::string_view content(std::string_view file, const Elf64_Shdr& section) {
  if (section.sh_offset > file.size() || section.sh_size > file.size() - section.sh_offset)
    return {};
  return file.substr(section.sh_offset, section.sh_size);
}

std::uint64_t rows_in(const Elf64_Shdr& section) {
  return section.sh_entsize == 0 ? 0 : section.sh_size / section.sh_entsize;
}

template <typename Row>
bool take_row(std::string_view file, const Elf64_Shdr& section, std::uint64_t index, Row* out) {
  return section.sh_entsize >= sizeof *out && index < rows_in(section) &&
         take(content(file, section), index * section.sh_entsize, out);
}

// Addresses lie in an even register and the next one.
void add_values(std::string_view registers, std::vector<std::uint64_t>* values) {
  std::uint64_t value = 0;
  for (std::uint64_t at = 0; take(registers, at, &value); at += sizeof value)
    if (value != 0) values->push_back(value);
}

bool has_faulted(const Thread& thread, const Warp& warp) {
  constexpr unsigned kLanes = 32;
  const bool active = thread.lane < kLanes && ((warp.active >> thread.lane) & 1U) != 0;
  return thread.exception != 0 || (warp.pc_valid != 0 && active);
}

}  // namespace

std::optional<GpuFault> read(std::string_view file) {
  const Sections sections = sections_of(file);
  GpuFault fault;
  bool found = false;
  for (const Elf64_Shdr& registers : sections) {
    // Of a thread: linked to the table of its warp's threads, and that to the warps'.
    if (registers.sh_type != kRegisters || registers.sh_link >= sections.size()) continue;
    const Elf64_Shdr& threads = sections[registers.sh_link];
    Thread thread{};
    Warp warp{};
    if (threads.sh_type != kThreads || threads.sh_link >= sections.size() ||
        sections[threads.sh_link].sh_type != kWarps ||
        !take_row(file, threads, registers.sh_info, &thread) ||
        !take_row(file, sections[threads.sh_link], threads.sh_info, &warp) ||
        !has_faulted(thread, warp))
      continue;
    found = true;
    if (fault.exception == 0) fault.exception = thread.exception;
    if (fault.pc == 0 && warp.pc_valid != 0) fault.pc = warp.pc;
    add_values(content(file, registers), &fault.values);
  }
  for (const Elf64_Shdr& sms : sections) {
    Sm sm{};
    for (std::uint64_t i = 0; sms.sh_type == kSms && take_row(file, sms, i, &sm); ++i) {
      if (sm.exception == 0) continue;
      found = true;
      if (fault.exception == 0) fault.exception = sm.exception;
      if (fault.pc == 0 && sm.pc_valid != 0) fault.pc = sm.pc;
    }
  }
  std::sort(fault.values.begin(), fault.values.end());
  fault.values.erase(std::unique(fault.values.begin(), fault.values.end()), fault.values.end());
  return found ? std::optional(fault) : std::nullopt;
}

}  // namespace custash::gpu_core
