// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/guard_calls.hpp"

#include "interpose/real/real_driver.hpp"
// clang-format on
#include "interpose/check/guard_report.hpp"
#include "interpose/check/guarded_memory.hpp"
#include "interpose/hooks/copy_rows.hpp"
#include "interpose/hooks/host_view.hpp"
#include "interpose/hooks/kernel_name.hpp"
#include "interpose/hooks/parameters.hpp"
#include "interpose/process/captures.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/quietly.hpp"

#include <tuple>

namespace custash::guard_calls {
namespace {

// A copy with an address for each side, and its bytes.
constexpr bool is_plain_copy(Role role) {
  return is_between(role, Role::Copy, Role::CopyDeviceToDevice);
}

constexpr bool is_box(Role role) {
  return role == Role::CopyBox || role == Role::CopyBoxPeer;
}

constexpr bool is_wait(Role role) {
  return role == Role::SyncContext || role == Role::SyncStream || role == Role::QueryStream;
}

// Whose addresses are looked at, and whose end.
constexpr bool is_looked_at(Role role) {
  return is_between(role, Role::Launch, Role::LaunchGraph) || is_plain_copy(role) ||
         role == Role::CopyPeer || is_box(role) || is_set(role);
}

constexpr bool is_watched(Role role) {
  return is_looked_at(role) || is_wait(role) || role == Role::SyncEvent;
}

constexpr Bytes element(Role role) {
  if (role == Role::Set16 || role == Role::SetRows16) return 2;
  return role == Role::Set32 || role == Role::SetRows32 ? 4 : 1;
}

template <typename T>
Address address_of(T value) {
  if constexpr (std::is_pointer_v<T>)
    return reinterpret_cast<Address>(value);
  else
    return value;
}

CUcontext current_context() {
  Allocator* const core = process::core();
  CUcontext context = nullptr;
  if (core != nullptr) (void)core->driver().ctx_get_current(&context);
  return context;
}

bool is_capturing(CUstream stream) {
  Allocator* const core = process::core();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return core != nullptr &&
         core->driver().stream_is_capturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// Before work is submitted. Where few blocks have guards, the next allocation or wait is soon
// enough.
void give_back_freed() {
  Allocator* const core = process::core();
  if (core != nullptr && core->config().guard.one_in == 1)
    GuardedMemory(*core).give_back_freed();
}

void has_waited() {
  quietly([] {  // host memory may run out
    Allocator* const core = process::core();
    if (core == nullptr) return;
    GuardedMemory(*core).give_back_freed();
    process::pinned().rest_guarded();
  });
}

void note_word(void* work, Address word, std::size_t) {
  if (guards::may_be_guarded(word)) static_cast<guards::Work*>(work)->note(word);
}

void note_kernel(const void* function, void** params, void** extra, guards::Work* work) {
  Allocator* const core = process::core();
  work->name = kernel_name(function);
  if (core != nullptr)
    parameters::visit_words(core->driver(), function, params, extra, note_word, work);
}

// The stream that the call names; the default one where it names none.
template <NullStream kNull, typename... Args>
CUstream stream_of(const std::tuple<Args...>& all) {
  CUstream stream = nullptr;
  std::apply(
      [&](const auto&... each) {
        const auto look = [&](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, CUstream>) stream = value;
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, const CUlaunchConfig*>)
            stream = views::stream_of(value);
        };
        (look(each), ...);
      },
      all);
  return guards::handle_of({true, stream, kNull});
}

// One for each entry. `real`: the driver's function.
template <Entry kEntry, NullStream kNull, typename Function>
struct Watched;

template <Entry kEntry, NullStream kNull, typename... Args>
struct Watched<kEntry, kNull, CUresult(Args...)> {
  static constexpr const char* kName = name_of(kEntry);
  static constexpr Role kRole = role_of(kEntry);
  using All = std::tuple<Args...>;

  static inline CUresult (*real)(Args...) = nullptr;

  static void begin() {
    real = real::function<CUresult(Args...)>(kEntry);
    if (real != nullptr) real::replace(kEntry, reinterpret_cast<void*>(&call));
  }

  static CUresult call(Args... args) {
    if constexpr (kRole == Role::SyncEvent) {
      const CUresult result = real(args...);
      if (result == CUDA_SUCCESS) has_waited();
      return result;
    } else if constexpr (is_wait(kRole)) {
      const std::uint64_t before = guards::now();
      const CUresult result = real(args...);
      if (result == CUDA_SUCCESS) is_over(All(args...), before);
      if (result == CUDA_SUCCESS) has_waited();
      return result;
    } else {
      guards::Work work;
      try {
        order(All(args...));
        if constexpr (is_looked_at(kRole)) look(All(args...), &work);
        if constexpr (is_looked_at(kRole)) give_back_freed();
      } catch (...) {  // out of host memory
      }
      const CUresult result = real(args...);
      if (is_looked_at(kRole) && result == CUDA_SUCCESS) guards::submitted(std::move(work));
      return result;
    }
  }

  static void order(const All& all) {
    Allocator* const core = process::core();
    if (core == nullptr) return;
    if constexpr (kRole == Role::LaunchOnDevices) {
      for (unsigned i = 0; i < std::get<1>(all); ++i)
        GuardedMemory(*core).order_fills(std::get<0>(all)[i].hStream);
    } else {
      GuardedMemory(*core).order_fills(stream_of<kNull>(all));
    }
  }

  static void is_over(const All& all, std::uint64_t before) {
    if constexpr (kRole != Role::SyncContext) {
      guards::over(current_context(), stream_of<kNull>(all), before);
    } else {
      CUcontext context = nullptr;
      if constexpr (sizeof...(Args) == 1) context = std::get<0>(all);
      guards::over(context != nullptr ? context : current_context(), std::nullopt, before);
    }
  }

  static void use(Address address, Bytes bytes, guards::Work* work) {
    if (!guards::may_be_guarded(address)) return;
    work->note(address);
    guards::will_use(kName, address, bytes);
  }

  static void use(const copy_rows::Rows& rows, guards::Work* work) {
    if (rows.bytes == 0 ||
        (!guards::may_be_guarded(rows.first) && !guards::may_be_guarded(rows.last)))
      return;
    work->note(rows.first);
    guards::will_use_rows(kName, rows.first, rows.last, rows.bytes);
  }

  static void look(const All& all, guards::Work* work) {
    work->stream = stream_of<kNull>(all);
    work->context = current_context();
    work->name = kName;
    work->captured = captures::under_way() && is_capturing(work->stream);
    if constexpr (kRole == Role::Launch) {
      note_kernel(std::get<0>(all), std::get<9>(all), std::get<10>(all), work);
    } else if constexpr (kRole == Role::LaunchCooperative) {
      note_kernel(std::get<0>(all), std::get<9>(all), nullptr, work);
    } else if constexpr (kRole == Role::LaunchEx) {
      note_kernel(std::get<1>(all), std::get<2>(all), std::get<3>(all), work);
    } else if constexpr (kRole == Role::LaunchGraph) {
      work->graph = true;
    } else if constexpr (is_plain_copy(kRole)) {
      use(address_of(std::get<0>(all)), std::get<2>(all), work);
      use(address_of(std::get<1>(all)), std::get<2>(all), work);
    } else if constexpr (kRole == Role::CopyPeer) {
      use(std::get<0>(all), std::get<4>(all), work);
      use(std::get<2>(all), std::get<4>(all), work);
    } else if constexpr (is_between(kRole, Role::Set8, Role::Set32)) {
      use(std::get<0>(all), std::get<2>(all) * element(kRole), work);
    } else if constexpr (is_box(kRole)) {
      if (std::get<0>(all) == nullptr) return;
      use(copy_rows::target(*std::get<0>(all)), work);
      use(copy_rows::source(*std::get<0>(all)), work);
    } else if constexpr (is_set(kRole)) {
      const copy_rows::Side side{
          .type = CU_MEMORYTYPE_DEVICE, .device = std::get<0>(all), .pitch = std::get<1>(all)};
      use(copy_rows::rows_of(side, std::get<3>(all) * element(kRole), std::get<4>(all), 1),
          work);
    }
  }
};

template <Entry kEntry, NullStream kNull, typename Function>
void watch() {
  if constexpr (is_watched(role_of(kEntry))) Watched<kEntry, kNull, Function>::begin();
}

// Other submissions only come after the fills of blocks.
template <Entry kEntry, NullStream kNull, typename Function>
void order() {
  if constexpr (!is_watched(role_of(kEntry))) Watched<kEntry, kNull, Function>::begin();
}

}  // namespace

void begin(const Config& config) {
#define ENTRY_One(hook, params) watch<Entry::hook, NullStream::Legacy, CUresult params>();
#define ENTRY_Ptsz(hook, params) \
  ENTRY_One(hook, params) watch<Entry::hook##_ptsz, NullStream::PerThread, CUresult params>();
#define ENTRY_Ptds(hook, params) \
  ENTRY_One(hook, params) watch<Entry::hook##_ptds, NullStream::PerThread, CUresult params>();
#define ENTRY(symbol, forms, role, params) ENTRY_##forms(hook_##symbol, params)
#include "interpose/real/entry_points.def"
#undef ENTRY_One
#undef ENTRY_Ptsz
#undef ENTRY_Ptds
  if (!config.guard_fill) return;
#define ENTRY_One(hook, params) order<Entry::hook, NullStream::Legacy, CUresult params>();
#define ENTRY_Ptsz(hook, params) \
  ENTRY_One(hook, params) order<Entry::hook##_ptsz, NullStream::PerThread, CUresult params>();
#define ENTRY_Ptds(hook, params) \
  ENTRY_One(hook, params) order<Entry::hook##_ptds, NullStream::PerThread, CUresult params>();
#define SUBMISSION(symbol, forms, role, stream, view, first, second, params, args) \
  ENTRY_##forms(hook_##symbol, params)
#include "interpose/real/entry_points.def"
#undef ENTRY_One
#undef ENTRY_Ptsz
#undef ENTRY_Ptds
}

}  // namespace custash::guard_calls
