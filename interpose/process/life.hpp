// SPDX-License-Identifier: MIT
// The steps of the state machine in process.hpp, taken by startup.cpp. No other file includes
// it.
#pragma once

#include "interpose/process/process.hpp"

namespace custash::process {

// Defined in startup.cpp: reads the options, builds the core and starts every part. Called
// once, by the thread that is Starting. Returns Running or Disabled.
State build();

// Makes the core and the cache of pinned memory in static storage; neither is ever destroyed.
// core() returns the core once build() has returned Running.
Allocator& make_core(const Driver& driver, const Config& config);

// The core that make_core() has made, whatever the state is; null before.
Allocator* made_core() noexcept;

// False in a forked child: its parent started the core, or tried to.
bool started_here() noexcept;

// At exit: Running becomes ShutDown, and core() returns null. False: it was not Running.
bool shut_down() noexcept;

// In a forked child: the state becomes Forked, and core() returns null. False: it is Disabled.
bool become_forked() noexcept;

}  // namespace custash::process
