// SPDX-License-Identifier: MIT
// Entry: one number for each driver symbol of entry_points.def, in its order; and our wrappers,
// one function each, declared under their exported name. They are called hook_<symbol> here, so
// that cuda.h's renaming macros and its own declarations, which differ from toolkit to toolkit,
// cannot touch them. No state.
#pragma once

// cuda.h without its renaming macros (set by meson.build too, for files that include cuda.h
// before).
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#ifdef cuMemAlloc
#error "cuda.h was included before, with its renaming macros"
#endif

#include <array>
#include <cstddef>

// A wrapper: C linkage name, seen from outside.
#define CUSTASH_HOOK(hook, name, params) \
  CUresult hook params noexcept __asm__(name) __attribute__((visibility("default")))

namespace custash {

enum class Entry : unsigned short {
#define ENTRY_One(hook) hook,
#define ENTRY_Ptsz(hook) hook, hook##_ptsz,
#define ENTRY_Ptds(hook) hook, hook##_ptds,
#define ENTRY(symbol, forms, params) ENTRY_##forms(hook_##symbol)
#include "interpose/real/entry_points.def"
#undef ENTRY_One
#undef ENTRY_Ptsz
#undef ENTRY_Ptds
  Count
};

inline constexpr std::size_t kEntryCount = static_cast<std::size_t>(Entry::Count);

inline constexpr std::array<const char*, kEntryCount> kEntryNames = {
#define ENTRY_One(name) name,
#define ENTRY_Ptsz(name) name, name "_ptsz",
#define ENTRY_Ptds(name) name, name "_ptds",
#define ENTRY(symbol, forms, params) ENTRY_##forms(#symbol)
#include "interpose/real/entry_points.def"
#undef ENTRY_One
#undef ENTRY_Ptsz
#undef ENTRY_Ptds
};

#define ENTRY_One(hook, name, params) CUSTASH_HOOK(hook, name, params);
#define ENTRY_Ptsz(hook, name, params) \
  CUSTASH_HOOK(hook, name, params);    \
  CUSTASH_HOOK(hook##_ptsz, name "_ptsz", params);
#define ENTRY_Ptds(hook, name, params) \
  CUSTASH_HOOK(hook, name, params);    \
  CUSTASH_HOOK(hook##_ptds, name "_ptds", params);
#define ENTRY(symbol, forms, params) ENTRY_##forms(hook_##symbol, #symbol, params)
#include "interpose/real/entry_points.def"
#undef ENTRY_One
#undef ENTRY_Ptsz
#undef ENTRY_Ptds

}  // namespace custash
