// SPDX-License-Identifier: MIT
#include "pinned/first_touch.hpp"

#include "allocator/base/thread.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// Newer than Debian 12's C library; an older kernel returns EINVAL.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace custash {
namespace {

constexpr Bytes kLeastAlignment = 2_MiB;
// With pages of 64 KiB a huge page has 512 MiB. Few buffers are as long, and the kernel would
// clear each in one step.
constexpr Bytes kMostHuge = 32_MiB;
constexpr unsigned kMostThreads = 16;
constexpr Bytes kLeastPerThread = 16_MiB;  // a thread costs about what 1 MiB does

void touch_pages(Address begin, Address end, Bytes step) {
  for (Address at = begin; at < end; at += step)
    *static_cast<volatile char*>(pointer(at)) = 0;
}

bool populate(Address begin, Address end) {
  if (begin == end || madvise(pointer(begin), end - begin, MADV_POPULATE_WRITE) == 0)
    return true;
  if (errno != EINVAL) return false;  // out of memory: a touch would kill the process
  touch_pages(begin, end, host_pages::page());
  return true;
}

}  // namespace

// Shared memory gets huge pages by itself only if the administrator has enabled that. From
// Linux 6.1 on, collapsing a range whose first page is populated makes a huge page in any case.
bool touch_range(Address begin, Address end) {
  const Bytes huge = host_pages::huge();
  const Address huge_end =
      huge == host_pages::page() ? begin : begin + align_down(end - begin, huge);
  if (begin < huge_end) {
    touch_pages(begin, huge_end, huge);
    if (madvise(pointer(begin), huge_end - begin, MADV_COLLAPSE) != 0 &&
        !populate(begin, huge_end))
      return false;
  }
  return populate(huge_end, end);
}

unsigned touch_threads(Bytes bytes, unsigned wanted) {
  cpu_set_t cores;
  unsigned count = wanted;
  if (count == 0) {
    const bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
    count = std::min(known ? static_cast<unsigned>(CPU_COUNT(&cores)) : 1U, kMostThreads);
  }
  return static_cast<unsigned>(std::clamp<Bytes>(bytes / kLeastPerThread, 1, count));
}

// The program's own policy (numactl, set_mempolicy) comes first.
void prefer_node(Address base, Bytes bytes, int node) {
#if defined(SYS_mbind) && defined(SYS_get_mempolicy)
  constexpr int kDefault = 0;
  constexpr int kPreferred = 1;
  constexpr int kMostNodes = 64;
  int policy = kDefault;
  if (node < 0 || node >= kMostNodes) return;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0 || policy != kDefault)
    return;
  const unsigned long mask = 1UL << static_cast<unsigned>(node);
  // Some containers refuse this: the memory is then on the node of the threads.
  (void)syscall(SYS_mbind, base, bytes, kPreferred, &mask, kMostNodes, 0);
#else
  (void)base, (void)bytes, (void)node;
#endif
}

namespace host_pages {

Bytes ask_page() {
  const auto size = static_cast<Bytes>(sysconf(_SC_PAGESIZE));
  known_page.store(size, std::memory_order_relaxed);
  return size;
}

Bytes huge_of(std::string_view pmd_size, Bytes page) {
  Bytes size = 0;
  const auto read = std::from_chars(pmd_size.data(), pmd_size.data() + pmd_size.size(), size);
  // Kernels without huge pages have no such file.
  if (read.ec != std::errc()) size = page == kHostPage ? kLeastAlignment : page;
  const bool whole = size >= page && (size & (size - 1)) == 0;
  return whole && size <= kMostHuge ? size : page;
}

Bytes huge() {
  constexpr const char* kFile = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
  static constinit std::atomic<Bytes> known{0};
  if (const Bytes size = known.load(std::memory_order_relaxed); size != 0) return size;
  char text[32];
  const CancellationOff off;
  const int file = open(kFile, O_RDONLY | O_CLOEXEC);
  const ssize_t length = file < 0 ? 0 : read(file, text, sizeof text);
  if (file >= 0) close(file);
  const Bytes size =
      huge_of({text, static_cast<std::size_t>(std::max<ssize_t>(length, 0))}, page());
  known.store(size, std::memory_order_relaxed);
  return size;
}

}  // namespace host_pages

namespace {

void* reserve(Bytes bytes) {
  return mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// In place of a part of a reservation.
void* map_at(Address base, Bytes bytes) {
  return mmap(pointer(base),
              bytes,
              PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
              -1,
              0);
}

}  // namespace

Address map_between(Bytes bytes, Bytes guard) {
  void* const raw = reserve(bytes + 2 * guard);
  if (raw == MAP_FAILED) return 0;
  const Address base = reinterpret_cast<Address>(raw) + guard;
  if (map_at(base, bytes) != MAP_FAILED) return base;
  munmap(raw, bytes + 2 * guard);
  return 0;
}

Address map_shared(Bytes bytes) {
  const Bytes huge = host_pages::huge();
  const Bytes alignment = bytes < huge ? kLeastAlignment : std::max(huge, kLeastAlignment);
  // Reserves enough to align in. The memory replaces part of the reservation.
  const Bytes reserved = align_up(bytes, alignment) + alignment;
  void* const raw = reserve(reserved);
  if (raw == MAP_FAILED) return 0;
  const auto first = reinterpret_cast<Address>(raw);
  const Address base = align_up(first, alignment);
  void* const memory = map_at(base, bytes);
  if (memory == MAP_FAILED) {
    munmap(raw, reserved);
    return 0;
  }
  if (base > first) munmap(raw, base - first);
  munmap(pointer(base + bytes), first + reserved - base - bytes);
  return base;
}

void unmap_shared(Address base, Bytes bytes) {
  munmap(pointer(base), bytes);
}

std::vector<std::thread> start_helpers(unsigned count, const std::function<void()>& run) {
  std::vector<std::thread> helpers;
  // These threads must not handle the program's signals.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    helpers.reserve(count);
    for (unsigned i = 0; i < count; ++i)
      helpers.emplace_back(run);
  } catch (...) {  // no further thread can be started: the others do the rest
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return helpers;
}

void first_touch(Address base, Bytes bytes, unsigned threads, int node) {
  prefer_node(base, bytes, node);
  const unsigned count = touch_threads(bytes, threads);
  const Bytes stripe = align_up(bytes / count, std::max(host_pages::huge(), kLeastAlignment));
  std::atomic<Bytes> next{0};
  const auto run = [&] {
    for (Bytes at = 0; (at = next.fetch_add(stripe)) < bytes;)
      (void)touch_range(base + at, base + std::min(at + stripe, bytes));
  };
  std::vector<std::thread> helpers = start_helpers(count - 1, std::ref(run));
  run();
  const CancellationOff off;
  for (std::thread& helper : helpers)
    helper.join();
}

}  // namespace custash
