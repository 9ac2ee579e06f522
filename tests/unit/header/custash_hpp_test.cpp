// SPDX-License-Identifier: MIT
// custash.hpp over the simulated driver, whose work waits until it is told
// (CUSTASH_SIM=mode=told).
#include "interpose/api/custash.hpp"
#include "tests/catch.hpp"
#include "tests/process/driver.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <dlfcn.h>

using custash::pinned_buffer;
using custash::pinned_resource;

namespace {

static_assert(std::is_nothrow_move_constructible_v<pinned_buffer<int>>);
static_assert(std::is_nothrow_move_assignable_v<pinned_buffer<int>>);
static_assert(!std::is_copy_constructible_v<pinned_buffer<int>>);
static_assert(!std::is_copy_assignable_v<pinned_buffer<int>>);

// A counter of the library's own, by the name that custash.h gives it.
std::int64_t counter(const std::string& name) {
  auto* const stats = reinterpret_cast<decltype(&custash_host_memory_stats)>(
      dlsym(RTLD_DEFAULT, "custash_host_memory_stats"));
  REQUIRE(stats != nullptr);
  std::array<custash_stat_t, 100> values{};
  std::size_t count = values.size();
  REQUIRE(stats(values.data(), &count) == CUSTASH_SUCCESS);
  for (std::size_t i = 0; i < count; ++i)
    if (values[i].name == name) return values[i].value;
  FAIL("no counter " << name);
  return 0;
}

std::int64_t live_buffers() {
  return counter("in_use.current");
}

const driver& cuda() {
  static const driver found = [] {
    driver calls{};
    void* context = nullptr;
    REQUIRE(find_driver(&calls, "open") == 1);
    REQUIRE(calls.cuInit(0) == 0);
    REQUIRE(calls.cuDevicePrimaryCtxRetain(&context, 0) == 0);
    REQUIRE(calls.cuCtxSetCurrent(context) == 0);
    return calls;
  }();
  return found;
}

bool is_pinned(const void* memory) {
  constexpr int kMemoryType = 2;
  constexpr unsigned kHost = 1;
  unsigned type = 0;
  return cuda().cuPointerGetAttribute(
             &type, kMemoryType, reinterpret_cast<device_address>(memory)) == 0 &&
         type == kHost;
}

bool aligned(const void* memory, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(memory) % to == 0;
}

// A stream with 20 modelled milliseconds of work on it.
class BusyStream {
 public:
  BusyStream() {
    constexpr std::size_t kBytes = std::size_t{4} << 30;
    REQUIRE(cuda().cuStreamCreate(&stream_, 1) == 0);
    REQUIRE(cuda().cuMemAlloc_v2(&memory_, kBytes) == 0);
    for (int i = 0; i < 10; ++i)
      REQUIRE(cuda().cuMemsetD8Async(memory_, 1, kBytes, stream_) == 0);
  }

  ~BusyStream() {
    cuda().cuStreamSynchronize(stream_);
    cuda().cuMemFree_v2(memory_);
    cuda().cuStreamDestroy_v2(stream_);
  }

  BusyStream(const BusyStream&) = delete;
  BusyStream& operator=(const BusyStream&) = delete;

  custash_stream_t get() const { return stream_; }

 private:
  void* stream_ = nullptr;
  device_address memory_ = 0;
};

template <typename Call>
custash_status_t status_of_bad_alloc(Call&& call) {
  try {
    call();
  } catch (const std::bad_alloc& caught) {  // as code that knows nothing of custash catches it
    const auto* const ours = dynamic_cast<const custash::bad_alloc*>(&caught);
    REQUIRE(ours != nullptr);
    CHECK(std::string(ours->what()).size() > 5);
    return ours->status();
  }
  return CUSTASH_SUCCESS;
}

}  // namespace

TEST_CASE("a buffer owns pinned memory of its size, and frees it") {
  const std::int64_t before = live_buffers();
  {
    const pinned_buffer<int> buffer(1000);
    CHECK(live_buffers() == before + 1);
    CHECK(is_pinned(buffer.data()));
    CHECK(aligned(buffer.data(), 512));
    CHECK_FALSE(buffer.empty());
    CHECK(buffer.size() == 1000);
    CHECK(buffer.size_bytes() == 4000);
    CHECK(buffer.end() - buffer.begin() == 1000);
    int next = 0;
    for (int& element : buffer)
      element = next++;
    CHECK(buffer[999] == 999);
    CHECK(&buffer[999] == buffer.data() + 999);
#ifdef __cpp_lib_span
    CHECK(buffer.span().size() == 1000);
    CHECK(buffer.span().data() == buffer.data());
#endif
  }
  CHECK(live_buffers() == before);
}

TEST_CASE("an empty buffer holds nothing") {
  const std::int64_t before = live_buffers();
  const pinned_buffer<double> none;
  const pinned_buffer<double> zero(0);
  CHECK(none.empty());
  CHECK(zero.empty());
  CHECK(none.begin() == none.end());
  CHECK(live_buffers() == before);
}

TEST_CASE("memory goes with a move, and what it replaces is freed") {
  const std::int64_t before = live_buffers();
  pinned_buffer<char> a(100);
  pinned_buffer<char> b(200);
  const char* const kept = b.data();
  a = std::move(b);
  CHECK(live_buffers() == before + 1);
  CHECK(a.data() == kept);
  CHECK(a.size() == 200);
  CHECK(b.empty());  // NOLINT: what a moved buffer is, is promised
  CHECK(b.data() == nullptr);
  const pinned_buffer<char> c(std::move(a));
  CHECK(c.data() == kept);
  CHECK(a.empty());  // NOLINT
  CHECK(live_buffers() == before + 1);
  pinned_buffer<char> d(300);
  d.reset();
  CHECK(d.empty());
  CHECK(live_buffers() == before + 1);
}

TEST_CASE("flags are those of custash.h") {
  CHECK(is_pinned(pinned_buffer<int>(10, CUSTASH_HOST_WRITE_COMBINED).data()));
  CHECK(status_of_bad_alloc([] { pinned_buffer<int>(10, 1U << 30); }) ==
        CUSTASH_ERROR_INVALID_VALUE);
}

TEST_CASE("what cannot be allocated is bad_alloc with the reason") {
  const std::int64_t before = live_buffers();
  CHECK(status_of_bad_alloc([] { pinned_buffer<char>(std::size_t{1} << 50); }) ==
        CUSTASH_ERROR_OUT_OF_MEMORY);
  // Its bytes as a number would be few.
  CHECK(status_of_bad_alloc([] { pinned_buffer<std::uint64_t>((SIZE_MAX / 8) + 2); }) ==
        CUSTASH_ERROR_OUT_OF_MEMORY);
  CHECK(live_buffers() == before);
}

TEST_CASE("freed memory waits for the streams that were named, and for no others") {
  const BusyStream busy;
  void* idle = nullptr;
  REQUIRE(cuda().cuStreamCreate(&idle, 1) == 0);
  const auto same_again = [&](custash_stream_t named) {
    constexpr std::size_t kOwnSize = 3'000'000;
    pinned_buffer<char> buffer(kOwnSize);
    const char* const was = buffer.data();
    buffer.record_stream(named);
    buffer.reset();
    return pinned_buffer<char>(kOwnSize).data() == was;
  };
  CHECK(same_again(idle));
  CHECK_FALSE(same_again(busy.get()));
  REQUIRE(cuda().cuStreamDestroy_v2(idle) == 0);
}

TEST_CASE("an event for an empty buffer is an error with its status") {
  pinned_buffer<int> none;
  try {
    none.record_stream(nullptr);
    FAIL("nothing was thrown");
  } catch (const custash::error& caught) {
    CHECK(caught.status() == CUSTASH_ERROR_INVALID_VALUE);
    CHECK(std::string(caught.what()).size() > 5);
  }
}

TEST_CASE("a pmr vector lives in pinned memory") {
  const std::int64_t before = live_buffers();
  {
    pinned_resource resource;
    std::pmr::vector<int> values(&resource);
    for (int i = 0; i < 5000; ++i)
      values.push_back(i);
    CHECK(live_buffers() == before + 1);
    CHECK(is_pinned(values.data()));
    CHECK(values[4999] == 4999);
    std::pmr::vector<int> moved(std::move(values), &resource);
    CHECK(live_buffers() == before + 1);
    CHECK(moved.size() == 5000);
  }
  CHECK(live_buffers() == before);
}

TEST_CASE("a resource keeps every alignment up to a page, and refuses more") {
  const std::int64_t before = live_buffers();
  pinned_resource resource;
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    for (const std::size_t bytes : {0, 1, 100, 513, 4097, 70'000}) {
      // Neighbours, or the first of a page would be aligned whatever was asked.
      std::array<void*, 3> blocks{};
      for (void*& block : blocks) {
        block = resource.allocate(bytes, alignment);
        REQUIRE(block != nullptr);
        CHECK(aligned(block, alignment));
      }
      for (void* const block : blocks)
        resource.deallocate(block, bytes, alignment);
    }
  }
  CHECK(status_of_bad_alloc([&] { (void)resource.allocate(8192, 8192); }) ==
        CUSTASH_ERROR_INVALID_VALUE);
  CHECK(status_of_bad_alloc([&] { (void)resource.allocate(std::size_t{1} << 50, 8); }) ==
        CUSTASH_ERROR_OUT_OF_MEMORY);
  CHECK(live_buffers() == before);
}

TEST_CASE("resources are equal where one can free what the other gave for the same purpose") {
  const pinned_resource a;
  const pinned_resource b;
  const pinned_resource combined(CUSTASH_HOST_WRITE_COMBINED);
  CHECK(a == b);
  CHECK(a != combined);
  CHECK(a != *std::pmr::new_delete_resource());
  CHECK(*std::pmr::new_delete_resource() != a);
}

TEST_CASE("where custash does not serve, that is what is thrown", "[.][not running]") {
  CHECK(status_of_bad_alloc([] { pinned_buffer<int>(10); }) == CUSTASH_ERROR_NOT_RUNNING);
  pinned_resource resource;
  CHECK(status_of_bad_alloc([&] { (void)resource.allocate(1, 1); }) ==
        CUSTASH_ERROR_NOT_RUNNING);
  const pinned_buffer<int> none;
  CHECK(none.empty());
}
