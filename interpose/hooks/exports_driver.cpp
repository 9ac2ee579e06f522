// SPDX-License-Identifier: MIT
// The exported driver names: one function for each row and form of entry_points.def.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "interpose/hooks/charges.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/host_view.hpp"
#include "interpose/hooks/observe_hooks.hpp"
#include "interpose/process/callers.hpp"
#include "interpose/real/entry_points.hpp"

namespace custash {

using namespace views;  // NOLINT: entry_points.def is written in these words

#define SUBMIT_HOOK(hook, null, stream, view, first, second, params, args)                 \
  CUresult hook params noexcept {                                                          \
    return hooks::submit<role_of(Entry::hook)>(                                            \
        real::function<CUresult params>(Entry::hook),                                      \
        NullStream::null,                                                                  \
        stream,                                                                            \
        [&]([[maybe_unused]] Allocator& core) { return view; },                            \
        first,                                                                             \
        second,                                                                            \
        [&](std::vector<Address>* named) {                                                 \
          return call_names::read<Entry::hook>(named, first, second, IN_PARENTHESES args); \
        },                                                                                 \
        [&](auto* real) { return real args; });                                            \
  }
#define SUBMISSION(symbol, forms, role, stream, view, first, second, params, args) \
  ALL_FORMS_##forms(SUBMIT_HOOK, hook_##symbol, stream, view, first, second, params, args)

#define RELIEF_HOOK(hook, null, params, args)                                         \
  CUresult hook params noexcept {                                                     \
    const auto call = [&] {                                                           \
      const CUresult result =                                                         \
          hooks::retry_after_trim(real::function<CUresult params>(Entry::hook),       \
                                  [&](auto* real) { return real args; });             \
      charges::changes_unseen();                                                      \
      return result;                                                                  \
    };                                                                                \
    return observe::around<Entry::hook, NullStream::null>(call, IN_PARENTHESES args); \
  }
#define RELIEF(symbol, forms, role, params, args) \
  ALL_FORMS_##forms(RELIEF_HOOK, hook_##symbol, params, args)

#define LISTENED_HOOK(hook, null, params, args)                                  \
  CUresult hook params noexcept {                                                \
    constexpr bool kWaits =                                                      \
        is_between(role_of(Entry::hook), Role::SyncContext, Role::SyncEvent);    \
    return hooks::observed<kWaits>(real::function<CUresult params>(Entry::hook), \
                                   [&](auto* real) { return real args; });       \
  }
#define LISTENED(symbol, forms, role, params, args) \
  ALL_FORMS_##forms(LISTENED_HOOK, hook_##symbol, params, args)

#define AWAKE_HOOK(hook, null, params, args)                                        \
  CUresult hook params noexcept {                                                   \
    return hooks::handled<true>(                                                    \
        real::function<CUresult params>(Entry::hook),                               \
        [&](auto* real) { return hooks::while_awake([&] { return real args; }); }); \
  }
#define AWAKE(symbol, forms, role, params, args) \
  ALL_FORMS_##forms(AWAKE_HOOK, hook_##symbol, params, args)

#define ANSWERED_HOOK(hook, null, answer, params, args)                                      \
  CUresult hook params noexcept {                                                            \
    callers::current = __builtin_return_address(0);                                          \
    const auto call = [&] {                                                                  \
      return hooks::handled<!observe::is_watched(role_of(Entry::hook))>(                     \
          real::function<CUresult params>(Entry::hook), [&](auto* real) { return answer; }); \
    };                                                                                       \
    return observe::around<Entry::hook, NullStream::null>(call, IN_PARENTHESES args);        \
  }

#define HANDLED_HOOK(hook, null, handler, params, args)                         \
  ANSWERED_HOOK(hook,                                                           \
                null,                                                           \
                handlers::handler(real, NullStream::null, IN_PARENTHESES args), \
                params,                                                         \
                args)
#define HANDLED(symbol, forms, role, handler, params, args) \
  ALL_FORMS_##forms(HANDLED_HOOK, hook_##symbol, handler, params, args)

#define NOTED_HOOK(hook, null, note, params, args)                                         \
  ANSWERED_HOOK(hook,                                                                      \
                null,                                                                      \
                hooks::while_awake([&] {                                                   \
                  return hooks::unless_refused(handlers::note, [&] { return real args; }); \
                }),                                                                        \
                params,                                                                    \
                args)
#define NOTED(symbol, forms, role, note, params, args) \
  ALL_FORMS_##forms(NOTED_HOOK, hook_##symbol, note, params, args)

// The driver looks at the addresses that a node names.
#define NODE_HOOK(hook, null, note, params, args)                                        \
  ANSWERED_HOOK(hook,                                                                    \
                null,                                                                    \
                (graph_nodes::note_change(), graph_nodes::note, hooks::while_awake([&] { \
                   return real args;                                                     \
                 })),                                                                    \
                params,                                                                  \
                args)
#define NODE(symbol, forms, role, note, params, args) \
  ALL_FORMS_##forms(NODE_HOOK, hook_##symbol, note, params, args)

#include "interpose/real/entry_points.def"

}  // namespace custash
