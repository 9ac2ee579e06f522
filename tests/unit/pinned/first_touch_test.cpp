// SPDX-License-Identifier: MIT
// New memory made real: zero, all of it there, and no thread left behind.
#include "pinned/first_touch.hpp"

#include "tests/catch.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

#include <sys/mman.h>

using namespace custash;

namespace {

std::ptrdiff_t threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

std::size_t pages_there(Address base, Bytes bytes) {
  std::vector<unsigned char> there(bytes / 4_KiB);
  REQUIRE(mincore(reinterpret_cast<void*>(base), bytes, there.data()) == 0);
  return static_cast<std::size_t>(
      std::count_if(there.begin(), there.end(), [](unsigned char c) { return (c & 1U) != 0; }));
}

}  // namespace

TEST_CASE("mapped memory is aligned, and exactly as long as was asked", "[unit][first_touch]") {
  for (const Bytes bytes : {4_KiB, 2_MiB, 2_MiB + 4_KiB, 5_MiB + 12_KiB}) {
    const Address base = map_shared(bytes);
    REQUIRE(base != 0);
    CHECK(base % 2_MiB == 0);
    auto* const after = reinterpret_cast<void*>(base + bytes);
    CHECK(msync(after, 4_KiB, MS_ASYNC) != 0);  // nothing is mapped there
    CHECK(msync(reinterpret_cast<void*>(base - 4_KiB), 4_KiB, MS_ASYNC) != 0);
    unmap_shared(base, bytes);
    CHECK(msync(reinterpret_cast<void*>(base), 4_KiB, MS_ASYNC) != 0);
  }
  CHECK(map_shared(1ULL << 60) == 0);
}

TEST_CASE("after the first touch all pages are there and zero", "[unit][first_touch]") {
  for (const Bytes bytes : {4_KiB, 2_MiB, 2_MiB + 4_KiB, 37_MiB + 12_KiB}) {
    for (const unsigned threads : {0U, 1U, 2U, 5U}) {
      const Address base = map_shared(bytes);
      REQUIRE(base != 0);
      first_touch(base, bytes, threads, -1);
      CHECK(pages_there(base, bytes) == bytes / 4_KiB);
      const auto* memory = reinterpret_cast<const unsigned char*>(base);
      CHECK(std::all_of(memory, memory + bytes, [](unsigned char c) { return c == 0; }));
      unmap_shared(base, bytes);
    }
  }
}

TEST_CASE("a wish for a node that is not there changes nothing", "[unit][first_touch]") {
  for (const int node : {0, 63, 64, 1000}) {
    const Address base = map_shared(2_MiB);
    first_touch(base, 2_MiB, 1, node);
    CHECK(pages_there(base, 2_MiB) == 2_MiB / 4_KiB);
    unmap_shared(base, 2_MiB);
  }
}

TEST_CASE("its threads have ended when it returns, and took no signals",
          "[unit][first_touch]") {
  static std::atomic<int> taken_elsewhere{0};
  static const std::thread::id main = std::this_thread::get_id();
  taken_elsewhere = 0;
  const auto before = std::signal(SIGUSR1, [](int) {
    if (std::this_thread::get_id() != main) ++taken_elsewhere;
  });
  const std::ptrdiff_t threads = threads_of_process();
  const Address base = map_shared(64_MiB);
  std::atomic<bool> done{false};
  std::thread sender([&] {
    // To the process: any thread that does not block the signal may get it.
    sigset_t own;
    sigfillset(&own);
    pthread_sigmask(SIG_SETMASK, &own, nullptr);
    while (!done)
      kill(getpid(), SIGUSR1);
  });
  first_touch(base, 64_MiB, 4, -1);
  done = true;
  sender.join();
  CHECK(taken_elsewhere == 0);
  CHECK(threads_of_process() == threads);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  CHECK(sigismember(&mask, SIGUSR1) == 0);
  std::signal(SIGUSR1, before);
  unmap_shared(base, 64_MiB);
}
