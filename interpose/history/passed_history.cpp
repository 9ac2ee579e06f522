// SPDX-License-Identifier: MIT
#include "interpose/history/passed_history.hpp"

#include "interpose/history/history.hpp"
#include "interpose/observe/observe.hpp"

namespace custash::passed {
namespace {

// The history knows memory by its address. No device has addresses as high as these.
Address stand_in(Kind kind, std::uint64_t object) {
  constexpr unsigned kBits = 49;  // of pointers; and a number in JSON has 53
  return (object & ((Address{1} << kBits) - 1)) | ((static_cast<Address>(kind) + 1) << kBits);
}

}  // namespace

void tell_made(Kind kind, std::uint64_t object, Bytes bytes) noexcept {
  if (bytes != 0 && observe::watched_by(observe::Watcher::History))
    history::allocated(observe::MemoryKind::Other, stand_in(kind, object), bytes, {});
}

void tell_ended(Kind kind, std::uint64_t object) noexcept {
  if (observe::watched_by(observe::Watcher::History))
    history::freed(stand_in(kind, object), {});
}

}  // namespace custash::passed
