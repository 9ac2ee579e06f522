// SPDX-License-Identifier: MIT
// Every driver call of a short program made to fail in turn, the program's own and custash's:
// with pitched memory, or with handles that the program makes and lets go of. A call that
// failed has done nothing, and made once more it succeeds. Contents, pitches and address ranges
// are right, and in the end the device holds as much as after a run without a failure.
//
//   faults pitched | handles
#include "tests/conformance/driver/driver.hpp"
#include "tests/conformance/properties.hpp"
#include "tests/sim/fault_abi.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using namespace semantics;

using Handle = CUmemGenericAllocationHandle;
constexpr std::size_t kUnit = std::size_t{64} << 10U;  // the simulated driver's granularity
constexpr std::size_t kPlaces = 3;
constexpr std::size_t kRoom = 2 * kUnit;

const custash_sim_fault_calls* simulator = nullptr;
CUdeviceptr range = 0;
CUfunction kernel = nullptr;
CUstream stream = nullptr;

struct Plan {
  unsigned long long at = 0;  // 0: none
  CUresult code = CUDA_SUCCESS;
  bool persistent = false;
};

// Of custash's own count; bare, as many as it should be.
std::size_t live_handles(std::size_t bare) {
  const auto text_of = of_custash<decltype(&custash_stats_text)>("custash_stats_text");
  if (text_of == nullptr) return bare;
  std::vector<char> text(1 << 16);
  std::size_t size = text.size();
  if (text_of(0, 0, text.data(), &size) != 0) return ~std::size_t{0};
  const char* const row = std::strstr(text.data(), "\"kind\":\"handles\"");
  const char* const live = row == nullptr ? nullptr : std::strstr(row, "\"live\":");
  return live == nullptr ? 0 : std::strtoull(live + std::strlen("\"live\":"), nullptr, 10);
}

class Run {
 public:
  explicit Run(const Plan& plan) : plan_(plan) {
    if (plan.at != 0) simulator->fail(plan.at, plan.code, plan.persistent ? 1 : 0);
  }

  // A kernel without parameters.
  void launch() {
    void** const none = nullptr;
    step("cuLaunchKernel", kernel, 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream, none, none);
  }

  // A call that fails is made once more, while none is made to fail.
  template <typename... Args>
  void step(const char* name, Args... args) {
    if (fails_once(name, args...)) expect(call(name, args...) == CUDA_SUCCESS, name);
  }

  // A call that nothing else is to follow where it fails.
  template <typename... Args>
  bool fails_once(const char* name, Args... args) {
    const CUresult first = call(name, args...);
    if (first == CUDA_SUCCESS) return false;
    simulator->clear();
    expect(first == plan_.code, name);
    expect(live_handles(live) == live, "the count of handles");
    return true;
  }

  void expect(bool holds, const char* what) {
    if (holds) return;
    ++wrong_;
    std::printf("%s is wrong: call %llu%s answers %d\n",
                what,
                plan_.at,
                plan_.persistent ? " and all after it" : "",
                static_cast<int>(plan_.code));
  }

  void fill(CUdeviceptr at, unsigned char byte, std::size_t bytes) {
    step("cuMemsetD8_v2", at, byte, bytes);
    step("cuStreamSynchronize", CUstream{nullptr});
  }

  void check(CUdeviceptr at, unsigned char byte, std::size_t bytes) {
    for (const std::size_t offset : {std::size_t{0}, bytes - 1}) {
      unsigned char found = 0;
      step("cuMemcpyDtoH_v2", static_cast<void*>(&found), at + offset, std::size_t{1});
      expect(found == byte, "what is read");
    }
  }

  [[nodiscard]] int wrong() const { return wrong_; }

  std::size_t live = 0;  // handles of the program's

 private:
  Plan plan_;
  int wrong_ = 0;
};

// ---- Pitched memory.

struct Rows {
  std::size_t width;
  std::size_t height;
  unsigned element;
  std::size_t pitch;  // as the first run was told
  std::size_t bytes;
};

std::array<Rows, 4> shapes = {
    {{1000, 7, 4, 0, 0}, {100, 40, 4, 0, 0}, {70'000, 60, 4, 0, 0}, {513, 3, 16, 0, 0}}};

void pitched(Run& run) {
  CUdeviceptr blocks[2][shapes.size()] = {};
  for (std::size_t round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      Rows& rows = shapes[i];
      CUdeviceptr& at = blocks[round][i];
      std::size_t pitch = 0;
      run.step("cuMemAllocPitch_v2", &at, &pitch, rows.width, rows.height, rows.element);
      CUdeviceptr base = 0;
      std::size_t size = 0;
      run.step("cuMemGetAddressRange_v2", &base, &size, at + pitch);
      if (rows.pitch == 0) {
        rows.pitch = pitch;
        rows.bytes = size;
        std::printf("%zu: pitch %zu, %zu bytes\n", rows.width, pitch, size);
      }
      run.expect(pitch == rows.pitch, "the pitch");
      run.expect(base == at && size == rows.bytes, "the address range");
      run.fill(at, static_cast<unsigned char>(1 + i + 10 * round), size);
    }
  }
  run.launch();
  for (std::size_t round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      run.check(blocks[round][i],
                static_cast<unsigned char>(1 + i + 10 * round),
                shapes[i].pitch * (shapes[i].height - 1) + shapes[i].width);
      run.step("cuMemFree_v2", blocks[round][i]);
    }
  }
}

// ---- Handles.

CUdeviceptr place(std::size_t number) {
  return range + number * kRoom;
}

Handle make(Run& run, std::size_t bytes) {
  const CUmemAllocationProp wanted = properties::of_pages();
  Handle handle = 0;
  run.step("cuMemCreate", &handle, bytes, &wanted, 0ULL);
  ++run.live;
  return handle;
}

void release(Run& run, Handle handle) {
  run.step("cuMemRelease", handle);
  --run.live;
}

// Makes a handle and maps it. Where that fails, another one is made.
Handle make_mapped(Run& run, std::size_t number, unsigned char byte, std::size_t bytes) {
  Handle handle = make(run, bytes);
  const CUmemAccessDesc access = properties::access_of();
  if (run.fails_once("cuMemMap", place(number), bytes, std::size_t{0}, handle, 0ULL)) {
    release(run, handle);
    handle = make(run, bytes);
    run.step("cuMemMap", place(number), bytes, std::size_t{0}, handle, 0ULL);
  }
  run.step("cuMemSetAccess", place(number), bytes, &access, std::size_t{1});
  run.fill(place(number), byte, bytes);
  return handle;
}

void unmap(Run& run, std::size_t number, std::size_t bytes) {
  run.step("cuMemUnmap", place(number), bytes);
}

// Behind a kernel that runs, and then once more when it is over. Others of the same size stay
// mapped, and hold what they held.
void handles(Run& run) {
  const Handle stays = make_mapped(run, 0, 1, kUnit);
  for (unsigned char round = 0; round < 2; ++round) {
    for (const std::size_t bytes : {kUnit, 2 * kUnit}) {
      const Handle handle = make_mapped(run, 1, 2, bytes);
      if (round == 0) run.launch();
      unmap(run, 1, bytes);
      release(run, handle);
      const Handle next = make_mapped(run, 2, 3, bytes);
      run.check(place(0), 1, kUnit);
      run.check(place(2), 3, bytes);
      unmap(run, 2, bytes);
      release(run, next);
    }
    if (round == 0) run.step("cuStreamSynchronize", stream);
  }
  Handle again = 0;
  run.step("cuMemRetainAllocationHandle", &again, reinterpret_cast<void*>(place(0)));
  run.expect(again == stays, "the handle");
  run.step("cuMemRelease", stays);
  unmap(run, 0, kUnit);
  release(run, again);
  CUdeviceptr block = 0;  // what was kept comes first
  run.step("cuMemAlloc_v2", &block, 3 * kUnit);
  run.step("cuMemFree_v2", block);
}

// ---- All of it.

// What the device holds while the program has nothing.
std::size_t rest() {
  simulator->clear();
  call("cuStreamSynchronize", stream);
  const auto empty = of_custash<decltype(&custash_empty_cache)>("custash_empty_cache");
  if (empty != nullptr) empty();
  return simulator->used(0);
}

int run_all(void (*script)(Run&)) {
  int wrong = 0;
  const auto run = [&](const Plan& plan) {
    Run one(plan);
    script(one);
    wrong += one.wrong();
  };
  run({});
  const std::size_t held = rest();
  int runs = 1;
  for (const bool persistent : {false, true}) {
    for (const CUresult code : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN}) {
      for (unsigned long long at = 1;; ++at) {
        const unsigned long long before = simulator->given();
        run({at, code, persistent});
        const bool as_much = rest() == held;
        if (simulator->given() == before) break;  // it has not so many calls
        ++runs;
        if (!as_much)
          std::printf("call %llu: %zu bytes are held, not %zu\n", at, simulator->used(0), held);
        const bool none = live_handles(0) == 0;
        if (!none) std::printf("call %llu: handles are lost\n", at);
        wrong += (as_much ? 0 : 1) + (none ? 0 : 1);
      }
    }
  }
  rest();
  if (simulator->faults() != 0) std::printf("%zu faults\n", simulator->faults());
  std::printf("wrong %d\n# runs %d\n", wrong, runs);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto find = entry<decltype(&custash_sim_faults)>("custash_sim_faults");
  if (argc < 2 || find == nullptr) return 2;
  simulator = find();
  start();
  kernel = function("late");
  stream = new_stream();
  SAY(call(
      "cuMemAddressReserve", &range, kPlaces * kRoom, std::size_t{0}, CUdeviceptr{0}, 0ULL));
  return run_all(std::strcmp(argv[1], "pitched") == 0 ? pitched : handles);
}
