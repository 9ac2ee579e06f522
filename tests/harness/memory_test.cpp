// SPDX-License-Identifier: MIT
// S20–S27: what the allocator does with memory, and what it says about it.
#include "tests/harness/need.hpp"

using namespace custash;
using namespace custash::harness;

namespace {

// What a driver may take for itself meanwhile.
constexpr Bytes kDriversOwn = 16_MiB;

Tensor mebibytes(std::int64_t count) {
  return empty({count * kMiBOfFloats}, on(Device::cuda()));
}

// Nothing cached, peaks at what is there.
void start_afresh() {
  synchronize();
  empty_cache();
  reset_peak_memory_stats();
}

}  // namespace

TEST_CASE("S20 freed memory is reused at once, without waiting for the device", "[custash]") {
  const NoRaces races;
  spin(1);
  Tensor a = mebibytes(8);
  const void* where = a.data();
  synchronize();
  spin(50'000'000);
  a.fill_(1);
  a = Tensor();
  const Tensor b = mebibytes(8);
  CHECK(b.data() == where);
  CHECK_FALSE(Stream::current().query());  // the device is still at it
  CHECK(full({4}, 2, on(Device::cuda())).values() == repeated(2, 4));
}

TEST_CASE("S21 freed memory stays reserved, and in use as seen from outside", "[custash]") {
  start_afresh();
  const auto reserved = memory_reserved();
  const auto outside = bytes_in_use_from_outside();
  Tensor a = mebibytes(64);
  CHECK(memory_allocated() >= a.nbytes());
  CHECK(memory_reserved() >= reserved + a.nbytes());
  const auto allocated_with = memory_allocated();
  const auto reserved_with = memory_reserved();
  a = Tensor();
  CHECK(memory_allocated() < allocated_with);
  CHECK(memory_reserved() == reserved_with);
  if (outside) CHECK(*bytes_in_use_from_outside() >= *outside + 64_MiB);
}

TEST_CASE("S21 the maxima stay until they are reset") {
  start_afresh();
  const auto before = memory_allocated();
  Tensor a = mebibytes(16);
  Tensor b = mebibytes(16);
  const auto both = memory_allocated();
  a = b = Tensor();
  synchronize();
  CHECK(both >= before + 32_MiB);
  CHECK(max_memory_allocated() >= both);
  CHECK(max_memory_reserved() >= both);
  start_afresh();
  CHECK(max_memory_allocated() == memory_allocated());
  CHECK(max_memory_reserved() == memory_reserved());
}

TEST_CASE("S22 empty_cache gives back what is cached, not what tensors occupy", "[custash]") {
  start_afresh();
  const auto outside = bytes_in_use_from_outside();
  const Tensor kept = mebibytes(64).fill_(5);
  Tensor gone = mebibytes(64);
  gone = Tensor();
  const auto reserved = memory_reserved();
  const auto free = memory_info().free;
  start_afresh();
  CHECK(memory_reserved() <= reserved - 64_MiB);
  CHECK(memory_reserved() >= kept.nbytes());
  // The program itself could have had it before: no more is free for it now.
  CHECK(memory_info().free <= free + 2_MiB);
  if (outside) CHECK(*bytes_in_use_from_outside() <= *outside + 64_MiB + kDriversOwn);
  CHECK(kept.narrow(0, 4).values() == repeated(5, 4));
}

TEST_CASE("S23 synchronize, del, empty_cache give the memory back to the system", "[custash]") {
  start_afresh();
  const auto outside = bytes_in_use_from_outside();
  Tensor a = mebibytes(96).fill_(1);
  Tensor same = a;
  a = Tensor();  // a reference fewer, no memory
  CHECK(memory_allocated() >= same.nbytes());
  synchronize();
  same = Tensor();
  CHECK(memory_reserved() >= 96_MiB);
  empty_cache();
  CHECK(memory_reserved() < 96_MiB);
  if (outside) CHECK(*bytes_in_use_from_outside() <= *outside + kDriversOwn);
}

TEST_CASE("S24 memory_stats and memory_summary tell of peaks and retries") {
  start_afresh();
  { const Tensor a = mebibytes(32); }
  const auto stats = memory_stats();
  CHECK(stats.at("allocated_bytes.all.peak") >= std::int64_t{32} << 20);
  CHECK(stats.at("reserved_bytes.all.peak") >= std::int64_t{32} << 20);
  CHECK(stats.at("reserved_bytes.all.current") == static_cast<std::int64_t>(memory_reserved()));
  if (custash_loaded()) CHECK(stats.count("num_alloc_retries") == 1);
  const std::string summary = memory_summary();
  CHECK(summary.find("allocated") != std::string::npos);
  CHECK(summary.find("reserved") != std::string::npos);
  CHECK(summary.find("cuda:0") != std::string::npos);
}

TEST_CASE("S25 history is recorded, dumped and switched off") {
  record_memory_history(History::On);
  {
    const Tensor a = mebibytes(1);
    a.record_stream(Stream::make());
  }
  record_memory_history(History::Off);
  const Tensor after = mebibytes(1);
  const std::string snapshot = memory_snapshot();
  INFO(snapshot);
  const auto lines = [&](const std::string& action) {
    std::size_t count = 0;
    for (std::size_t at = 0;
         (at = snapshot.find("\"" + action + "\"", at)) != std::string::npos;
         ++at)
      ++count;
    return count;
  };
  CHECK(lines("alloc") == 1);
  CHECK(lines("record_stream") == 1);
  CHECK(lines("free") == 1);
  CHECK(snapshot.find("\"bytes\": 1048576") != std::string::npos);
}

TEST_CASE("S26 out of memory is caught, and memory made free serves the second try") {
  start_afresh();
  const auto total = memory_info().total;
  const auto most = static_cast<std::int64_t>(memory_info().free / 10 * 6 / sizeof(float));
  Tensor a = empty({most}, on(Device::cuda()));
  std::string said;
  try {
    (void)empty({most}, on(Device::cuda()));
  } catch (const OutOfMemory& error) {
    said = error.what();
    CHECK(error.code() == cudaErrorMemoryAllocation);
  }
  INFO(said);
  CHECK(said.find("tried to allocate") != std::string::npos);
  CHECK(said.find("cuda:0") != std::string::npos);
  if (custash_loaded()) CHECK(memory_stats().at("num_ooms") >= 1);
  CHECK_THROWS_AS(empty({static_cast<std::int64_t>(total)}, on(Device::cuda())), OutOfMemory);
  a = Tensor();
  synchronize();
  empty_cache();
  const Tensor second = empty({most}, on(Device::cuda()));
  CHECK(second.nbytes() == static_cast<Bytes>(most) * sizeof(float));
}

TEST_CASE("S27 a loop that keeps its results is found, one that does not is not") {
  // Large beside what libraries hold, which counts as well.
  const auto held = static_cast<std::int64_t>(memory_allocated() >> 20U);
  const Tensor weights = mebibytes(4 + held).fill_(1);
  const auto loop = [&](std::vector<Tensor>* kept) {
    const LeakCheck check;
    for (int i = 0; i < 4; ++i) {
      const Tensor loss = weights * i;
      if (kept != nullptr) kept->push_back(loss);
    }
    synchronize();
    return check.leaks();
  };
  std::vector<Tensor> kept;
  CHECK_FALSE(loop(nullptr));
  CHECK(loop(&kept));
}
