// SPDX-License-Identifier: MIT
#include "allocator/graph_memory.hpp"

#include "allocator/base/thread.hpp"
#include "allocator/registry.hpp"

namespace custash {

void GraphMemory::made(const void* handle, const void* from) {
  core_.state_->release(core_.state_->captures.replace(handle, from));
}

void GraphMemory::contains(const void* graph, const void* part) {
  core_.state_->captures.add(graph, part);
}

void GraphMemory::node_changes() {
  if (core_.captures_open() != 0) core_.state_->captures.takes_in({.thread = thread_number()});
}

GraphMemory::Leaving GraphMemory::leaves(const void* handle) {
  return core_.state_->captures.take(handle);
}

void GraphMemory::destroyed(const Leaving& leaving) {
  core_.state_->release(core_.state_->captures.drop(leaving));
}

void GraphMemory::stays(const void* handle, const Leaving& leaving) {
  core_.state_->captures.put_back(handle, leaving);
}

}  // namespace custash
