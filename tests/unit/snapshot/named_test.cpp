// SPDX-License-Identifier: MIT
// Names for places of this very program, and what a signal that waits does to them.
#include "tools/command/snapshot/named.hpp"

#include "tests/catch.hpp"
#include "tools/command/names/namer.hpp"

#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>

#include <elf.h>
#include <link.h>

extern "C" const char __executable_start;

namespace custash::snapshot {
namespace {

[[gnu::noinline]] void somewhere() {
  asm volatile("nop; nop; nop");
}

// Of this program, from its note.
std::string build_id() {
  std::string out;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* text) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_NOTE) continue;
          const char* at =
              reinterpret_cast<const char*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
          const char* const end = at + info->dlpi_phdr[i].p_memsz;
          while (at < end) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof note);
            at += sizeof note + ((note.n_namesz + 3U) & ~3U);
            constexpr char kHex[] = "0123456789abcdef";
            for (unsigned j = 0; note.n_type == NT_GNU_BUILD_ID && j < note.n_descsz; ++j)
              for (const unsigned half : {(static_cast<unsigned>(at[j]) >> 4U) & 15U,
                                          static_cast<unsigned>(at[j]) & 15U})
                static_cast<std::string*>(text)->push_back(kHex[half]);
            at += (note.n_descsz + 3U) & ~3U;
          }
        }
        return 1;  // the first is the program
      },
      &out);
  return out;
}

// The name that the one frame of a snapshot is given.
std::string named() {
  const auto offset = reinterpret_cast<std::uint64_t>(&somewhere) + 1 -
                      reinterpret_cast<std::uint64_t>(&__executable_start);
  Json snapshot;
  snapshot["time_us"] = static_cast<std::int64_t>(std::time(nullptr)) * 1'000'000;
  snapshot["stacks"] = Json::parse("[[0]]");
  Json frame = Json::parse(R"({"name": "", "file": "", "line": 0})");
  frame["module"] = std::filesystem::read_symlink("/proc/self/exe").string();
  frame["build_id"] = build_id();
  frame["offset"] = offset;
  snapshot["frames"] = Json::array();
  snapshot["frames"].push_back(frame);
  (void)name_frames(&snapshot, names::Servers::Never);
  return snapshot.at("frames").at(0).at("name").get<std::string>();
}

}  // namespace

TEST_CASE("a signal that waits ends the search for names") {
  if (!names::Namer::works() || build_id().empty()) {
    WARN("skipped: no libdw, or no build id");
    return;
  }
  REQUIRE(named().find("somewhere") != std::string::npos);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    raise(signal);
    CHECK(named().empty());
    constexpr timespec kNow{0, 0};
    CHECK(sigtimedwait(&set, nullptr, &kNow) == signal);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    CHECK(named().find("somewhere") != std::string::npos);
  }
}

}  // namespace custash::snapshot
