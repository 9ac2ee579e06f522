// SPDX-License-Identifier: MIT
// Numbers and names of the driver entries, from entry_points.def.
#pragma once

#include <cstdint>

namespace custash::sim {

enum Symbol : std::uint16_t {

#define SIM_ENUM_One(number) number,
#define SIM_ENUM_Ptsz(number) number, number##_ptsz,
#define SIM_ENUM_Ptds(number) number, number##_ptds,
#define POINT(base, symbol, since, doors, failure) SIM_ENUM_##doors(k_##symbol)
#define ALIAS(base, symbol, since)
#include "tests/sim/entry_points.def"
  kSymbols
};

struct SymbolInfo {
  const char* base;
  const char* name;
  int since;
  bool per_thread;  // the _ptsz or _ptds form
  bool can_fail;
  void* address;
};

extern const SymbolInfo kSymbolTable[kSymbols];

}  // namespace custash::sim
