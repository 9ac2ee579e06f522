// SPDX-License-Identifier: MIT
#include "tools/doctor/elf.hpp"

#include <cstring>

#include <elf.h>

namespace custash::doctor {
namespace {

// False past the end.
template <typename T>
bool read_at(std::string_view file, std::size_t offset, T* out) {
  if (offset > file.size() || file.size() - offset < sizeof *out) return false;
  std::memcpy(out, file.data() + offset, sizeof *out);
  return true;
}

// Where in the file the bytes of an address lie; the file's size where nowhere.
std::size_t offset_of(std::string_view file, const Elf64_Ehdr& header, Elf64_Addr address) {
  Elf64_Phdr segment{};
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    if (!read_at(file, header.e_phoff + i * sizeof segment, &segment)) break;
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return file.size();
}

std::string text_at(std::string_view file, std::size_t offset) {
  if (offset >= file.size()) return "";
  const std::string_view rest = file.substr(offset);
  return std::string(rest.substr(0, rest.find('\0')));
}

}  // namespace

std::vector<std::string> needed_of(std::string_view file) {
  Elf64_Ehdr header{};
  if (!read_at(file, 0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) {
    return {};
  }
  std::vector<std::size_t> names;  // offsets in the string table
  std::size_t strings = file.size();
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!read_at(file, header.e_phoff + i * sizeof segment, &segment)) return {};
    if (segment.p_type != PT_DYNAMIC) continue;
    Elf64_Dyn entry{};
    for (std::size_t at = segment.p_offset; read_at(file, at, &entry) && entry.d_tag != DT_NULL;
         at += sizeof entry) {
      if (entry.d_tag == DT_NEEDED) names.push_back(entry.d_un.d_val);
      if (entry.d_tag == DT_STRTAB) strings = offset_of(file, header, entry.d_un.d_ptr);
    }
  }
  std::vector<std::string> needed;
  for (const std::size_t name : names) {
    if (name < file.size()) needed.push_back(text_at(file, strings + name));
  }
  return needed;
}

}  // namespace custash::doctor
