// SPDX-License-Identifier: MIT
// `custash top`: looks, prints, waits, until q is pressed, standard output is gone, or once.
#pragma once

#include <string>

namespace custash::live {

struct TopOptions {
  bool once = false;
  bool json = false;
  double delay = 1;  // seconds
  std::string sort;  // a column's word; empty: the usual one
};

// The exit code.
int run_top(const TopOptions& options);

}  // namespace custash::live
