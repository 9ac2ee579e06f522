// SPDX-License-Identifier: MIT
// Core dumps of a GPU, made by hand as cudacoredump.h describes them.
#include "interpose/observe/gpu_core.hpp"

#include "tests/catch.hpp"

#include <cstring>
#include <string>
#include <vector>

#include <elf.h>

using namespace custash;

namespace {

constexpr std::uint32_t kLow = 0x80000000U;

struct Section {
  std::uint32_t type = 0;
  std::string content;
  std::uint32_t link = 0, info = 0;
  std::uint64_t row = 0;
};

struct Words {
  Words& u32(std::uint32_t value) { return add(&value, sizeof value); }

  Words& u64(std::uint64_t value) { return add(&value, sizeof value); }

  Words& add(const void* from, std::size_t bytes) {
    text.append(static_cast<const char*>(from), bytes);
    return *this;
  }

  std::string text;
};

std::string sm_row(std::uint32_t exception, std::uint64_t pc) {
  return Words{}
      .u32(7)
      .u32(0)
      .u32(exception)
      .u32(pc != 0)
      .u64(pc)
      .u32(0)
      .u32(0)
      .u32(0)
      .u32(0)
      .text;
}

std::string warp_row(std::uint64_t pc, std::uint32_t active) {
  return Words{}.u64(pc).u32(3).u32(~0U).u32(active).u32(0).u32(pc != 0).u32(0).text;
}

std::string thread_row(std::uint32_t lane, std::uint32_t exception) {
  return Words{}
      .u64(1)
      .u64(2)
      .u32(lane)
      .u32(0)
      .u32(0)
      .u32(0)
      .u32(exception)
      .u32(0)
      .u32(0)
      .u32(0)
      .text;
}

std::string file_of(const std::vector<Section>& sections, std::uint16_t machine = 190) {
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_machine = machine;
  head.e_type = ET_CORE;
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = static_cast<std::uint16_t>(sections.size());
  head.e_shoff = sizeof head;
  std::string headers;
  std::string contents;
  const std::size_t begin = sizeof head + sections.size() * sizeof(Elf64_Shdr);
  for (const Section& each : sections) {
    Elf64_Shdr header{};
    header.sh_type = each.type;
    header.sh_link = each.link;
    header.sh_info = each.info;
    header.sh_entsize = each.row;
    header.sh_offset = begin + contents.size();
    header.sh_size = each.content.size();
    headers.append(reinterpret_cast<const char*>(&header), sizeof header);
    contents += each.content;
  }
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + headers + contents;
}

// Two threads of one warp; lane 1 has faulted.
std::vector<Section> usual(std::uint64_t warp_pc = 0, std::uint32_t active = 0) {
  const std::string threads = thread_row(0, 0) + thread_row(1, 14);
  return {{},
          {kLow + 11, sm_row(0, 0), 0, 0, 40},
          {kLow + 14, warp_row(warp_pc, active), 0, 0, 32},
          {kLow + 15, threads, 2, 0, 48},
          {kLow + 5, Words{}.u64(0x10).u64(0x20).text, 3, 0, 4},
          {kLow + 5, Words{}.u64(0x7f0000001000).u64(0).u64(0x30).u64(0x30).text, 3, 1, 4}};
}

}  // namespace

TEST_CASE("a core dump tells the registers of the threads that have faulted", "[unit]") {
  const auto fault = gpu_core::read(file_of(usual()));
  REQUIRE(fault);
  CHECK(fault->exception == 14);
  CHECK(fault->pc == 0);
  CHECK(fault->values == std::vector<std::uint64_t>{0x30, 0x7f0000001000});
}

TEST_CASE("an error of a warp is its active threads'", "[unit]") {
  auto sections = usual(0x5000, 1);
  sections[3].content = thread_row(0, 0) + thread_row(1, 0);
  const auto fault = gpu_core::read(file_of(sections));
  REQUIRE(fault);
  CHECK(fault->pc == 0x5000);
  CHECK(fault->values == std::vector<std::uint64_t>{0x10, 0x20});
  sections[2].content = warp_row(0, 1);
  CHECK_FALSE(gpu_core::read(file_of(sections)));
}

TEST_CASE("threads that had ended before leave the instruction", "[unit]") {
  const auto fault = gpu_core::read(file_of({{}, {kLow + 11, sm_row(10, 0x6000), 0, 0, 40}}));
  REQUIRE(fault);
  CHECK(fault->exception == 10);
  CHECK(fault->pc == 0x6000);
  CHECK(fault->values.empty());
}

TEST_CASE("rows of other lengths are read as far as they are known", "[unit]") {
  auto sections = usual();
  sections[3].row = 56;  // as since driver 575
  sections[3].content =
      thread_row(0, 0) + std::string(8, '\0') + thread_row(1, 14) + std::string(8, '\0');
  REQUIRE(gpu_core::read(file_of(sections)));
  CHECK(gpu_core::read(file_of(sections))->values.size() == 2);
  sections[1].row = 8;  // as before driver 555
  CHECK(gpu_core::read(file_of(sections)));
}

TEST_CASE("damaged files and others tell nothing", "[unit]") {
  const std::string whole = file_of(usual());
  CHECK_FALSE(gpu_core::read(file_of(usual(), EM_X86_64)));
  CHECK_FALSE(gpu_core::read(""));
  for (std::size_t size = 0; size < whole.size(); ++size)
    (void)gpu_core::read(whole.substr(0, size));  // reads nothing outside
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = '\xff';
    (void)gpu_core::read(damaged);
  }
  auto sections = usual();
  sections[4].link = sections[5].link = 99;
  CHECK_FALSE(gpu_core::read(file_of(sections)));
}
