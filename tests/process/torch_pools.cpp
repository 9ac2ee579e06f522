// SPDX-License-Identifier: MIT
// PyTorch's private pools without PyTorch: calls the hooks by PyTorch's own types, a
// std::function and a std::pair by value, on a device of the simulator. Preloaded. Prints a
// line for each expectation that does not hold. Argument: libcustash-torch.so. With the
// argument "careless", record_stream is left out: a line then says whether another stream's
// work came too late.
#include "interpose/torch/torch.h"
#include "tests/process/driver.h"
#include "tests/process/expect.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Stream = void*;
using Id = std::pair<unsigned long long, unsigned long long>;
using Filter = std::function<bool(Stream)>;

void* library = nullptr;  // libcustash-torch.so

template <typename Function>
Function* find(const char* name) {
  void* const from = std::strstr(name, "custash_pools_") == nullptr ? RTLD_DEFAULT : library;
  auto* const found = reinterpret_cast<Function*>(dlsym(from, name));
  EXPECT(found != nullptr);
  return found;
}

// The hooks as PyTorch holds them.
struct Torch {
  std::function<void*(std::size_t, int, Stream)> malloc =
      find<void*(std::size_t, int, Stream)>("custash_pools_malloc");
  std::function<void(void*, std::size_t, int, Stream)> free_fn =
      find<void(void*, std::size_t, int, Stream)>("custash_pools_free");
  std::function<void(void*, Stream)> record =
      find<void(void*, Stream)>("custash_pools_record_stream");
  std::function<void(int, Id, Filter)> begin_fn =
      find<void(int, Id, Filter)>("custash_pools_begin");
  std::function<void(int, Id)> end_fn = find<void(int, Id)>("custash_pools_end");
  std::function<void(int, Id)> release_fn = find<void(int, Id)>("custash_pools_release");
  decltype(&custash_pools_place) place =
      find<std::remove_pointer_t<decltype(&custash_pools_place)>>("custash_pools_place");
  std::function<int(int, Id)> uses_fn = find<int(int, Id)>("custash_pools_uses");
  decltype(&custash_pools_blocks) blocks =
      find<std::remove_pointer_t<decltype(&custash_pools_blocks)>>("custash_pools_blocks");

  void free(void* ptr) const { free_fn(ptr, 0, 0, nullptr); }

  void begin(
      Id id, Filter filter = [](Stream) { return true; }) const {
    begin_fn(0, id, std::move(filter));
  }

  void end(Id id) const { end_fn(0, id); }

  void release(Id id) const { release_fn(0, id); }

  [[nodiscard]] int uses(Id id) const { return uses_fn(0, id); }

  // {address: (size, state)} of a pool.
  [[nodiscard]] std::vector<custash_torch_block_t> list(Id id) const {
    std::vector<custash_torch_block_t> all(1000);
    all.resize(std::min(all.size(), blocks(all.data(), all.size())));
    std::erase_if(all, [&](const auto& each) {
      return Id{each.pool.first, each.pool.second} != id;
    });
    return all;
  }
};

constexpr std::size_t kMiB = 1 << 20;
const Id kOne{0, 1};
const Id kTwo{0, 2};

driver cu;
Torch* torch = nullptr;

void memory_stays_with_its_pool() {
  const std::size_t before = allocated();
  torch->begin(kOne);
  void* const first = torch->malloc(3 * kMiB, 0, nullptr);
  void* const second = torch->malloc(3 * kMiB, 0, nullptr);
  torch->free(first);
  EXPECT(torch->malloc(3 * kMiB, 0, nullptr) == first);
  torch->free(first);
  torch->free(second);
  // Freed neighbours join.
  EXPECT(torch->malloc(6 * kMiB, 0, nullptr) == first);
  torch->free(first);
  torch->begin(kTwo);  // the latest takes all
  void* const other = torch->malloc(3 * kMiB, 0, nullptr);
  EXPECT(other != first && torch->list(kTwo).size() == 2);
  torch->end(kTwo);
  EXPECT(torch->malloc(3 * kMiB, 0, nullptr) == first);
  torch->end(kOne);
  std::set<void*> outside;
  for (int i = 0; i < 40; ++i)
    outside.insert(torch->malloc(3 * kMiB, 0, nullptr));
  const auto of_pool = torch->list(kOne);
  EXPECT(of_pool.size() == 2 && of_pool[0].address == first && of_pool[0].state == 1 &&
         of_pool[0].size == 3 * kMiB && of_pool[1].state == 0);
  for (const custash_torch_block_t& each : of_pool)
    EXPECT(!outside.contains(each.address) && each.segment == first);
  for (void* const each : outside)
    torch->free(each);
  torch->free(first);
  torch->begin(kOne);  // once more: it kept its memory
  EXPECT(torch->malloc(3 * kMiB, 0, nullptr) == first && torch->uses(kOne) == 2);
  torch->end(kOne);
  torch->release(kOne);
  EXPECT(torch->uses(kOne) == 1 && allocated() > before);
  torch->release(kOne);  // the last use; a block of it is still in use
  EXPECT(torch->uses(kOne) == 0 && torch->list(kOne).size() == 2);
  torch->free(first);
  EXPECT(torch->list(kOne).empty());
  torch->free(other);
  EXPECT(allocated() > before);
  torch->release(kTwo);
  EXPECT(allocated() == before && torch->list(kTwo).empty());
}

// The function may be small or not, is copied, called later, and destroyed with its pool's end.
void filters() {
  const auto held = std::make_shared<int>(0);
  const std::array<std::uint64_t, 20> large{1, 2, 3};
  for (const bool small : {true, false}) {
    Filter filter = [held](Stream stream) { return ++*held, stream == nullptr; };
    if (!small)
      filter = [held, large](Stream stream) {
        return *held += large[2] == 3, stream == nullptr;
      };
    *held = 0;
    torch->begin(kOne, filter);
    filter = nullptr;
    EXPECT(held.use_count() == 2);
    void* const in = torch->malloc(100, 0, nullptr);
    void* const out = torch->malloc(100, 0, reinterpret_cast<Stream>(2));
    EXPECT(*held == 2 && torch->list(kOne).size() == 2);
    torch->end(kOne);
    EXPECT(held.use_count() == 1);
    torch->free_fn(out, 100, 0, reinterpret_cast<Stream>(2));
    torch->free(in);
    torch->release(kOne);
    EXPECT(torch->list(kOne).empty());
  }
  const auto me = std::this_thread::get_id();
  torch->begin(kOne, [me](Stream) { return std::this_thread::get_id() == me; });
  std::thread([] {
    void* const of_thread = torch->malloc(kMiB, 0, nullptr);
    EXPECT(torch->list(kOne).empty());
    torch->free(of_thread);
  }).join();
  torch->end(kOne);
  torch->release(kOne);
}

// As a checkpoint restores a pool.
void places() {
  torch->begin(kOne);
  void* const first = torch->malloc(4096, 0, nullptr);
  auto* const second = static_cast<char*>(torch->malloc(8192, 0, nullptr));
  torch->free(first);
  torch->free(second);
  torch->place(second + 4096);
  EXPECT(torch->malloc(2048, 0, nullptr) == second + 4096);
  EXPECT(torch->malloc(4096, 0, nullptr) == first);  // one place for one block
  torch->place(second + 4096);                       // in use
  EXPECT(torch->malloc(512, 0, nullptr) == nullptr);
  EXPECT(torch->malloc(512, 0, nullptr) != nullptr);
  bool refused = false;
  try {
    torch->malloc(std::size_t{1} << 45, 0, nullptr);
  } catch (const std::runtime_error& error) {
    refused = std::strstr(error.what(), "CUDA out of memory. ") == error.what();
  }
  EXPECT(refused && std::uncaught_exceptions() == 0);
  torch->end(kOne);
  for (const custash_torch_block_t& each : torch->list(kOne))
    if (each.state == 1) torch->free(each.address);
  torch->release(kOne);
  EXPECT(torch->list(kOne).empty());
}

bool holds(void* memory, std::size_t bytes, unsigned char value) {
  std::vector<unsigned char> copy(bytes);
  auto* const get = find<int(void*, device_address, std::size_t)>("cuMemcpyDtoH_v2");
  EXPECT(get(copy.data(), reinterpret_cast<device_address>(memory), bytes) == 0);
  for (const unsigned char each : copy)
    if (each != value) return false;
  return true;
}

void fill(void* memory, unsigned char value, std::size_t bytes, Stream stream) {
  EXPECT(cu.cuMemsetD8Async(reinterpret_cast<device_address>(memory), value, bytes, stream) ==
         0);
}

// A block that another stream uses rests while its pool is in use, and the stream of its next
// owner then waits for that stream. Returns whether the other stream's work came in time.
bool other_streams(bool careful) {
  constexpr std::size_t kBytes = 8 * kMiB;
  Stream own = nullptr;
  Stream other = nullptr;
  EXPECT(cu.cuStreamCreate(&own, 1) == 0 && cu.cuStreamCreate(&other, 1) == 0);
  torch->begin(kOne);
  void* const block = torch->malloc(kBytes, 0, own);
  EXPECT(cu.cuStreamSynchronize(own) == 0);
  for (int i = 0; i < 20; ++i)
    fill(block, 1, kBytes, other);
  if (careful) torch->record(block, other);
  torch->free(block);
  if (careful) {
    void* const meanwhile = torch->malloc(kBytes, 0, own);
    EXPECT(meanwhile != block);
    torch->free(meanwhile);
  }
  torch->end(kOne);
  torch->begin(kOne);
  void* const again = torch->malloc(kBytes, 0, own);
  EXPECT(again == block);
  fill(again, 2, kBytes, own);
  EXPECT(cu.cuStreamSynchronize(own) == 0 && cu.cuStreamSynchronize(other) == 0);
  const bool right = holds(again, kBytes, 2);
  torch->free(again);
  torch->end(kOne);
  torch->release(kOne);
  torch->release(kOne);
  EXPECT(torch->list(kOne).empty());
  EXPECT(cu.cuStreamDestroy_v2(own) == 0 && cu.cuStreamDestroy_v2(other) == 0);
  return right;
}

// A graph's memory: reused within the capture, kept while the pool is used, gone with it.
void captures() {
  auto* const begin = find<int(Stream, int)>("cuStreamBeginCapture_v2");
  auto* const end = find<int(Stream, void**)>("cuStreamEndCapture");
  auto* const instantiate =
      find<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags");
  auto* const launch = find<int(void*, Stream)>("cuGraphLaunch");
  auto* const destroy = find<int(void*)>("cuGraphDestroy");
  auto* const destroy_exec = find<int(void*)>("cuGraphExecDestroy");
  auto* const copy =
      find<int(device_address, device_address, std::size_t, Stream)>("cuMemcpyDtoDAsync_v2");
  const std::size_t before = allocated();
  constexpr std::size_t kBytes = 3 * kMiB;
  Stream stream = nullptr;
  EXPECT(cu.cuStreamCreate(&stream, 1) == 0);
  void* const in = torch->malloc(kBytes, 0, nullptr);
  void* const out = torch->malloc(kBytes, 0, nullptr);
  void *graph = nullptr, *exec = nullptr;
  torch->begin(kOne, [stream](Stream each) { return each == stream; });
  EXPECT(begin(stream, 0) == 0);
  const auto address = [](void* ptr) { return reinterpret_cast<device_address>(ptr); };
  void* const first = torch->malloc(kBytes, 0, stream);
  EXPECT(copy(address(first), address(in), kBytes, stream) == 0);
  void* const second = torch->malloc(kBytes, 0, stream);
  EXPECT(copy(address(second), address(first), kBytes, stream) == 0);
  torch->free_fn(first, kBytes, 0, stream);
  void* const third = torch->malloc(kBytes, 0, stream);
  EXPECT(third == first);
  EXPECT(copy(address(third), address(second), kBytes, stream) == 0);
  EXPECT(copy(address(out), address(third), kBytes, stream) == 0);
  torch->free_fn(second, kBytes, 0, stream);
  torch->free_fn(third, kBytes, 0, stream);
  EXPECT(end(stream, &graph) == 0 && graph != nullptr);
  torch->end(kOne);
  EXPECT(instantiate(&exec, graph, 0) == 0 && destroy(graph) == 0);
  for (unsigned char round = 1; round <= 5; ++round) {
    fill(in, round, kBytes, nullptr);
    std::vector<void*> others;
    for (int i = 0; i < 30; ++i) {
      others.push_back(torch->malloc(kBytes, 0, nullptr));
      EXPECT(others.back() != first && others.back() != second);
      fill(others.back(), 99, kBytes, nullptr);
    }
    EXPECT(cu.cuCtxSynchronize() == 0);
    EXPECT(launch(exec, stream) == 0 && cu.cuStreamSynchronize(stream) == 0);
    EXPECT(holds(out, kBytes, round));
    for (void* const each : others) {
      EXPECT(holds(each, kBytes, 99));
      torch->free(each);
    }
  }
  EXPECT(destroy_exec(exec) == 0);
  torch->release(kOne);
  torch->free(in);
  torch->free(out);
  EXPECT(allocated() == before && cu.cuStreamDestroy_v2(stream) == 0);
}

void open(const char* path) {
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::printf("%s\n", dlerror());
  const custash_torch_calls_t calls{
      find<std::remove_pointer_t<decltype(custash_torch_calls_t::torch_malloc)>>(
          "custash_torch_malloc"),
      find<std::remove_pointer_t<decltype(custash_torch_calls_t::torch_free)>>(
          "custash_torch_free"),
      find<std::remove_pointer_t<decltype(custash_torch_calls_t::free)>>("custash_free"),
      find<std::remove_pointer_t<decltype(custash_torch_calls_t::record_stream)>>(
          "custash_record_stream")};
  find<void(const custash_torch_calls_t*)>("custash_pools_start")(&calls);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  start_driver(&cu);
  open(argv[1]);
  Torch hooks;
  torch = &hooks;
  const bool careless = argc > 2 && std::string_view(argv[2]) == "careless";
  if (careless) {
    std::printf("too late %d\n", !other_streams(false));
    return 0;
  }
  memory_stays_with_its_pool();
  filters();
  places();
  EXPECT(other_streams(true));
  captures();
  if (failures == 0) std::printf("all right\n");
  return failures != 0;
}
