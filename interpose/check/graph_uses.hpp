// SPDX-License-Identifier: MIT
// Graph uses: which addresses the nodes of each executable graph name, for StreamReport. They
// are read when the executable is made, and anew when it is changed. Without option
// check_streams no call comes by here. State: the executables. Own lock, never held across a
// call to the driver.
#pragma once

// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/node_params.hpp"
// clang-format on
#include "interpose/check/stream_report.hpp"

namespace custash::graph_uses {

// Once, when the table of real functions is filled.
void begin();

// ---- What the program has done to an executable.
void made(CUgraphExec executable, CUgraph graph);
void updated(CUgraphExec executable, CUgraph graph);
void changed(CUgraphExec executable, CUgraphNode node, const node_params::Kernel& to);
void changed(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D& to);
void changed(CUgraphExec executable, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS& to);
void changed(CUgraphExec executable, CUgraphNode node, CUgraph to);
void changed(CUgraphExec executable, CUgraphNode node, const node_params::Node& to);
void switched(CUgraphExec executable, CUgraphNode node, bool on);
void launched(streams::Chain chain, CUgraphExec executable);
// It ends, or nothing is known of it any more.
void forget(CUgraphExec executable);

// In a forked child: a thread of the parent that held the lock does not exist here.
void reset_lock_after_fork() noexcept;

}  // namespace custash::graph_uses
