// SPDX-License-Identifier: MIT
// What the driver does once in a process: cuInit, and what it hangs on it in the form of
// libcuda.
#pragma once

namespace custash::sim {

// Run by the first successful cuInit, after the lock is let go. Null in unit tests.
extern void (*after_init)();

// Only in libcuda: hangs a race detector on this process's world (detector_door.cpp).
void start_detector();

void set_deinitialised();  // from now on every call answers 4

}  // namespace custash::sim
