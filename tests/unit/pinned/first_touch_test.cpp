// SPDX-License-Identifier: MIT
// New memory made real: zero, all of it there, and no thread left behind.
#include "pinned/first_touch.hpp"

#include "tests/catch.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
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

// A joined thread stays in /proc for a moment: the kernel wakes the one that joins it first.
std::ptrdiff_t threads_left(std::ptrdiff_t wanted) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads_of_process() != wanted && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return threads_of_process();
}

// Whether madvise says that it populates memory and does not. QEMU's user mode does so: it
// takes each advice that it does not know for a hint. An old kernel returns an error.
bool only_pretends_to_populate() {
  constexpr int kPopulateWrite = 23;
  const Bytes page = host_pages::page();
  const Address base = map_shared(page);
  REQUIRE(base != 0);
  unsigned char there[16] = {};
  const bool told = madvise(pointer(base), page, kPopulateWrite) == 0;
  REQUIRE(mincore(pointer(base), page, there) == 0);
  unmap_shared(base, page);
  return told && (there[0] & 1U) == 0;
}

bool all_there(Address base, Bytes bytes) {
  static const bool pretends = only_pretends_to_populate();
  if (pretends) {
    WARN("skipped, whether all pages are there: madvise only pretends to populate them (QEMU)");
    return true;
  }
  // Room for pages of 4 KiB: an emulator may ask its own kernel, whose pages are smaller.
  std::vector<unsigned char> there(bytes / 4_KiB);
  REQUIRE(mincore(reinterpret_cast<void*>(base), bytes, there.data()) == 0);
  return std::all_of(there.begin(),
                     there.begin() + static_cast<std::ptrdiff_t>(bytes / host_pages::page()),
                     [](unsigned char c) { return (c & 1U) != 0; });
}

// As on a system with such pages, as far as custash knows.
class Pages {
 public:
  explicit Pages(Bytes size) { host_pages::known_page.store(size); }

  ~Pages() { host_pages::known_page.store(before_); }

  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

 private:
  const Bytes before_ = host_pages::page();
};

}  // namespace

TEST_CASE("huge pages are the kernel's, where they are of use", "[first_touch]") {
  CHECK(host_pages::huge_of("2097152\n", 4_KiB) == 2_MiB);
  CHECK(host_pages::huge_of("33554432\n", 16_KiB) == 32_MiB);
  CHECK(host_pages::huge_of("536870912\n", 64_KiB) == 64_KiB);  // too large
  CHECK(host_pages::huge_of("", 4_KiB) == 2_MiB);
  CHECK(host_pages::huge_of("", 64_KiB) == 64_KiB);
  CHECK(host_pages::huge_of("words", 16_KiB) == 16_KiB);
  CHECK(host_pages::huge_of("3000000", 4_KiB) == 4_KiB);
  CHECK(host_pages::huge_of("4096", 16_KiB) == 16_KiB);
  CHECK(host_pages::huge() >= host_pages::page());
}

TEST_CASE("mapped memory is aligned, and exactly as long as was asked", "[first_touch]") {
  for (const Bytes page : {host_pages::page(), 16_KiB, 64_KiB}) {
    if (page < host_pages::page()) continue;
    const Pages pages(page);
    for (const Bytes bytes : {page, 2_MiB, 2_MiB + page, 5_MiB + 3 * page}) {
      const Address base = map_shared(bytes);
      REQUIRE(base != 0);
      CHECK(base % 2_MiB == 0);
      auto* const after = reinterpret_cast<void*>(base + bytes);
      CHECK(msync(after, page, MS_ASYNC) != 0);  // nothing is mapped there
      CHECK(msync(reinterpret_cast<void*>(base - page), page, MS_ASYNC) != 0);
      unmap_shared(base, bytes);
      CHECK(msync(reinterpret_cast<void*>(base), page, MS_ASYNC) != 0);
    }
  }
  CHECK(map_shared(1ULL << 60) == 0);
}

TEST_CASE("after the first touch all pages are there and zero", "[first_touch]") {
  const Bytes page = host_pages::page();
  for (const Bytes bytes : {page, 2_MiB, 2_MiB + page, 37_MiB + 3 * page}) {
    for (const unsigned threads : {0U, 1U, 2U, 5U}) {
      const Address base = map_shared(bytes);
      REQUIRE(base != 0);
      first_touch(base, bytes, threads, -1);
      CHECK(all_there(base, bytes));
      const auto* memory = reinterpret_cast<const unsigned char*>(base);
      CHECK(std::all_of(memory, memory + bytes, [](unsigned char c) { return c == 0; }));
      unmap_shared(base, bytes);
    }
  }
}

TEST_CASE("a wish for a node that is not there changes nothing", "[first_touch]") {
  for (const int node : {0, 63, 64, 1000}) {
    const Address base = map_shared(2_MiB);
    first_touch(base, 2_MiB, 1, node);
    CHECK(all_there(base, 2_MiB));
    unmap_shared(base, 2_MiB);
  }
}

TEST_CASE("its threads have ended when it returns, and took no signals", "[first_touch]") {
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
  CHECK(threads_left(threads) == threads);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  CHECK(sigismember(&mask, SIGUSR1) == 0);
  std::signal(SIGUSR1, before);
  unmap_shared(base, 64_MiB);
}
