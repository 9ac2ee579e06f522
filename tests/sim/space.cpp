// SPDX-License-Identifier: MIT
#include "tests/sim/space.hpp"

#include <algorithm>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace custash::sim {
namespace {

// Numbers only: far from what the host's own memory uses, so that the two are never mixed up.
constexpr Address kNumbers = 0x2000'0000'0000;
constexpr Address kNumbersEnd = 0x5000'0000'0000;
// Not larger: QEMU's user mode keeps 16 bytes for each reserved page of 4 KiB.
constexpr Address kPlaceEnd = Address{1} << 47U;  // as on an H200 with driver 580
constexpr Bytes kChunk = 16_GiB;
constexpr Bytes kSmallestChunk = 1_GiB;
constexpr Bytes kFile = Bytes{1} << 50;

void* const kFailed = MAP_FAILED;

void* reserve_pages(Bytes bytes, void* at, int extra) {
  return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | extra, -1, 0);
}

}  // namespace

Address map_host(Bytes bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == kFailed ? 0 : reinterpret_cast<Address>(memory);
}

void unmap_host(Address base, Bytes bytes) {
  munmap(reinterpret_cast<void*>(base), bytes);
}

Space::Space(const Options& options) : data_(options.data), reuse_(options.reuse) {
  if (!data_) {
    bump_ = kNumbers;
    end_ = kNumbersEnd;
    return;
  }
  file_ = memfd_create("device memory", MFD_CLOEXEC);
  Bytes size = kFile;
  while (file_ >= 0 && size > 1_GiB && ftruncate(file_, static_cast<off_t>(size)) != 0)
    size /= 2;
}

Space::~Space() {
  for (const Chunk& chunk : chunks_)
    munmap(reinterpret_cast<void*>(chunk.base), chunk.size);
  if (file_ >= 0) close(file_);
}

Address Space::reserve(Bytes bytes, Bytes alignment, Address hint) {
  if (hint != 0) return place(bytes, alignment, hint);
  if (reuse_ == AddressReuse::Lifo) {
    const auto found = freed_.find(bytes);
    if (found != freed_.end() && found->second.back() % alignment == 0) {
      const Address address = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) freed_.erase(found);
      return address;
    }
  }
  return fresh(bytes, alignment);
}

// An H200 (driver 580) takes the next free place where the hint's is taken.
Address Space::place(Bytes bytes, Bytes alignment, Address hint) {
  Address at = hint;
  for (const Chunk& each : placed_)
    if (at < each.base + each.size && each.base < at + bytes)
      at = align_up(each.base + each.size, alignment);
  if (at + bytes > kPlaceEnd) return 0;
  if (data_) {
    void* const wanted = reinterpret_cast<void*>(at);
    // ThreadSanitizer ends a program that insists on an address of its shadow.
    static const bool insists = dlsym(RTLD_DEFAULT, "__tsan_init") == nullptr;
    void* const got = reserve_pages(bytes, wanted, insists ? MAP_FIXED_NOREPLACE : 0);
    if (got == kFailed) return 0;
    if (got != wanted) {
      munmap(got, bytes);
      return 0;
    }
    chunks_.push_back({at, bytes});
  }
  placed_.push_back({at, bytes});
  std::sort(placed_.begin(), placed_.end(), [](const Chunk& a, const Chunk& b) {
    return a.base < b.base;
  });
  return at;
}

Address Space::fresh(Bytes bytes, Bytes alignment) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Address address = align_up(bump_, alignment);
    if (bump_ != 0 && address < end_ && bytes <= end_ - address) {
      // A hole between neighbours: an access past the end must not be somebody else's.
      bump_ = address + bytes + (bytes >= 2_MiB ? 2_MiB : 0);
      return address;
    }
    if (!data_) return 0;
    Bytes want = kChunk;
    while (want < bytes + alignment + 4_MiB)
      want *= 2;
    void* chunk = kFailed;
    while ((chunk = reserve_pages(want, nullptr, 0)) == kFailed && want > kSmallestChunk)
      want /= 2;
    if (chunk == kFailed) return 0;
    bump_ = reinterpret_cast<Address>(chunk);
    end_ = bump_ + want;
    chunks_.push_back({bump_, want});
    bump_ += 2_MiB;  // never the first byte of a mapping of ours
  }
  return 0;
}

void Space::give_back(Address address, Bytes bytes) {
  const auto is_it = [&](const Chunk& each) { return each.base == address; };
  if (std::erase_if(placed_, is_it) != 0) {
    if (data_ && std::erase_if(chunks_, is_it) != 0)
      munmap(reinterpret_cast<void*>(address), bytes);
    return;
  }
  if (reuse_ == AddressReuse::Lifo) freed_[bytes].push_back(address);
}

bool Space::owns(Address address) const {
  if (!data_ && address >= kNumbers && address < kNumbersEnd) return true;
  const auto holds = [&](const Chunk& each) {
    return address >= each.base && address - each.base < each.size;
  };
  return std::any_of(chunks_.begin(), chunks_.end(), holds) ||
         std::any_of(placed_.begin(), placed_.end(), holds);
}

std::uint64_t Space::make_physical(Bytes bytes) {
  const std::uint64_t physical = next_physical_;
  next_physical_ += align_up(bytes, 2_MiB);
  return physical;
}

void Space::drop_physical(std::uint64_t physical, Bytes bytes) {
  if (!data_) return;
  // The host gets its memory back. Where that fails there is only less of it.
  (void)!fallocate(file_,
                   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                   static_cast<off_t>(physical),
                   static_cast<off_t>(align_up(bytes, 4_KiB)));
}

bool Space::map(Address address, Bytes bytes, std::uint64_t physical, int file) {
  if (!data_) return true;
  return mmap(reinterpret_cast<void*>(address),
              align_up(bytes, 4_KiB),
              PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
              file >= 0 ? file : file_,
              static_cast<off_t>(physical)) != kFailed;
}

void Space::unmap(Address address, Bytes bytes) {
  if (!data_) return;
  reserve_pages(align_up(bytes, 4_KiB), reinterpret_cast<void*>(address), MAP_FIXED);
}

}  // namespace custash::sim
