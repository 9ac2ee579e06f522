// SPDX-License-Identifier: MIT
#include "interpose/hooks/parameters.hpp"

#include "interpose/hooks/host_ranges.hpp"
#include "interpose/hooks/layouts.hpp"

#include <algorithm>
#include <cstring>

namespace custash::parameters {
namespace {

using host_ranges::Reader;

// The buffer of cuLaunchKernel's `extra`, laid out as on the device.
struct Packed {
  const unsigned char* buffer = nullptr;
  std::size_t bytes = 0;
  bool understood = true;
};

Packed unpack(void** extra) {
  Packed packed;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      packed.buffer = static_cast<const unsigned char*>(extra[1]);
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1] != nullptr) {
      packed.bytes = *static_cast<const std::size_t*>(extra[1]);
    } else {
      return {.understood = false};
    }
  }
  return packed;
}

bool finds(Reader& ranges, const layouts::Run& run, void** params) {
  void** const first = params + run.first;
  if (run.words == 1) return ranges.finds_at(first, run.count, run.skip);
  return std::any_of(first, first + run.count, [&](const void* value) {
    return value != nullptr &&
           ranges.finds(static_cast<const unsigned char*>(value) + run.skip, run.words);
  });
}

bool finds(Reader& ranges, const layouts::Layout& layout, void** params) {
  return std::any_of(layout.begin(), layout.end(), [&](const layouts::Run& run) {
    return finds(ranges, run, params);
  });
}

bool finds(Reader& ranges, const layouts::Layout* layout, void** params, const Packed& packed) {
  return (layout != nullptr && finds(ranges, *layout, params)) ||
         (packed.buffer != nullptr &&
          ranges.finds(packed.buffer, packed.bytes / sizeof(Address)));
}

template <typename Found>
bool any_word(const void* from, std::size_t count, Found found) {
  const auto* const bytes = static_cast<const unsigned char*>(from);
  for (std::size_t i = 0; i < count; ++i) {
    Address word = 0;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    if (found(word)) return true;
  }
  return false;
}

template <typename Found>
bool any_word(const layouts::Run& run, void** params, Found found) {
  void** const first = params + run.first;
  return std::any_of(first, first + run.count, [&](const void* value) {
    return value != nullptr &&
           any_word(static_cast<const unsigned char*>(value) + run.skip, run.words, found);
  });
}

template <typename Found>
bool any_word(const layouts::Layout* layout, void** params, const Packed& packed, Found found) {
  if (packed.buffer != nullptr &&
      any_word(packed.buffer, packed.bytes / sizeof(Address), found))
    return true;
  return layout != nullptr &&
         std::any_of(layout->begin(), layout->end(), [&](const layouts::Run& run) {
           return any_word(run, params, found);
         });
}

}  // namespace

std::optional<std::size_t> visit_words(const Driver& driver,
                                       const void* function,
                                       void** params,
                                       void** extra,
                                       void (*visit)(void* state,
                                                     Address word,
                                                     std::size_t place),
                                       void* state,
                                       std::size_t most_words) noexcept {
  constexpr std::size_t kMostBytes = std::size_t{1} << 15U;
  const Packed packed = unpack(extra);
  if (!packed.understood || packed.bytes > kMostBytes) return std::nullopt;
  const layouts::Layout* const layout =
      params == nullptr ? nullptr : layouts::of(driver, function);
  std::size_t seen = 0;
  std::size_t largest = packed.bytes / sizeof(Address);
  const auto see = [&](bool alone) {
    return [visit, state, alone, &seen](Address word) {
      visit(state, word, alone ? 0 : ++seen);
      return false;
    };
  };
  if (layout != nullptr)
    for (const layouts::Run& run : *layout) {
      largest = std::max<std::size_t>(largest, run.words);
      if (run.words <= most_words) (void)any_word(run, params, see(run.words == 1));
    }
  if (packed.buffer != nullptr)
    (void)any_word(packed.buffer, packed.bytes / sizeof(Address), see(false));
  return params != nullptr && layout == nullptr ? std::nullopt : std::optional(largest);
}

HostAddresses find_host_addresses(const Driver& driver,
                                  const void* function,
                                  void** params,
                                  void** extra,
                                  const Allocator* core,
                                  IsOther* other) noexcept {
  constexpr int kTurns = 4;
  if (host_ranges::none() && other == nullptr) return HostAddresses::None;
  // CUDA allows no larger parameters: the driver will refuse the launch.
  constexpr std::size_t kMostBytes = std::size_t{1} << 15U;
  const Packed packed = unpack(extra);
  if (packed.bytes > kMostBytes) return HostAddresses::Unknown;
  const layouts::Layout* const layout =
      params == nullptr ? nullptr : layouts::of(driver, function);
  if (!packed.understood || (params != nullptr && layout == nullptr))
    return HostAddresses::Unknown;
  const auto is_other = [&](Address word) { return other(*core, word); };
  for (int turn = 0; turn < kTurns; ++turn) {
    Reader ranges;
    const bool found = finds(ranges, layout, params, packed);
    if (ranges.changed()) continue;
    return found || (other != nullptr && any_word(layout, params, packed, is_other))
               ? HostAddresses::Some
               : HostAddresses::None;
  }
  return HostAddresses::Some;  // as far as is known
}

}  // namespace custash::parameters
