// SPDX-License-Identifier: MIT
// libcuda.so.1 with each entry of entry_points.def, and no more: it notes what it is called
// with.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/entry_points.hpp"
// clang-format on
#include "tests/process/forwards/arguments.hpp"

#include <type_traits>

extern "C" __attribute__((visibility("default"))) forwards::Seen forwards_seen;
forwards::Seen forwards_seen;

namespace {

// By the types alone: entry_points.def's own list of arguments is what is tested.
template <custash::Entry kEntry, typename Function>
struct Noted;

template <custash::Entry kEntry, typename... Params>
struct Noted<kEntry, CUresult(Params...)> {
  static CUresult call(Params... params) {
    forwards_seen.entry = custash::kEntryNames[static_cast<std::size_t>(kEntry)];
    forwards_seen.arguments = forwards::bytes_of(params...);
    return static_cast<CUresult>(forwards_seen.answer);
  }
};

}  // namespace

// The exported name is bound to that function by the loader (an indirect function).
#define NOTE_One(symbol, params)                                                         \
  extern "C" __attribute__((used)) std::add_pointer_t<CUresult params> find_##symbol() { \
    return &Noted<custash::Entry::hook_##symbol, CUresult params>::call;                 \
  }                                                                                      \
  CUresult noted_##symbol params __asm__(#symbol)                                        \
      __attribute__((visibility("default"), ifunc("find_" #symbol)));
#define NOTE_Ptsz(symbol, params) NOTE_One(symbol, params) NOTE_One(symbol##_ptsz, params)
#define NOTE_Ptds(symbol, params) NOTE_One(symbol, params) NOTE_One(symbol##_ptds, params)
#define ENTRY(symbol, forms, role, params) NOTE_##forms(symbol, params)
#include "interpose/real/entry_points.def"
