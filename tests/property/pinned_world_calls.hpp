// SPDX-License-Identifier: MIT
// How a PinnedWorld makes its calls; for its own source files.
#pragma once

#include "allocator/submission.hpp"
#include "tests/property/pinned_world.hpp"
#include "tests/property/program.hpp"

namespace custash::property {

template <typename Call>
auto PinnedWorld::ours(const Call& call) {
  before_ours();
  auto result = call();
  after_ours();
  return result;
}

template <typename Call>
CUresult PinnedWorld::submit(CUstream stream,
                             SubmissionKind view,
                             Address touched,
                             const Call& call) {
  if (core_ == nullptr) return call();
  before_ours();
  Submission submission(*core_, stream, NullStream::Legacy, view, touched);
  after_ours();
  const CUresult result = call();
  before_ours();
  submission.done(result);
  after_ours();
  return result;
}

}  // namespace custash::property
