// SPDX-License-Identifier: MIT
// Call: what one driver call names, whichever entry it is: its stream, kernel, addresses,
// handles. calls.cpp reads it from the arguments, by the entry's role in entry_points.def.
// Observers (observers.hpp) look at it before and after the call. Pure.
#pragma once

// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/node_params.hpp"
// clang-format on
#include "allocator/allocator.hpp"
#include "interpose/check/copy_rows.hpp"

#include <span>
#include <variant>

namespace custash::check {

struct Kernel {
  const void* function = nullptr;
  void** params = nullptr;
  void** extra = nullptr;
};

// The new parameters of an executable graph's node, where the program has them.
using NodeChange = std::variant<std::monostate,
                                const node_params::Kernel*,
                                const CUDA_KERNEL_NODE_PARAMS_v1*,
                                const CUDA_MEMCPY3D*,
                                const CUDA_MEMSET_NODE_PARAMS*,
                                CUgraph,
                                const node_params::Node*>;

struct Call {
  const Entry entry;
  const NullStream null;  // what a null stream means to the entry
  const Role role = role_of(entry);

  // ---- Work.
  bool is_submission = false;
  bool waits = false;  // it names no stream
  CUstream stream = nullptr;
  Kernel kernel;
  const CUlaunchConfig* config = nullptr;       // of Role::LaunchEx
  std::span<const CUDA_LAUNCH_PARAMS> kernels;  // of Role::LaunchOnDevices

  // ---- Copies and memsets. `first` and `second`: the addresses of the row in
  // entry_points.def.
  Address first = 0;
  Address second = 0;
  copy_rows::Rows target;
  copy_rows::Rows source;
  std::span<const CUdeviceptr> targets;  // of a batch
  std::span<const CUdeviceptr> sources;
  bool is_empty = false;
  bool is_visible = true;  // the host may see the effect; asked for only if check_streams is on

  // ---- Handles. `context` and `other`: of the two sides of a copy between devices.
  CUcontext context = nullptr;
  CUcontext other = nullptr;
  CUevent event = nullptr;
  CUgraphExec executable = nullptr;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  bool node_is_on = false;
  NodeChange change;

  [[nodiscard]] const char* name() const { return name_of(entry); }

  [[nodiscard]] bool is_wait() const {
    return is_between(role, Role::SyncContext, Role::QueryEvent);
  }
};

inline const Config* config = nullptr;  // lives as long as the process

// Puts the observers before the driver's functions of the calls that they want. Once, when the
// table of real functions is filled and the observers have begun.
void observe_calls();

}  // namespace custash::check
