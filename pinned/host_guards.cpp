// SPDX-License-Identifier: MIT
#include "pinned/host_guards.hpp"

#include "allocator/base/log.hpp"
#include "allocator/base/rule.hpp"
#include "pinned/first_touch.hpp"

#include <cstring>
#include <optional>
#include <string>

#include <sys/mman.h>

namespace custash {
namespace {

constexpr unsigned char kPattern = 0xa7;
constexpr unsigned char kFill = 0xff;  // no number, where it is floating point

const unsigned char* bytes_at(Address address) {
  return reinterpret_cast<const unsigned char*>(address);
}

// The byte next to the buffer that was written.
std::optional<SlackWrite> written(const HostMemoryRange& pages, Bytes requested) {
  SlackWrite what{pages.base, requested, 0, true};
  const Address end = pages.base + requested;
  for (Address at = end; at < pages.end(); ++at)
    if (*bytes_at(at) != kPattern) return what.distance = at - end + 1, what;
  what.past = false;
  for (Address at = pages.base; at-- > pages.first_page();)
    if (*bytes_at(at) != kPattern) return what.distance = pages.base - at, what;
  return std::nullopt;
}

}  // namespace

void HostGuards::begin(const HostMemoryRange& pages,
                       Bytes requested,
                       const Driver& driver,
                       Nanoseconds since) {
  const Address end = pages.base + requested;
  std::memset(pointer(pages.first_page()), kPattern, pages.lead);
  std::memset(pointer(end), kPattern, pages.end() - end);
  if (config_.guard_fill) std::memset(pointer(pages.base), kFill, requested);
  const Nanoseconds now = driver.now();
  Lock lock(mutex_);
  took(now - since);
}

void HostGuards::no_room_for(Bytes bytes) {
  bool first = false;
  {
    Lock lock(mutex_);
    first = stats_.num_unguarded++ == 0;
  }
  if (first)
    log(LogLevel::Warn,
        "event=guard_no_room memory=pinned bytes=" + std::to_string(bytes) +
            " effect=\"buffers without guards\"");
}

void HostGuards::look(const HostMemoryRange& pages, Bytes requested) {
  const auto what = written(pages, requested);
  if (!what) return;
  ++stats_.num_overwritten;
  if (config_.guard.tell != nullptr) found_.push_back(*what);
}

void HostGuards::put_to_rest(const HostMemoryRange& pages, Bytes requested) {
  look(pages, requested);
  // Its work is over. On some machines the device uses the host's page tables.
  (void)::mprotect(pointer(pages.first_page()), pages.end() - pages.first_page(), PROT_NONE);
}

void HostGuards::tell() {
  std::vector<SlackWrite> found;
  {
    Lock lock(mutex_);
    found.swap(found_);
  }
  for (const SlackWrite& what : found)
    config_.guard.tell(what);
}

}  // namespace custash
