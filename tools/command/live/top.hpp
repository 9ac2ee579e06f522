// SPDX-License-Identifier: MIT
// `custash top`: looks, prints, waits, until q is pressed, standard output is gone, or once.
#pragma once

namespace custash::live {

struct TopOptions {
  bool once = false;
  bool json = false;
  double delay = 1;  // seconds
};

// The exit code.
int run_top(const TopOptions& options);

}  // namespace custash::live
