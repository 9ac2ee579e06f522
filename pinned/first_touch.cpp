// SPDX-License-Identifier: MIT
#include "pinned/first_touch.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>
#include <vector>

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

constexpr Bytes kHugePage = 2_MiB;
constexpr unsigned kMostThreads = 16;
constexpr Bytes kLeastPerThread = 16_MiB;  // a thread costs about what 1 MiB does

void touch_pages(Address begin, Address end, Bytes step) {
  for (Address at = begin; at < end; at += step)
    *static_cast<volatile char*>(pointer(at)) = 0;
}

void populate(Address begin, Address end) {
  if (begin == end || madvise(pointer(begin), end - begin, MADV_POPULATE_WRITE) == 0) return;
  // Out of memory: the registration will report it; a touch would kill the process.
  if (errno == EINVAL) touch_pages(begin, end, kHostPage);
}

// Shared memory gets huge pages by itself only if the administrator has enabled that. From
// Linux 6.1 on, collapsing a range whose first page is populated makes a huge page in any case.
void make_real(Address begin, Address end) {
  const Address huge_end = begin + align_down(end - begin, kHugePage);
  if (begin < huge_end) {
    touch_pages(begin, huge_end, kHugePage);
    if (madvise(pointer(begin), huge_end - begin, MADV_COLLAPSE) != 0)
      populate(begin, huge_end);
  }
  populate(huge_end, end);
}

unsigned thread_count(Bytes bytes, unsigned wanted) {
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

}  // namespace

Address map_shared(Bytes bytes) {
  // Reserves enough to align in. The memory replaces part of the reservation.
  const Bytes reserved = align_up(bytes, kHugePage) + kHugePage;
  void* const raw =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return 0;
  const auto first = reinterpret_cast<Address>(raw);
  const Address base = align_up(first, kHugePage);
  void* const memory = mmap(pointer(base),
                            bytes,
                            PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
                            -1,
                            0);
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

void first_touch(Address base, Bytes bytes, unsigned threads, int node) {
  prefer_node(base, bytes, node);
  const unsigned count = thread_count(bytes, threads);
  const Bytes stripe = align_up(bytes / count, kHugePage);
  const Address end = base + bytes;
  // These threads must not handle the program's signals.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::vector<std::thread> helpers;
  Address begin = base;
  try {
    helpers.reserve(count);
    for (; begin + stripe < end; begin += stripe)
      helpers.emplace_back(make_real, begin, begin + stripe);
  } catch (...) {  // no thread can be started: this one does the rest
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  make_real(begin, end);
  for (std::thread& helper : helpers)
    helper.join();
}

}  // namespace custash
