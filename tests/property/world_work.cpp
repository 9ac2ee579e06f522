// SPDX-License-Identifier: MIT
// Work of a program that runs: kernels and copies.
#include "tests/property/world.hpp"

#include <algorithm>
#include <utility>

namespace custash::property {

CUresult World::kernel(const Command& c, CUstream stream) {
  sim::Kernel kernel{.needs_flag = c.needs, .sets_flag = c.sets};
  const int origin = origin_of(c);
  for (const Use& use : c.uses) {
    const BlockObject* found = block(use.block);
    if (found == nullptr) continue;  // the program was shrunk
    kernel.accesses.push_back({found->address + use.offset, use.bytes, use.write});
    if (origin >= 0) captured_[origin].push_back(use.block);
  }
  if (c.flags == 1) {
    return door_->submit_early(stream, [&](bool may) {
      kernel.early = may;
      return sim::launch(stream, kernel);
    });
  }
  const auto call = [&] { return sim::launch(stream, std::move(kernel)); };
  // The parameters of some cannot be read.
  if (!c.uses.empty() && c.uses.front().block % 4 == 0)
    return door_->submit(stream, SubmissionKind::Hidden, 0, 0, call);
  std::vector<Address> named;
  for (const Use& use : c.uses)
    if (const BlockObject* found = block(use.block)) named.push_back(found->address);
  return door_->submit_named(stream, named, call);
}

CUresult World::copy(const Command& c, CUstream stream) {
  if (c.op == Op::HostFunction) {
    const CUresult result = door_->submit(stream, SubmissionKind::Visible, 0, 0, [&] {
      return cuLaunchHostFunc(
          stream, [](void*) {}, nullptr);
    });
    note_visible(c.context, stream);
    return result;
  }
  const BlockObject* target = block(c.block);
  if (target == nullptr) return CUDA_SUCCESS;
  const Address address = target->address;
  if (c.op == Op::Memset) {
    return door_->submit(stream, SubmissionKind::Hidden, 0, 0, [&] {
      return cuMemsetD8Async(address, 1, target->bytes, stream);
    });
  }
  if (c.op == Op::CopyBlock) {
    const BlockObject* source = block(c.other);
    if (source == nullptr) return CUDA_SUCCESS;
    const Address from = source->address;
    return door_->submit(stream, SubmissionKind::Hidden, address, from, [&] {
      if (c.flags == 1) return cuMemcpyAsync(address, from, c.bytes, stream);
      if (source->context == target->context)
        return cuMemcpyDtoDAsync(address, from, c.bytes, stream);
      return cuMemcpyPeerAsync(address,
                               contexts_[target->context],
                               from,
                               contexts_[source->context],
                               c.bytes,
                               stream);
    });
  }
  void* host = hosts_[static_cast<std::size_t>(c.other)];
  const Bytes bytes = std::min<Bytes>(target->bytes, kHostBufferBytes);
  if (c.op == Op::CopyFromHost) {
    return door_->submit(stream, SubmissionKind::Hidden, address, 0, [&] {
      return cuMemcpyHtoDAsync(address, host, bytes, stream);
    });
  }
  const CUresult result = door_->submit(stream, SubmissionKind::Visible, 0, address, [&] {
    return cuMemcpyDtoHAsync(host, address, bytes, stream);
  });
  note_visible(c.context, stream);
  return result;
}

}  // namespace custash::property
