// SPDX-License-Identifier: MIT
// `custash serve`: the numbers of all processes for Prometheus, over HTTP on the loopback
// address or in a file for node_exporter.
#pragma once

#include <string>

namespace custash::live {

inline constexpr int kUsualPort = 9838;

struct ServeOptions {
  int port = -1;         // -1: kUsualPort, or none where a file is written
  std::string textfile;  // empty: none
  double interval = 15;  // seconds between two files
  bool once = false;
  bool force = false;  // replace a file that custash did not write
};

// The exit code.
int run_serve(const ServeOptions& options);

}  // namespace custash::live
