// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "interpose/counters/check_time.hpp"
#include "interpose/hooks/graph_uses.hpp"
#include "interpose/hooks/row_forms.hpp"
#include "interpose/hooks/stream_calls.hpp"
#include "interpose/hooks/stream_uses.hpp"
#include "interpose/process/quietly.hpp"

#include <optional>
#include <tuple>

namespace custash::stream_calls {
namespace {

using namespace views;  // NOLINT: entry_points.def is written in these words
using stream_uses::Addresses;
using streams::Chain;
using streams::CheckTime;
using streams::Clock;
using streams::Special;

template <typename Stream>
std::optional<Chain> chain_of(Stream stream, NullStream null) {
  return streams::chain_of({true, stream, null});
}

// Offsets into arrays may be 0, and a pitch, too.
constexpr bool has_other_sizes(Role role) {
  return role == Role::CopyDeviceToArray || role == Role::CopyArrayToDevice ||
         is_between(role, Role::SetRows8, Role::SetRows32);
}

// What a submission has named. `view`: as in entry_points.def.
template <Entry kEntry, bool kWaits, typename View, typename... Args>
void look(Chain chain, Address first, Address second, View view, const Args&... args) {
  constexpr Role kRole = role_of(kEntry);
  [[maybe_unused]] const auto all = std::tie(args...);
  Addresses addresses{{first}, {second}};
  if constexpr (kRole == Role::Launch) {
    return stream_uses::launched(chain, std::get<0>(all), std::get<9>(all), std::get<10>(all));
  } else if constexpr (kRole == Role::LaunchCooperative) {
    return stream_uses::launched(chain, std::get<0>(all), std::get<9>(all), nullptr);
  } else if constexpr (kRole == Role::LaunchGraph) {
    return graph_uses::launched(chain, std::get<0>(all));
  } else if constexpr (kRole == Role::WaitEvent) {
    return streams::waits(chain, std::get<1>(all));
  } else if constexpr (kRole == Role::CopyBatch) {
    for (std::size_t i = 0; i < std::get<3>(all); ++i)
      addresses.insert(addresses.end(), {{std::get<0>(all)[i]}, {std::get<1>(all)[i]}});
  } else if constexpr (kRole == Role::CopyPeer &&
                       kWaits) {  // waits for all work of both contexts
    streams::is_over(streams::awaited(std::get<1>(all)));
    streams::is_over(streams::awaited(std::get<3>(all)));
  } else if constexpr (kRole == Role::CopyBoxPeer && kWaits) {
    streams::is_over(streams::awaited(std::get<0>(all)->dstContext));
    streams::is_over(streams::awaited(std::get<0>(all)->srcContext));
  } else if constexpr ((is_copy(kRole) || is_set(kRole)) && !has_other_sizes(kRole)) {
    if ((stream_uses::is_none(args) || ...)) addresses.clear();
  }
  stream_uses::used(chain, name_of(kEntry), addresses);
  if constexpr (kRole == Role::HostWork || kRole == Role::TellHost)
    streams::special(chain, Special::TellsHost);
  if constexpr (kRole == Role::HostWork || kRole == Role::WaitUnseen)
    streams::special(chain, Special::WaitsUnseen);
  if constexpr (is_copy(kRole) && kRole != Role::CopyHostToDevice &&
                kRole != Role::CopyHostToArray) {
    Allocator* const core = process::core();
    bool waited = core == nullptr;
    if constexpr (!kWaits && (kRole == Role::CopyDeviceToHost || kRole == Role::Copy))
      waited = waited || stream_uses::has_waited(*core, Address(std::get<0>(all)));
    else
      waited = waited || view(*core) == SubmissionKind::Visible;
    if (waited) streams::special(chain, Special::TellsHost);
  }
}

// Around a submission. A `stream` that is nullptr itself: the call waits, unless it is a
// memset.
template <Entry kEntry, typename Real, typename Stream, typename View, typename... Args>
CUresult around(Real* real,
                NullStream null,
                Stream stream,
                Address first,
                Address second,
                View view,
                const Args&... args) noexcept {
  const CUresult result = real(args...);
  if (result != CUDA_SUCCESS) return result;
  quietly([&] {
    const CheckTime::Scope timed;
    const std::optional<Chain> chain = chain_of(stream, null);
    if (!chain) return;
    look<kEntry, std::is_null_pointer_v<Stream>>(*chain, first, second, view, args...);
    if constexpr (std::is_null_pointer_v<Stream> && is_copy(role_of(kEntry)))
      streams::is_over(streams::awaited(*chain));
  });
  return result;
}

#define CHECK_SUBMISSION(hook, null, stream, view, first, second, params, args) \
  CUresult(*real_##hook) params = nullptr;                                      \
  CUresult check_##hook params {                                                \
    return around<Entry::hook>(                                                 \
        real_##hook,                                                            \
        NullStream::null,                                                       \
        stream,                                                                 \
        first,                                                                  \
        second,                                                                 \
        [&]([[maybe_unused]] Allocator& core) { return view; },                 \
        IN_PARENTHESES args);                                                   \
  }
#define SUBMISSION(symbol, forms, role, stream, view, first, second, params, args) \
  ALL_FORMS_##forms(CHECK_SUBMISSION, hook_##symbol, stream, view, first, second, params, args)
#include "interpose/real/entry_points.def"

// Calls of other kinds: `before()` is asked before the call, and what it gave goes to `after`
// when the call has succeeded.
template <Entry kEntry, NullStream kNull, typename Function>
struct Other;

template <Entry kEntry, NullStream kNull, typename... Args>
struct Other<kEntry, kNull, CUresult(Args...)> {
  static constexpr Role kRole = role_of(kEntry);
  using All = std::tuple<Args...>;

  static inline CUresult (*real)(Args...) = nullptr;

  static constexpr bool waits() {
    return is_between(kRole, Role::SyncContext, Role::QueryEvent);
  }

  static constexpr bool is_of_graphs() {
    return is_between(kRole, Role::MakeExec, Role::SetExecNode);
  }

  static constexpr bool is_mine() {
    return waits() || is_of_graphs() || is_between(kRole, Role::EndContext, Role::MakeGreen) ||
           is_between(kRole, Role::ContextWait, Role::RecordContext) ||
           kRole == Role::LaunchEx || kRole == Role::LaunchOnDevices;
  }

  static void begin() {
    real = real::function<CUresult(Args...)>(kEntry);
    if (real != nullptr) real::replace(kEntry, reinterpret_cast<void*>(&call));
  }

  static CUresult call(Args... args) {
    const All all(args...);
    Clock clock;
    if constexpr (waits()) quietly([&] { clock = awaited(all); });
    // Before the call: afterwards another thread may have a new stream of the same handle.
    if constexpr (kRole == Role::EndStream) streams::stream_destroyed(std::get<0>(all));
    if constexpr (kRole == Role::EndExec) graph_uses::forget(std::get<0>(all));
    const CUresult result = real(args...);
    if constexpr (kRole == Role::UpdateExec)
      if (result != CUDA_SUCCESS) graph_uses::forget(std::get<0>(all));
    if (result != CUDA_SUCCESS) return result;
    if constexpr (waits())
      streams::is_over(clock);
    else
      quietly([&] { after(all); });
    return result;
  }

  static Clock awaited(const All& all) {
    if constexpr (kRole == Role::SyncContext) {
      CUcontext context = nullptr;
      Allocator* const core = process::core();
      if (core != nullptr) (void)core->driver().ctx_get_current(&context);
      if constexpr (sizeof...(Args) == 1) context = std::get<0>(all);
      return streams::awaited(context);
    } else if constexpr (kRole == Role::SyncEvent || kRole == Role::QueryEvent) {
      return streams::awaited(std::get<0>(all));
    } else {
      const std::optional<Chain> chain = chain_of(std::get<0>(all), kNull);
      return chain ? streams::awaited(*chain) : Clock();
    }
  }

  static void after(const All& all) {
    const CheckTime::Scope timed;
    if constexpr (kRole == Role::EndContext) {
      streams::contexts_end();
    } else if constexpr (kRole == Role::RecordEvent) {
      if (const auto chain = chain_of(std::get<1>(all), kNull))
        streams::recorded(std::get<0>(all), *chain);
    } else if constexpr (kRole == Role::RecordContext) {
      streams::recorded(std::get<1>(all), std::get<0>(all));
    } else if constexpr (kRole == Role::ContextWait) {
      streams::waits(std::get<0>(all), std::get<1>(all));
    } else if constexpr (kRole == Role::MakeGreen) {
      streams::give_up();
    } else if constexpr (is_of_graphs()) {
      graph(all);
    } else if constexpr (kRole == Role::LaunchEx) {
      launch(all);
    } else if constexpr (kRole == Role::LaunchOnDevices) {
      for (unsigned i = 0; i < std::get<1>(all); ++i) {
        const CUDA_LAUNCH_PARAMS& each = std::get<0>(all)[i];
        if (const auto chain = chain_of(each.hStream, kNull))
          stream_uses::launched(*chain, each.function, each.kernelParams, nullptr);
      }
    }
  }

  static void graph(const All& all) {
    if constexpr (kRole == Role::MakeExec) {
      graph_uses::made(*std::get<0>(all), std::get<1>(all));
    } else if constexpr (kRole == Role::UpdateExec) {
      graph_uses::updated(std::get<0>(all), std::get<1>(all));
    } else if constexpr (kRole == Role::EnableNode) {
      graph_uses::switched(std::get<0>(all), std::get<1>(all), std::get<2>(all) != 0);
    } else if constexpr (kRole == Role::SetExecKernel) {
      node_params::Kernel kernel{};  // version 1 ends with `base`
      if constexpr (std::is_same_v<std::tuple_element_t<2, All>, const void*>)
        kernel = *static_cast<const node_params::Kernel*>(std::get<2>(all));
      else
        kernel.base = *std::get<2>(all);
      graph_uses::changed(std::get<0>(all), std::get<1>(all), kernel);
    } else if constexpr (kRole == Role::SetExecCopy) {
      graph_uses::changed(std::get<0>(all), std::get<1>(all), *std::get<2>(all));
    } else if constexpr (kRole == Role::SetExecChild) {
      graph_uses::changed(std::get<0>(all), std::get<1>(all), std::get<2>(all));
    } else if constexpr (kRole == Role::SetExecNode) {
      graph_uses::changed(std::get<0>(all),
                          std::get<1>(all),
                          *static_cast<const node_params::Node*>(std::get<2>(all)));
    }
  }

  // A launch may record an event.
  static void launch(const All& all) {
    constexpr int kProgrammaticEvent = 7;
    constexpr int kCompletionEvent = 12;
    const CUlaunchConfig* const config = std::get<0>(all);
    const auto chain = chain_of(stream_of(config), kNull);
    if (!chain || config == nullptr) return;
    stream_uses::launched(*chain, std::get<1>(all), std::get<2>(all), std::get<3>(all));
    for (unsigned i = 0; config->attrs != nullptr && i < config->numAttrs; ++i) {
      const int id = static_cast<int>(config->attrs[i].id);
      if (id == kProgrammaticEvent || id == kCompletionEvent)
        streams::recorded(config->attrs[i].value.programmaticEvent.event, *chain);
    }
  }
};

template <Entry kEntry, NullStream kNull, typename Function>
void check_other() {
  if constexpr (Other<kEntry, kNull, Function>::is_mine())
    Other<kEntry, kNull, Function>::begin();
}

}  // namespace

void begin() {
  graph_uses::begin();
#define BEGIN_SUBMISSION(hook, null, params)                  \
  real_##hook = real::function<CUresult params>(Entry::hook); \
  if (real_##hook != nullptr)                                 \
    real::replace(Entry::hook, reinterpret_cast<void*>(&check_##hook));
#define SUBMISSION(symbol, forms, role, stream, view, first, second, params, args) \
  ALL_FORMS_##forms(BEGIN_SUBMISSION, hook_##symbol, params)
#define ENTRY_One(hook, params) check_other<Entry::hook, NullStream::Legacy, CUresult params>();
#define ENTRY_Ptsz(hook, params) \
  ENTRY_One(hook, params)        \
      check_other<Entry::hook##_ptsz, NullStream::PerThread, CUresult params>();
#define ENTRY(symbol, forms, role, params) ENTRY_##forms(hook_##symbol, params)
#include "interpose/real/entry_points.def"
#undef ENTRY_One
#undef ENTRY_Ptsz
}

}  // namespace custash::stream_calls
