// SPDX-License-Identifier: MIT
#include "tools/command/elf.hpp"

#include <algorithm>
#include <cstring>

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash {
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

// A text and the zero after it.
bool is_at(std::string_view file, std::size_t offset, std::string_view text) {
  return offset < file.size() && file.size() - offset > text.size() &&
         file.compare(offset, text.size(), text) == 0 && file[offset + text.size()] == '\0';
}

bool read_header(std::string_view file, Elf64_Ehdr* header) {
  return read_at(file, 0, header) && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
         header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_phentsize == sizeof(Elf64_Phdr);
}

}  // namespace

Contents::Contents(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);

  struct stat what {};

  if (file >= 0 && fstat(file, &what) == 0 && S_ISREG(what.st_mode) && what.st_size > 0) {
    const auto size = static_cast<std::size_t>(what.st_size);
    void* const at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (at != MAP_FAILED) text_ = {static_cast<const char*>(at), size};
  }
  if (file >= 0) close(file);
}

Contents::~Contents() {
  if (!text_.empty()) munmap(const_cast<char*>(text_.data()), text_.size());
}

std::string loader_of(std::string_view file) {
  Elf64_Ehdr header{};
  if (!read_header(file, &header)) return {};
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!read_at(file, header.e_phoff + i * sizeof segment, &segment)) return {};
    if (segment.p_type != PT_INTERP) continue;
    constexpr std::size_t kLongest = 4096;
    return text_at(file.substr(0, segment.p_offset + std::min(segment.p_filesz, kLongest)),
                   segment.p_offset);
  }
  return {};
}

std::vector<std::string> needed_of(std::string_view file) {
  Elf64_Ehdr header{};
  if (!read_header(file, &header)) return {};
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

namespace {

// Whether one of its dynamic symbols has this name and is of the requested kind.
template <typename IsKind>
bool has_symbol(std::string_view file, std::string_view name, IsKind is_kind) {
  Elf64_Ehdr header{};
  if (!read_header(file, &header)) return false;
  Elf64_Shdr symbols{};
  Elf64_Shdr strings{};
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    if (!read_at(file, header.e_shoff + i * sizeof symbols, &symbols)) return false;
    if (symbols.sh_type != SHT_DYNSYM) continue;
    if (!read_at(file, header.e_shoff + symbols.sh_link * sizeof strings, &strings))
      return false;
    Elf64_Sym symbol{};
    for (std::size_t at = 0; at < symbols.sh_size; at += sizeof symbol) {
      if (!read_at(file, symbols.sh_offset + at, &symbol)) return false;
      if (is_kind(symbol) && is_at(file, strings.sh_offset + symbol.st_name, name)) return true;
    }
  }
  return false;
}

}  // namespace

bool shows(std::string_view file, std::string_view function) {
  return has_symbol(file, function, [](const Elf64_Sym& symbol) {
    return symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
  });
}

bool calls(std::string_view file, std::string_view function) {
  return has_symbol(
      file, function, [](const Elf64_Sym& symbol) { return symbol.st_shndx == SHN_UNDEF; });
}

}  // namespace custash
