// SPDX-License-Identifier: MIT
// Who else reaches memory in a program that runs: other devices, other processes, cards.
#include "tests/property/world.hpp"

namespace custash::property {

CUresult World::peers(const Command& c) {
  const auto found = contexts_.find(c.other);
  if (found == contexts_.end()) return CUDA_SUCCESS;
  if (c.op == Op::EnablePeer) {
    const CUresult result = cuCtxEnablePeerAccess(found->second, 0);
    if (result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return CUDA_SUCCESS;  // shrunk
    if (result == CUDA_SUCCESS) door_->peer_enabled(found->second, contexts_[c.context]);
    return result;
  }
  const CUresult result = cuCtxDisablePeerAccess(found->second);
  return result == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED ? CUDA_SUCCESS : result;
}

CUresult World::sharing(const Command& c) {
  const BlockObject* live = block(c.block);
  const auto open = open_.find(c.block);
  switch (c.op) {
    case Op::Share: {
      if (live == nullptr || open != open_.end()) return CUDA_SUCCESS;
      const CUresult result = door_->share(c.block, live->address);
      if (result == CUDA_SUCCESS)
        open_[c.block] = {*live, false, sim::translate(live->address, live->bytes)};
      return result;
    }
    case Op::Leave:
      return live == nullptr ? CUDA_SUCCESS : door_->leave(live->address);
    case Op::Unshare:
      end_sharing(c.block);
      return CUDA_SUCCESS;
    default:
      break;
  }
  // It is told by this thread, and has ended before the thread goes on. What was freed has
  // other memory by now, or none.
  if (live != nullptr)
    detector_.on_host_access(sim::this_thread(), live->address, live->bytes, true);
  return CUDA_SUCCESS;
}

void World::end_sharing(int id) {
  const auto open = open_.find(id);
  if (open == open_.end()) return;
  open_.erase(open);
  door_->unshare(id);
}

}  // namespace custash::property
