// SPDX-License-Identifier: MIT
// Random programs. What they are made of is drawn once for each program (a Style), so that some
// are all small blocks on one stream and some are large ones on many.
#pragma once

#include "tests/property/program.hpp"

namespace custash::property {

struct Style {
  int threads = 1;
  bool synced = true;
  int commands = 50;
  int contexts = 1;          // primary ones in use
  int created_contexts = 0;  // made and ended in the middle
  bool legacy = true;
  bool per_thread = true;
  bool streams_end = true;  // streams are destroyed in the middle
  int max_streams = 4;
  bool green = false;  // some streams are of green contexts
  bool captures = true;
  bool forks = false;           // captures over several streams and contexts
  bool capture_memory = false;  // blocks allocated and freed on streams that capture
  bool spent_graphs = false;    // memory of graphs that stay is freed
  bool peers = false;           // kernels reach memory of other devices
  bool early = false;           // kernels that may begin before the one in front has ended
  bool shared = false;          // blocks that other processes and cards use
  bool threads_end = false;     // and others take their place
  Bytes memory = 0;             // of a device that is nearly full; 0: there is plenty
  bool mutual = true;           // pairs of kernels that need each other
  bool host_view = true;        // copies to the host, host functions
  bool stream_ordered = true;
  bool cross = true;  // copies between contexts
  bool trims = true;
  bool nested =
      false;  // threads overtake each other inside driver calls (not synced, no legacy stream)
  bool lazy = false;       // the device is seldom told to run
  int turns = 25;          // how often another thread goes on, of 100
  int ordered_share = 30;  // stream-ordered calls, of 100
  int syncs = 2;           // how often the host waits, of 10
  int reuse_share = 0;     // blocks freed under a kernel, had again and used by others, of 100
  int capture_share = 0;   // captures and graphs beyond what comes up by chance, of 100
  int other_share = 0;     // the same of contexts, peers, sharing and ends of threads
  std::vector<Bytes> sizes = {};
  // Of programs with pinned memory:
  bool resets = false;               // primary contexts are reset
  bool released = false;             // custash_host_free beside cudaFreeHost
  bool copies_out = true;            // else only the device reads
  std::vector<unsigned> flags = {};  // of allocations
};

Style random_style(std::uint64_t seed);
Style random_pinned_style(std::uint64_t seed);
Program generate(std::uint64_t seed);
Program generate_pinned(std::uint64_t seed);

}  // namespace custash::property
