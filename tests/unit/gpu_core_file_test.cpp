// SPDX-License-Identifier: MIT
// In which order the driver is asked for core dumps, and when it is not.
#include "interpose/observe/gpu_core_file.hpp"

#include "interpose/process/checkers.hpp"
#include "tests/catch.hpp"

#include <cstring>
#include <string>

using namespace custash;

// Not linked: the real ones look into the process.
namespace custash::checkers {
const char* any_tool() noexcept {
  return nullptr;
}
}  // namespace custash::checkers

namespace {

struct Asked {
  std::string order;
  int refused = 0;
  bool enabled = false;
  unsigned flags = 0;
  std::string file;
};

Asked asked;

CUresult set(int attribute, void* value, std::size_t* size) {
  if (attribute == asked.refused) return CUDA_ERROR_INVALID_VALUE;
  asked.order += static_cast<char>('0' + attribute);
  if (attribute == 1) asked.enabled = *static_cast<bool*>(value);
  if (attribute == 5) asked.file.assign(static_cast<char*>(value), *size - 1);
  if (attribute == 7) std::memcpy(&asked.flags, value, sizeof asked.flags);
  return CUDA_SUCCESS;
}

CUresult get(int attribute, void* value, std::size_t* size) {
  if (attribute == 1 && value != nullptr) *static_cast<bool*>(value) = asked.enabled;
  if (value == nullptr) *size = attribute == 7 ? sizeof(int) : 1;
  return CUDA_SUCCESS;
}

std::string ask(Asked from = {}) {
  asked = from;
  return gpu_core::ask_for(set, get, "/there/core");
}

}  // namespace

TEST_CASE("a core dump is asked for once the process cannot end by it", "[unit]") {
  CHECK(ask().empty());
  CHECK(asked.order == "751");
  CHECK(asked.flags == 31);  // nothing heavy, no abort
  CHECK(asked.file == "/there/core");
  CHECK(asked.enabled);
}

TEST_CASE("else none is asked for", "[unit]") {
  CHECK_FALSE(ask({.refused = 7}).empty());
  CHECK(asked.order.empty());
  CHECK_FALSE(ask({.refused = 5}).empty());
  CHECK(asked.order == "7");
  CHECK_FALSE(ask({.enabled = true}).empty());  // the user's own
  CHECK(asked.order.empty());
  CHECK_FALSE(gpu_core::ask_for(nullptr, nullptr, "").empty());
}
