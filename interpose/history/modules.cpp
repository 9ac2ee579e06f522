// SPDX-License-Identifier: MIT
#include "interpose/history/modules.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <elf.h>
#include <link.h>
#include <unistd.h>

namespace custash {
namespace {

struct Search {
  std::uint64_t address;
  ModulePlace* found;
};

std::string program_path() {
  constexpr std::string_view kDeleted = " (deleted)";  // as after it was built again
  char buffer[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", buffer, sizeof buffer);
  std::string_view path(buffer, size > 0 ? static_cast<std::size_t>(size) : 0);
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return std::string(path);
}

std::string full_path(const char* name) {
  if (name == nullptr || *name == 0) return program_path();
  if (*name == '/' || std::strchr(name, '/') == nullptr) return name;  // linux-vdso.so.1
  char path[PATH_MAX];
  return ::realpath(name, path) != nullptr ? path : name;
}

bool is_loaded(const dl_phdr_info& module, std::uint64_t offset, std::uint64_t size) {
  for (ElfW(Half) i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module.dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && offset - segment.p_vaddr < segment.p_memsz &&
        size <= segment.p_memsz - (offset - segment.p_vaddr))
      return true;
  }
  return false;
}

int look(dl_phdr_info* module, std::size_t, void* closure) {
  auto* const search = static_cast<Search*>(closure);
  const std::uint64_t offset = search->address - module->dlpi_addr;
  if (!is_loaded(*module, offset, 1)) return 0;
  ModulePlace& found = *search->found;
  found.path = full_path(module->dlpi_name);
  found.offset = offset;
  for (ElfW(Half) i = 0; i < module->dlpi_phnum && found.build_id.empty(); ++i) {
    const ElfW(Phdr)& segment = module->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE || !is_loaded(*module, segment.p_vaddr, segment.p_memsz))
      continue;
    // NOLINTNEXTLINE: where the loader has put it
    const auto* const notes =
        reinterpret_cast<const char*>(module->dlpi_addr + segment.p_vaddr);
    found.build_id = build_id_in({notes, segment.p_memsz}, segment.p_align);
  }
  return 1;
}

}  // namespace

// Notes are aligned to 4 bytes; those of a segment that is aligned to 8, to 8.
std::string build_id_in(std::string_view notes, std::size_t alignment) {
  const std::size_t mask = (alignment == 8 ? 8 : 4) - 1;
  const auto aligned = [mask](std::size_t size) { return (size + mask) & ~mask; };
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof note) {
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t content = aligned(sizeof note + note.n_namesz);
    if (content > notes.size() || note.n_descsz > notes.size() - content) break;
    const std::string_view name = notes.substr(sizeof note, note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU\0", 4)) {
      constexpr const char* kDigits = "0123456789abcdef";
      std::string out;
      for (const char c : notes.substr(content, note.n_descsz)) {
        out += kDigits[static_cast<unsigned char>(c) >> 4U];
        out += kDigits[static_cast<unsigned char>(c) & 15U];
      }
      return out;
    }
    notes.remove_prefix(std::min(notes.size(), aligned(content + note.n_descsz)));
  }
  return "";
}

ModulePlace module_place(std::uint64_t address) {
  ModulePlace found{{}, {}, address};
  Search search{address, &found};
  dl_iterate_phdr(look, &search);
  return found;
}

}  // namespace custash
