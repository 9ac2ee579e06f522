// SPDX-License-Identifier: MIT
// Sleep copies neither what holds one value throughout nor what is unchanged since the last
// sleep. The simulator holds real bytes here, and runs the kernel that reads them.
#include "allocator/memory/saved_bytes.hpp"
#include "allocator/sleep/digests.hpp"
#include "allocator/sleep/sleep.hpp"
#include "pinned/sleep_store.hpp"
#include "tests/unit/contents.hpp"

#include <random>
#include <string>
#include <vector>

using namespace custash;

namespace {

// Blocks with known contents, on the device and here.
struct Blocks {
  explicit Blocks(Bytes device = 2_GiB, const Config& options = Bed::vmm())
      : config(options),
        bed(with_bytes(device), config),
        store(bed.sim.driver(), config),
        sleep(*bed.allocator) {}

  ~Blocks() {
    for (const Block& each : all)
      bed.free(each.address);
  }

  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  struct Block {
    Address address = 0;
    std::string contents;
  };

  Block& add(Bytes bytes) {
    all.push_back({bed.malloc(bytes), std::string(bytes, '\0')});
    return all.back();
  }

  void write(Block& block, Bytes at, const std::string& bytes) {
    block.contents.replace(at, bytes.size(), bytes);
    bed.launch(nullptr, {.accesses = {{block.address + at, bytes.size(), true}}, .body = [=] {
                           std::memcpy(reinterpret_cast<void*>(block.address + at),
                                       bytes.data(),
                                       bytes.size());
                         }});
    sim::run_all();
  }

  void fill_with(Block& block, int number) {
    std::string bytes(block.contents.size(), '\0');
    fill(bytes.data(), bytes.size(), number);
    write(block, 0, bytes);
  }

  // Wakes the process.
  bool right() {
    bool same = true;
    for (const Block& each : all) {
      std::string seen;
      bed.launch(nullptr, reads(each.address, each.contents.size(), &seen));
      sim::run_all();
      same = same && seen == each.contents;
    }
    return same && sim::faults().empty();
  }

  SleepSums go() {
    const SleepAnswer answer = sleep.go({});
    INFO(answer.text);
    CHECK(answer.asleep);
    CHECK(sim::used(0) == 0);
    return answer.sums;
  }

  Config config;  // the store refers to it
  Bed bed;
  SleepStore store;  // for set_store()
  Sleep sleep;
  std::vector<Block> all;
};

}  // namespace

TEST_CASE("what holds one value is not copied", "[sleep_digests]") {
  Blocks it;
  it.add(24_MiB);
  it.write(it.add(16_MiB), 0, std::string(16_MiB, 'x'));
  Blocks::Block& words = it.add(16_MiB);
  std::string bytes;
  while (bytes.size() < 16_MiB)
    bytes += "abcd";
  it.write(words, 0, bytes);
  CHECK(it.go().saved == 0);
  CHECK(sim::count("cuMemcpyDtoHAsync_v2") == 0);
  CHECK(it.right());
  // The last byte of a piece, and one alone between others.
  it.write(words, 2_MiB - 1, "!");
  it.write(it.all[0], 20_MiB, "?");
  const Bytes saved = it.go().saved;
  CHECK(saved >= 2 * Digests::kPiece);
  CHECK(saved <= 4 * Digests::kPiece);
  CHECK(it.right());
}

TEST_CASE("sleep copies only what changed", "[sleep_digests]") {
  Blocks it;
  for (int i = 1; i < 6; ++i)
    it.fill_with(it.add(10_MiB), i);
  const SleepSums first = it.go();
  CHECK(first.kept == 0);
  CHECK(first.saved >= 50_MiB);
  CHECK(it.right());
  CHECK(it.go().kept == first.saved);
  CHECK(it.right());
  it.write(it.all[2], 5_MiB + 77, "x");
  const SleepSums third = it.go();
  CHECK(third.saved == first.saved);
  CHECK(third.kept == first.saved - Digests::kPiece);
  CHECK(it.right());
  // As it was once: but that copy is gone.
  it.fill_with(it.all[2], 3);
  CHECK(it.go().kept == first.saved - Digests::kPiece);
  CHECK(it.right());
}

TEST_CASE("a copy is not used for another block at its address", "[sleep_digests]") {
  Blocks it;
  it.fill_with(it.add(15_MiB), 1);
  it.fill_with(it.add(15_MiB), 2);
  it.go();
  it.sleep.wake();
  it.bed.free(it.all[0].address);
  it.all.erase(it.all.begin());
  it.fill_with(it.add(10_MiB), 3);
  it.fill_with(it.add(2_MiB), 4);
  it.go();
  CHECK(it.right());
}

TEST_CASE("contents are right after random changes and sleeps", "[sleep_digests]") {
  std::mt19937 random(4711);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int program = 0; program < 2; ++program) {
    Blocks it;
    for (int round = 0; round < 8; ++round) {
      for (std::size_t i = below(4); i > 0; --i) {
        Blocks::Block& block = it.add((below(400'000) + 1) * (below(4) == 0 ? 16 : 2));
        if (below(3) != 0) it.fill_with(block, round * 10 + static_cast<int>(i));
      }
      if (it.all.size() > 6) {
        const auto gone = it.all.begin() + static_cast<std::ptrdiff_t>(below(it.all.size()));
        it.bed.free(gone->address);
        it.all.erase(gone);
      }
      for (std::size_t i = below(5); i > 0 && !it.all.empty(); --i) {
        Blocks::Block& block = it.all[below(it.all.size())];
        it.write(
            block, below(block.contents.size()), std::string(1, static_cast<char>(random())));
      }
      if (it.all.empty()) continue;
      fall_asleep(it.sleep);
      // In a further portion.
      if (below(3) == 0) {
        it.all.push_back({it.bed.malloc(33_MiB), std::string(33_MiB, '\0')});
        (void)it.sleep.go({});
        it.sleep.wake();
        it.fill_with(it.all.back(), round);
      }
      REQUIRE(it.right());
    }
  }
}

TEST_CASE("pieces side by side are copied and filled at once", "[sleep_digests]") {
  Blocks it(64_GiB);  // whose pages have 32 MiB
  it.fill_with(it.add(24_MiB), 1);
  it.add(24_MiB);
  it.go();
  const std::uint64_t copies = sim::count("cuMemcpyHtoDAsync_v2");
  const std::uint64_t fills = sim::count("cuMemsetD32Async");
  CHECK(it.right());
  CHECK(sim::count("cuMemcpyHtoDAsync_v2") - copies <= 24_MiB / SavedBytes::kChunk + 2);
  CHECK(sim::count("cuMemsetD32Async") - fills <= 2);
}

// Each call of the first or the second sleep and its waking, in turn. In the second of the
// three blocks one is copied again, one has a copy that stays, and one is filled.
TEST_CASE("a call that fails at any time loses no contents", "[sleep_digests]") {
  constexpr Bytes kBytes = 1_MiB + 4096;
  for (const int at : {1, 2}) {
    std::uint64_t k = 0;
    int slept = 0;
    for (bool failed = true; failed;) {
      Blocks it;
      it.fill_with(it.add(kBytes), 1);
      it.fill_with(it.add(kBytes), 2);
      it.add(kBytes);
      const CUresult code = ++k % 2 == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
      for (int round = 1; round <= 3; ++round) {
        INFO(code << " of call " << k << " of sleep " << at << ", in round " << round);
        const std::uint64_t before = sim::failures_given();
        if (round == at) sim::fail_call(k, code);
        slept += it.sleep.go({}).asleep ? 1 : 0;
        it.sleep.wake();
        REQUIRE(sim::pending() == 0);
        sim::clear_failures();
        if (round == at) failed = sim::failures_given() != before;
        REQUIRE(it.sleep.state() == SleepState::Awake);
        REQUIRE(it.right());
        it.fill_with(it.all[0], 2 + round);
        it.write(it.all[2], 0, std::string(kBytes, static_cast<char>(round)));
      }
    }
    CHECK(k > 30);
    CHECK(slept > 2 * static_cast<int>(k));
  }
}

TEST_CASE("a sleep that lacks host memory leaves the next one its chance", "[sleep_digests]") {
  Blocks it(2_GiB, {.backing = Backing::Vmm, .sleep_memory = 20_MiB});
  it.sleep.set_store(it.store);
  it.fill_with(it.add(40_MiB), 1);
  const SleepAnswer answer = it.sleep.go({});
  CHECK_FALSE(answer.asleep);
  INFO(answer.text);
  CHECK(answer.text.find("host memory") != std::string::npos);
  CHECK(it.right());
  it.write(it.all[0], 0, std::string(40_MiB, 'z'));
  CHECK(it.go().saved == 0);
  CHECK(it.right());
}

// Where memory was short, the next sleep tries again.
TEST_CASE("without the kernel all is copied, and said", "[sleep_digests]") {
  for (const CUresult code : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED}) {
    for (const char* call : {"cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"}) {
      Blocks it;
      it.fill_with(it.add(10_MiB), 1);
      it.add(2_MiB);
      const std::uint64_t loads = sim::count("cuModuleLoadData");
      sim::fail_symbol(call, 1, code, true);
      const SleepAnswer answer = it.sleep.go({});
      sim::clear_failures();
      INFO(call << " " << code << " " << answer.text);
      CHECK(answer.text.find("all was copied") != std::string::npos);
      CHECK(answer.sums.saved >= 12_MiB);
      CHECK(it.right());
      const bool again = code == CUDA_ERROR_OUT_OF_MEMORY;
      CHECK((it.go().saved < 12_MiB) == again);
      CHECK(it.right());
      CHECK((it.go().kept >= 10_MiB) == again);
      CHECK(it.right());
      // A module that is loaded stays, whatever failed after that.
      if (std::string(call) != "cuModuleLoadData")
        CHECK(sim::count("cuModuleLoadData") - loads == 1);
    }
  }
}

TEST_CASE("digests tell contents apart", "[sleep_digests]") {
  Bed bed(with_bytes(1_GiB));
  const Address p = bed.malloc(Digests::kPiece);
  auto* const bytes = reinterpret_cast<unsigned char*>(p);
  Digests digests(bed.sim.driver());
  CopyStream stream(bed.sim.driver());
  const auto digest = [&](Bytes size) {
    const Digests::Piece piece{p, size};
    Digest out;
    REQUIRE(digests.read({&piece, 1}, stream, {&out, 1}));
    return out;
  };
  std::mt19937 random(1);
  for (Bytes size : {Bytes{16}, Bytes{512}, Bytes{4096 + 16}, Bytes{2_MiB}}) {
    fill(reinterpret_cast<char*>(p), size, 5);
    const Digest before = digest(size);
    CHECK(digest(size) == before);
    for (int i = 0; i < 20; ++i) {
      const Bytes at = random() % size;
      const auto bit = static_cast<unsigned char>(1U << (random() % 8));
      bytes[at] ^= bit;
      CHECK(digest(size).words != before.words);
      bytes[at] ^= bit;
    }
    std::swap(bytes[0], bytes[size - 1]);
    CHECK(digest(size).words != before.words);
  }
  std::memset(bytes, 0, 2_MiB);
  CHECK(digest(2_MiB).kind == Digest::Kind::OneValue);
  CHECK(digest(2_MiB).value == 0);
  bytes[2_MiB - 1] = 1;
  CHECK(digest(2_MiB).kind == Digest::Kind::Mixed);
  bed.free(p);
}
