// SPDX-License-Identifier: MIT
// What parameters.cpp and its kernels agree on.
#pragma once

struct ByValue {
  double before[3];
  void* nested[4];
  char after[8];
};

constexpr unsigned char kLate = 0x11;
