// SPDX-License-Identifier: MIT
// Makes a Call of each entry's arguments, and puts the observers around the driver's function.
#include "interpose/check/call.hpp"
// clang-format off: after entry_points.hpp
#include "interpose/check/check_time.hpp"
#include "interpose/check/observers.hpp"
#include "interpose/hooks/host_view.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/quietly.hpp"
#include "interpose/real/entry_points.hpp"
// clang-format on

#include <type_traits>

namespace custash::check {
namespace {

using namespace views;  // NOLINT: entry_points.def is written in these words

// A copy with an address for each side, and its bytes.
constexpr bool is_plain_copy(Role role) {
  return is_between(role, Role::Copy, Role::CopyDeviceToDevice);
}

constexpr bool is_box(Role role) {
  return role == Role::CopyBox || role == Role::CopyBoxPeer;
}

// The host learns nothing of its end.
constexpr bool is_from_host(Role role) {
  return role == Role::CopyHostToDevice || role == Role::CopyHostToArray;
}

// Offsets into arrays may be 0, and a pitch, too.
constexpr bool has_other_sizes(Role role) {
  return role == Role::CopyDeviceToArray || role == Role::CopyArrayToDevice ||
         is_between(role, Role::SetRows8, Role::SetRows32);
}

constexpr Bytes element(Role role) {
  if (role == Role::Set16 || role == Role::SetRows16) return 2;
  return role == Role::Set32 || role == Role::SetRows32 ? 4 : 1;
}

// An argument that makes a copy or a memset move no bytes.
template <typename T>
bool is_none(const T& value) {
  if constexpr (std::is_same_v<T, std::size_t>) return value == 0;
  if constexpr (requires { value->WidthInBytes; })
    return value == nullptr || value->WidthInBytes == 0 || value->Height == 0;
  return false;
}

template <typename T>
Address address_of(T value) {
  if constexpr (std::is_pointer_v<T>)
    return reinterpret_cast<Address>(value);
  else
    return value;
}

template <typename T>
copy_rows::Rows range(T address, Bytes bytes) {
  return {address_of(address), address_of(address), bytes};
}

// The columns of a submission's row. `view`: how much of its effect the host may see.
template <Role kRole, typename Stream, typename View>
void name_work(Call* call, Stream stream, Address first, Address second, View view) {
  call->is_submission = true;
  call->first = first;
  call->second = second;
  if constexpr (std::is_null_pointer_v<Stream>)
    call->waits = true;
  else
    call->stream = stream;
  if constexpr (is_copy(kRole) && !is_from_host(kRole)) {
    const bool by_target =
        !call->waits && (kRole == Role::CopyDeviceToHost || kRole == Role::Copy);
    if (by_target || !StreamCalls::wants(*call)) return;
    quietly([&] {
      const streams::CheckTime::Scope timed;
      if (Allocator* const core = process::running()) call->is_visible = view(*core) == Visible;
    });
  }
}

// One for each entry.
template <Entry kEntry, NullStream kNull, typename Function>
struct Row;

template <Entry kEntry, NullStream kNull, typename... Args>
struct Row<kEntry, kNull, CUresult(Args...)> {
  static constexpr Role kRole = role_of(kEntry);
  using All = std::tuple<const Args&...>;
  using NameWork = void(Call* call, Args... args);

  static inline CUresult (*real)(Args...) = nullptr;
  static inline NameWork* name_work = nullptr;  // null: no submission
  static inline unsigned wanted = 0;            // by which observers

  static void begin(NameWork* name = nullptr) {
    Call call{kEntry, kNull};
    call.is_submission = name != nullptr;
    wanted = Observers::wanted_by(call);
    if (wanted == 0) return;
    name_work = name;
    real = reinterpret_cast<CUresult (*)(Args...)>(real::look_up(kEntry));
    if (real != nullptr) real::replace(kEntry, reinterpret_cast<void*>(&observed));
  }

  static CUresult observed(Args... args) {
    Call call{kEntry, kNull};
    const All all(args...);
    describe(&call, all);
    if (name_work != nullptr) name_work(&call, args...);
    Observers observers(call, wanted);
    const CUresult result = real(args...);
    if constexpr (kRole == Role::MakeExec)
      if (result == CUDA_SUCCESS) call.executable = *std::get<0>(all);
    observers.after(result);
    return result;
  }

  static void describe([[maybe_unused]] Call* call, [[maybe_unused]] const All& all) {
    if constexpr (is_copy(kRole) || is_set(kRole)) {
      copy_or_set(call, all);
      if constexpr (!has_other_sizes(kRole))
        call->is_empty =
            std::apply([](const auto&... each) { return (is_none(each) || ...); }, all);
    } else if constexpr (kRole == Role::Launch) {
      call->kernel = {std::get<0>(all), std::get<9>(all), std::get<10>(all)};
    } else if constexpr (kRole == Role::LaunchCooperative) {
      call->kernel = {std::get<0>(all), std::get<9>(all)};
    } else if constexpr (kRole == Role::LaunchEx) {
      call->config = std::get<0>(all);
      call->stream = stream_of(call->config);
      call->kernel = {std::get<1>(all), std::get<2>(all), std::get<3>(all)};
    } else if constexpr (kRole == Role::LaunchOnDevices) {
      constexpr unsigned kMostDevices = 256;  // the driver refuses more, and no list
      if (std::get<0>(all) != nullptr && std::get<1>(all) <= kMostDevices)
        call->kernels = {std::get<0>(all), std::get<1>(all)};
    } else if constexpr (kRole == Role::LaunchGraph || kRole == Role::EndExec) {
      call->executable = std::get<0>(all);
    } else if constexpr (kRole == Role::MakeExec) {
      call->graph = std::get<1>(all);
    } else if constexpr (kRole == Role::UpdateExec) {
      call->executable = std::get<0>(all);
      call->graph = std::get<1>(all);
    } else if constexpr (is_between(kRole, Role::EnableNode, Role::SetExecNode)) {
      node(call, all);
    } else {
      order(call, all);
    }
  }

  static void copy_or_set([[maybe_unused]] Call* call, [[maybe_unused]] const All& all) {
    if constexpr (is_plain_copy(kRole)) {
      call->target = range(std::get<0>(all), std::get<2>(all));
      call->source = range(std::get<1>(all), std::get<2>(all));
    } else if constexpr (kRole == Role::CopyPeer) {
      call->target = range(std::get<0>(all), std::get<4>(all));
      call->source = range(std::get<2>(all), std::get<4>(all));
      call->context = std::get<1>(all);
      call->other = std::get<3>(all);
    } else if constexpr (is_box(kRole)) {
      if (std::get<0>(all) == nullptr) return;
      call->target = copy_rows::target(*std::get<0>(all));
      call->source = copy_rows::source(*std::get<0>(all));
      if constexpr (kRole == Role::CopyBoxPeer) {
        call->context = std::get<0>(all)->dstContext;
        call->other = std::get<0>(all)->srcContext;
      }
    } else if constexpr (kRole == Role::CopyBatch) {
      call->targets = {std::get<0>(all), std::get<3>(all)};
      call->sources = {std::get<1>(all), std::get<3>(all)};
    } else if constexpr (is_between(kRole, Role::Set8, Role::Set32)) {
      call->target = range(std::get<0>(all), std::get<2>(all) * element(kRole));
    } else if constexpr (is_set(kRole)) {
      const copy_rows::Side side{
          .type = CU_MEMORYTYPE_DEVICE, .device = std::get<0>(all), .pitch = std::get<1>(all)};
      call->target =
          copy_rows::rows_of(side, std::get<3>(all) * element(kRole), std::get<4>(all), 1);
    }
  }

  static void node(Call* call, const All& all) {
    call->executable = std::get<0>(all);
    call->node = std::get<1>(all);
    if constexpr (kRole == Role::EnableNode) {
      call->node_is_on = std::get<2>(all) != 0;
    } else if constexpr (kRole == Role::SetExecNode) {
      call->change = static_cast<const node_params::Node*>(std::get<2>(all));
    } else if constexpr (std::is_same_v<std::tuple_element_t<2, std::tuple<Args...>>,
                                        const void*>) {
      call->change = static_cast<const node_params::Kernel*>(std::get<2>(all));
    } else {
      call->change = std::get<2>(all);
    }
  }

  static void order([[maybe_unused]] Call* call, [[maybe_unused]] const All& all) {
    if constexpr (kRole == Role::WaitEvent) {
      call->event = std::get<1>(all);
    } else if constexpr (kRole == Role::RecordEvent) {
      call->event = std::get<0>(all);
      call->stream = std::get<1>(all);
    } else if constexpr (kRole == Role::RecordContext || kRole == Role::ContextWait) {
      call->context = std::get<0>(all);
      call->event = std::get<1>(all);
    } else if constexpr (kRole == Role::SyncContext) {
      if constexpr (sizeof...(Args) == 1) call->context = std::get<0>(all);
    } else if constexpr (kRole == Role::SyncEvent || kRole == Role::QueryEvent) {
      call->event = std::get<0>(all);
    } else if constexpr (kRole == Role::SyncStream || kRole == Role::QueryStream ||
                         kRole == Role::EndStream) {
      call->stream = std::get<0>(all);
    }
  }
};

#define NAME_WORK(hook, null, stream_, view_, first_, second_, params, args)                 \
  void name_##hook(Call* call, IN_PARENTHESES params) {                                      \
    (void)std::tie args;                                                                     \
    name_work<role_of(Entry::hook)>(                                                         \
        call, stream_, first_, second_, [&]([[maybe_unused]] auto& core) { return view_; }); \
  }
#define SUBMISSION(symbol, forms, role, stream, view, first, second, params, args) \
  ALL_FORMS_##forms(NAME_WORK, hook_##symbol, stream, view, first, second, params, args)
#include "interpose/real/entry_points.def"

}  // namespace

void observe_calls() {
#define BEGIN_SUBMISSION(hook, null, params) \
  Row<Entry::hook, NullStream::null, CUresult params>::begin(name_##hook);
#define BEGIN(hook, null, params) Row<Entry::hook, NullStream::null, CUresult params>::begin();
#define SUBMISSION(symbol, forms, role, stream, view, first, second, params, args) \
  ALL_FORMS_##forms(BEGIN_SUBMISSION, hook_##symbol, params)
#define ENTRY(symbol, forms, role, params) ALL_FORMS_##forms(BEGIN, hook_##symbol, params)
#include "interpose/real/entry_points.def"
}

}  // namespace custash::check
