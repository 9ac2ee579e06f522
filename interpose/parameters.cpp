// SPDX-License-Identifier: MIT
#include "interpose/parameters.hpp"

#include "interpose/host_ranges.hpp"
#include "interpose/layouts.hpp"

namespace custash::parameters {
namespace {

using host_ranges::Look;

// The buffer of cuLaunchKernel's `extra`: laid out as on the device.
struct Packed {
  const void* buffer = nullptr;
  std::size_t bytes = 0;
  bool understood = true;
};

Packed unpack(void** extra) {
  Packed packed;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      packed.buffer = extra[1];
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1] != nullptr) {
      packed.bytes = *static_cast<const std::size_t*>(extra[1]);
    } else {
      return {.understood = false};
    }
  }
  return packed;
}

bool finds(Look& ranges, const layouts::Layout& layout, void** params) {
  for (const layouts::Piece& piece : layout) {
    const auto* const value = static_cast<const unsigned char*>(params[piece.parameter]);
    if (value != nullptr && ranges.finds(value + piece.skip, piece.words)) return true;
  }
  return false;
}

bool finds(Look& ranges, const layouts::Layout* layout, void** params, const Packed& packed) {
  return (layout != nullptr && finds(ranges, *layout, params)) ||
         (packed.buffer != nullptr &&
          ranges.finds(packed.buffer, packed.bytes / sizeof(Address)));
}

}  // namespace

Found look(const Driver& driver, const void* function, void** params, void** extra) noexcept {
  constexpr int kTurns = 4;
  if (host_ranges::none()) return Found::None;
  const Packed packed = unpack(extra);
  const layouts::Layout* const layout =
      params == nullptr ? nullptr : layouts::of(driver, function);
  if (!packed.understood || (params != nullptr && layout == nullptr)) return Found::Unknown;
  for (int turn = 0; turn < kTurns; ++turn) {
    Look ranges;
    const bool found = finds(ranges, layout, params, packed);
    if (!ranges.changed()) return found ? Found::Address : Found::None;
  }
  return Found::Address;  // for all that is known
}

}  // namespace custash::parameters
