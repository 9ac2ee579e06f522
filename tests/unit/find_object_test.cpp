// SPDX-License-Identifier: MIT
// What the unwinder is told about an address where libc has no _dl_find_object.
#include "interpose/real/loaded.hpp"
#include "tests/catch.hpp"

#include <stdexcept>
#include <vector>

namespace custash {
namespace {

struct Part {
  std::uintptr_t first;
  std::uintptr_t last;
  bool has_frames;
};

std::vector<Part> all_parts() {
  std::vector<Part> parts;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        bool has_frames = false;
        for (std::size_t i = 0; i < object->dlpi_phnum; ++i)
          has_frames |= object->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME;
        for (std::size_t i = 0; i < object->dlpi_phnum; ++i) {
          const auto& header = object->dlpi_phdr[i];
          if (header.p_type != PT_LOAD) continue;
          const std::uintptr_t first = object->dlpi_addr + header.p_vaddr;
          static_cast<std::vector<Part>*>(data)->push_back(
              {first, first + header.p_memsz - 1, has_frames});
        }
        return 0;
      },
      &parts);
  return parts;
}

#ifdef DLFO_EH_SEGMENT_TYPE

// In this program _dl_find_object is ours, which asks libc's where there is one.
TEST_CASE("each part of each loaded object has the table that libc finds") {
  const std::vector<Part> parts = all_parts();
  REQUIRE(parts.size() > 8);
  for (const Part& part : parts) {
    for (const std::uintptr_t at : {part.first, (part.first + part.last) / 2, part.last}) {
      auto* const address = reinterpret_cast<void*>(at);
      dl_find_object ours{};
      dl_find_object libc{};
      REQUIRE(find_object_by_headers(address, &ours) == 0);
      CHECK((ours.dlfo_eh_frame != nullptr) == part.has_frames);
      CHECK(ours.dlfo_map_start <= address);
      CHECK(ours.dlfo_map_end > address);
      if (_dl_find_object(address, &libc) != 0)
        continue;  // libc leaves the kernel's object out
      CHECK(ours.dlfo_eh_frame == libc.dlfo_eh_frame);
    }
  }
}

TEST_CASE("an address outside of all objects has no table") {
  const int on_the_stack = 0;
  dl_find_object found{};
  CHECK(find_object_by_headers(&on_the_stack, &found) == -1);
  CHECK(find_object_by_headers(nullptr, &found) == -1);
}

#endif

TEST_CASE("an exception is caught by way of the replaced function") {
  CHECK_THROWS_AS(std::vector<int>().at(1), std::out_of_range);
}

}  // namespace
}  // namespace custash
