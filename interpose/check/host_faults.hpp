// SPDX-License-Identifier: MIT
// HostFaults: the host's own accesses to guarded pinned memory, outside of a buffer or after
// its free. They end in SIGSEGV. The handler reports such a one and passes it on: the program
// ends or goes on as it would without custash. A handler that the program sets later hides this
// one.
#pragma once

namespace custash::guards {

// From now on. False: the system refuses.
bool heed_host_faults() noexcept;

}  // namespace custash::guards
