// SPDX-License-Identifier: MIT
// PinnedBed: the core and a HostCache over the simulated driver, used as the hooks use them.
#pragma once

#include "pinned/host_cache.hpp"
#include "tests/unit/bed.hpp"

#include <vector>

namespace custash {

inline Address at(const void* buffer) {
  return reinterpret_cast<Address>(buffer);
}

struct PinnedBed : Bed {
  explicit PinnedBed(const sim::Options& options = {}, const Config& config = vmm())
      : Bed(options, config) {
    // Never destroyed, as in the product; kept where a leak checker sees it.
    static auto& all = *new std::vector<HostCache*>;
    pinned = all.emplace_back(new HostCache(sim.driver(), allocator->config(), *allocator));
  }

  ~PinnedBed() { CHECK(pinned->validate()); }

  void* host(Bytes bytes, unsigned flags = 0) {
    void* out = nullptr;
    CUcontext context = nullptr;
    REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    REQUIRE(pinned->allocate(context, bytes, flags, &out).ok());
    REQUIRE(out != nullptr);
    return out;
  }

  void free_host(void* buffer) {
    const auto status = pinned->free(buffer);
    REQUIRE(status.has_value());
    REQUIRE(status->ok());
  }

  // Behind the streams that were named.
  void release(void* buffer) { REQUIRE(pinned->free_behind_streams(buffer)->ok()); }

  void name_stream(void* buffer, CUstream stream) {
    REQUIRE(pinned->record_stream(buffer, stream, NullStream::Legacy).ok());
  }

  // Asynchronously, as the hook of cuMemcpyHtoDAsync does it; the operation.
  sim::OpId copy_from(const void* buffer, CUstream stream, Address to, Bytes bytes) {
    Submission submission(*allocator, stream, NullStream::Legacy, SubmissionKind::Hidden, to);
    const CUresult result = cuMemcpyHtoDAsync(to, buffer, bytes, stream);
    submission.done(result);
    REQUIRE(result == CUDA_SUCCESS);
    return sim::last_op(stream);
  }

  HostStats host_stats() { return pinned->stats(); }

  HostCache* pinned = nullptr;
};

}  // namespace custash
