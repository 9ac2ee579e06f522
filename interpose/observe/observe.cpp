// SPDX-License-Identifier: MIT
#include "interpose/observe/observe.hpp"

#include "allocator/base/thread.hpp"
#include "interpose/observe/dumps.hpp"
#include "interpose/observe/guard_report.hpp"
#include "interpose/observe/history.hpp"
#include "interpose/observe/launcher.hpp"
#include "interpose/observe/record.hpp"
#include "interpose/observe/stream_report.hpp"
#include "interpose/process/captures.hpp"

namespace custash::observe {

constinit std::atomic<unsigned> watchers{0};

namespace {

bool makes_node(const Stream& stream) {
  return stream.named && captures::under_way();
}

// Whether anything but the counters, which call nothing that waits, looks on.
bool watched_closely() {
  return (watchers.load(std::memory_order_relaxed) &
          ~static_cast<unsigned>(Watcher::Counters)) != 0;
}

}  // namespace

void begin(Watcher watcher) noexcept {
  watchers.fetch_or(static_cast<unsigned>(watcher));
}

void end(Watcher watcher) noexcept {
  watchers.fetch_and(~static_cast<unsigned>(watcher));
}

void allocated(MemoryKind memory, Address address, Bytes bytes, Stream stream) noexcept {
  if (bytes == 0) return;
  if (watched_by(Watcher::Counters) && !makes_node(stream)) launcher::allocated(memory);
  if (!watched_closely()) return;
  const CancellationOff off;
  if (watched_by(Watcher::Streams) && memory == MemoryKind::Device)
    streams::allocated(address, bytes, stream);
  if (makes_node(stream)) return;
  if (watched_by(Watcher::Record)) record::allocated(memory, address, bytes, stream);
  if (watched_by(Watcher::History)) history::allocated(memory, address, bytes, stream);
  if (watched_by(Watcher::Guards)) guards::allocated(memory, address, bytes, stream);
}

void freed(MemoryKind memory, Address address, Stream stream) noexcept {
  if (address == 0) return;
  if (watched_by(Watcher::Counters) && !makes_node(stream)) launcher::freed(memory);
  if (!watched_closely()) return;
  const CancellationOff off;
  if (watched_by(Watcher::Streams)) streams::freed(memory, address, stream);
  if (makes_node(stream)) return;
  if (watched_by(Watcher::Record)) record::freed(memory, address, stream);
  if (watched_by(Watcher::History)) history::freed(address, stream);
  if (watched_by(Watcher::Guards)) guards::freed(address);
}

void free_refused(Address address) noexcept {
  const CancellationOff off;
  if (watched_by(Watcher::Guards)) guards::free_refused(address);
  if (watched_by(Watcher::Streams)) streams::free_refused(address);
}

void refused(MemoryKind memory, Bytes bytes, Stream stream) noexcept {
  const CancellationOff off;
  if (watched_by(Watcher::History)) history::refused(memory, bytes, stream);
  if (watched_by(Watcher::Counters)) launcher::refused();
  if (memory == MemoryKind::Device) dumps::out_of_memory();
}

}  // namespace custash::observe
