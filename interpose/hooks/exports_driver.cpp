// SPDX-License-Identifier: MIT
// The exported driver names: one function for each row and form of entry_points.def.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/doors.hpp"
// clang-format on
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/host_view.hpp"
#include "interpose/hooks/observe_doors.hpp"
#include "interpose/process/callers.hpp"

namespace custash {

using namespace views;  // NOLINT: entry_points.def is written in these words

#define IN_PARENTHESES(...) __VA_ARGS__

#define ALL_FORMS_One(macro, door, ...) macro(door, Legacy, __VA_ARGS__)
#define ALL_FORMS_Ptsz(macro, door, ...) \
  macro(door, Legacy, __VA_ARGS__) macro(door##_ptsz, PerThread, __VA_ARGS__)
#define ALL_FORMS_Ptds(macro, door, ...) \
  macro(door, Legacy, __VA_ARGS__) macro(door##_ptds, PerThread, __VA_ARGS__)

#define SUBMIT_DOOR(door, null, stream, view, first, second, params, args) \
  CUresult door params noexcept {                                          \
    return doors::submit(                                                  \
        real::function<CUresult params>(Entry::door),                      \
        NullStream::null,                                                  \
        stream,                                                            \
        [&]([[maybe_unused]] Allocator& core) { return view; },            \
        first,                                                             \
        second,                                                            \
        [&](auto* real) { return real args; });                            \
  }
#define SUBMISSION(symbol, forms, stream, view, first, second, params, args) \
  ALL_FORMS_##forms(SUBMIT_DOOR, door_##symbol, stream, view, first, second, params, args)

#define RELIEF_DOOR(door, null, params, args)                                         \
  CUresult door params noexcept {                                                     \
    const auto call = [&] {                                                           \
      return doors::with_relief(real::function<CUresult params>(Entry::door),         \
                                [&](auto* real) { return real args; });               \
    };                                                                                \
    return observe::around<Entry::door, NullStream::null>(call, IN_PARENTHESES args); \
  }
#define RELIEF(symbol, forms, params, args) \
  ALL_FORMS_##forms(RELIEF_DOOR, door_##symbol, params, args)

#define LISTENED_DOOR(door, null, params, args)                          \
  CUresult door params noexcept {                                        \
    return doors::listened(real::function<CUresult params>(Entry::door), \
                           [&](auto* real) { return real args; });       \
  }
#define LISTENED(symbol, forms, params, args) \
  ALL_FORMS_##forms(LISTENED_DOOR, door_##symbol, params, args)

#define HANDLED_DOOR(door, null, handler, params, args)                                     \
  CUresult door params noexcept {                                                           \
    callers::current = __builtin_return_address(0);                                         \
    const auto call = [&] {                                                                 \
      return doors::handled(real::function<CUresult params>(Entry::door), [&](auto* real) { \
        return handlers::handler(real, NullStream::null, IN_PARENTHESES args);              \
      });                                                                                   \
    };                                                                                      \
    return observe::around<Entry::door, NullStream::null>(call, IN_PARENTHESES args);       \
  }
#define HANDLED(symbol, forms, handler, params, args) \
  ALL_FORMS_##forms(HANDLED_DOOR, door_##symbol, handler, params, args)

#include "interpose/real/entry_points.def"

}  // namespace custash
