// SPDX-License-Identifier: MIT
#include "tools/command/names/namer.hpp"

#include "tools/command/names/lines.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash::names {
namespace {

int find_no_elf(Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) {
  return -1;  // it is given
}

// A file to look into, or -1. What a snapshot names may be a pipe or a terminal.
int open_file(const std::string& path, struct stat* about) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file >= 0 && ::fstat(file, about) == 0 && S_ISREG(about->st_mode)) return file;
  if (file >= 0) ::close(file);
  return -1;
}

std::string hexadecimal(const unsigned char* bytes, int size) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (int i = 0; i < size; ++i) {
    out += kDigits[bytes[i] >> 4U];
    out += kDigits[bytes[i] & 15U];
  }
  return out;
}

}  // namespace

// A module's file where it is the one that ran.
class ModuleFile {
 public:
  ModuleFile(const std::string& path, const std::string& build_id, std::int64_t recorded) {
    struct stat about {};

    const int file = open_file(path, &about);
    if (file < 0) return;
    static char* debug_path = nullptr;  // libdw's usual one
    static const Dwfl_Callbacks callbacks = {find_no_elf, find_debuginfo, nullptr, &debug_path};
    session_ = libdw()->dwfl_begin(&callbacks);
    module_ = session_ == nullptr ? nullptr
                                  : libdw()->dwfl_report_elf(
                                        session_, path.c_str(), path.c_str(), file, 0, true);
    if (module_ == nullptr) {
      ::close(file);
      return;
    }
    libdw()->dwfl_report_end(session_, nullptr, nullptr);
    limit_servers(session_);
    if (libdw()->dwfl_module_getelf(module_, &bias_) == nullptr || id() != build_id ||
        (build_id.empty() && about.st_mtime > recorded))
      module_ = nullptr;
  }

  ~ModuleFile() {
    if (session_ != nullptr) libdw()->dwfl_end(session_);
  }

  ModuleFile(const ModuleFile&) = delete;
  ModuleFile& operator=(const ModuleFile&) = delete;

  [[nodiscard]] Dwfl_Module* module() const { return module_; }

  // Where libdw has put the file.
  [[nodiscard]] GElf_Addr bias() const { return bias_; }

 private:
  [[nodiscard]] std::string id() const {
    const unsigned char* bytes = nullptr;
    GElf_Addr at = 0;
    const int size = libdw()->dwfl_module_build_id(module_, &bytes, &at);
    return hexadecimal(bytes, size);
  }

  Dwfl* session_ = nullptr;
  Dwfl_Module* module_ = nullptr;
  GElf_Addr bias_ = 0;
};

Namer::Namer(Servers servers, std::int64_t recorded) : recorded_(recorded) {
  choose_servers(servers);
}

Namer::~Namer() = default;

bool Namer::works() {
  return libdw() != nullptr;
}

std::vector<Line> Namer::lines_at(const std::string& module,
                                  const std::string& build_id,
                                  std::uint64_t address,
                                  bool named) {
  if (!works() || module.empty() || module.front() != '/') return {};
  auto& file = files_[{module, build_id}];
  if (file == nullptr) file = std::make_unique<ModuleFile>(module, build_id, recorded_);
  if (file->module() == nullptr) return {};
  address += file->bias();
  std::vector<Line> lines = lines_by_debug_information(file->module(), address);
  if (lines.empty() && !named) lines = line_by_symbol(file->module(), address);
  return lines;
}

}  // namespace custash::names
