// SPDX-License-Identifier: MIT
#include "interpose/process/limit_group.hpp"

#include "allocator/base/log.hpp"
#include "interpose/process/live_page.hpp"
#include "interpose/process/output_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash::limit_group {
namespace {

constexpr std::size_t kMembers = 64;
constexpr std::size_t kSize = kMembers * sizeof(QuotaShare);
// The owner's number is that of the process which empties the share.
constexpr std::uint64_t kEmptying = 1ULL << 32U;

bool is_dead(const QuotaShare& share, std::uint64_t owner) {
  if (owner == 0 || share.names.load() != live::pid_namespace()) return false;
  return live::has_ended(static_cast<pid_t>(owner),
                         owner > kEmptying ? 0 : share.started.load());
}

// One process alone empties a share, so that no share of its next owner is emptied.
void empty(QuotaShare& share, std::uint64_t owner) {
  if (!share.owner.compare_exchange_strong(owner,
                                           kEmptying | static_cast<std::uint64_t>(getpid())))
    return;
  share.charged.store(0);
  share.found.store(0);
  share.started.store(0);
  share.owner.store(0);
}

void free_shares_of_the_dead(std::span<QuotaShare> shares) {
  for (QuotaShare& share : shares)
    if (const std::uint64_t owner = share.owner.load(); is_dead(share, owner))
      empty(share, owner);
}

QuotaShare* own_of(std::span<QuotaShare> shares) {
  const auto self = static_cast<std::uint64_t>(getpid());
  const std::uint64_t started = live::start_of(getpid());
  // What the process has left that became this one by exec, too.
  for (QuotaShare& share : shares)
    if (share.owner.load() == self && share.started.load() == started &&
        share.names.load() == live::pid_namespace())
      empty(share, self);
  free_shares_of_the_dead(shares);
  for (QuotaShare& share : shares) {
    std::uint64_t nobody = 0;
    if (!share.owner.compare_exchange_strong(nobody, self)) continue;
    share.names.store(live::pid_namespace());
    share.started.store(started);
    return &share;
  }
  return nullptr;
}

// Null where there is none.
QuotaShare* map(const std::string& path) {
  struct stat info {};

  const int file = output::open_shared(path.c_str());
  void* memory = MAP_FAILED;
  if (file >= 0 && output::reserve(file, 0, kSize) == 0 && fstat(file, &info) == 0 &&
      info.st_size == static_cast<off_t>(kSize))
    memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) ::close(file);
  if (memory == MAP_FAILED) return nullptr;
  (void)madvise(memory, kSize, MADV_DONTFORK);
  return static_cast<QuotaShare*>(memory);
}

}  // namespace

Quota::Group join(const std::string& group, const std::string& device) {
  const std::string path = std::string(live::kFolder) + "/custash-limit." +
                           std::to_string(geteuid()) + "." + group + "." + device;
  Quota::Group made{.free_shares_of_the_dead = free_shares_of_the_dead};
  if (QuotaShare* const first = map(path)) {
    made.shares = {first, kMembers};
    made.own = own_of(made.shares);
    if (made.own == nullptr) munmap(first, kSize);
  }
  if (made.own == nullptr)
    log(LogLevel::Warn,
        "event=no_limit_group file=" + path + " reason=\"no room, or not ours\"");
  return made;
}

}  // namespace custash::limit_group
