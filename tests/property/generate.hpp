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
  int contexts = 1;  // primary ones in use
  bool created_context = false;
  bool legacy = true;
  bool per_thread = true;
  bool streams_end = true;  // streams are destroyed in the middle
  int max_streams = 4;
  bool captures = true;
  bool mutual = true;     // pairs of kernels that need each other
  bool host_view = true;  // copies to the host, host functions
  bool stream_ordered = true;
  bool cross = true;  // copies between contexts
  bool trims = true;
  bool nested =
      false;  // threads overtake each other inside driver calls (not synced, no legacy stream)
  bool lazy = false;       // the device is seldom told to run
  int turns = 25;          // how often another thread goes on, of 100
  int ordered_share = 30;  // stream-ordered calls, of 100
  int syncs = 2;           // how often the host waits, of 10
  std::vector<Bytes> sizes = {};
};

Style random_style(std::uint64_t seed);
Program generate(std::uint64_t seed, const Style& style);
Program generate(std::uint64_t seed);

}  // namespace custash::property
