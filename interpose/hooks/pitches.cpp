// SPDX-License-Identifier: MIT
#include "interpose/hooks/pitches.hpp"

#include "allocator/base/rule.hpp"

#include <limits>

namespace custash {
namespace {

constexpr Bytes kWidest = Bytes{1} << 48U;
constexpr int kMostDevices = 64;
constexpr unsigned kWidestElement = 16;

// 0: a question that no slot can hold.
std::uint64_t key_of(const PitchQuestion& question) {
  if (question.width == 0 || question.width >= kWidest || question.device < 0 ||
      question.device >= kMostDevices || question.element == 0 ||
      question.element > kWidestElement)
    return 0;
  const Bytes width = holds(Rule::pitches_are_of_their_width) ? question.width : 1;
  return width << 16U | static_cast<std::uint64_t>(question.element) << 8U |
         static_cast<std::uint64_t>(question.device);
}

std::size_t first_slot(std::uint64_t key) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  return key * kGolden >> 48U;
}

}  // namespace

Bytes PitchAnswer::bytes(Bytes width, Bytes height) const {
  if (height == 0 || height > std::numeric_limits<Bytes>::max() / pitch) return 0;
  return last_row_whole ? pitch * height : pitch * (height - 1) + width;
}

std::optional<PitchAnswer> PitchAnswer::from(Bytes width,
                                             Bytes height,
                                             Bytes pitch,
                                             Bytes bytes) {
  if (pitch < width || pitch == 0) return std::nullopt;
  for (const bool whole : {true, false}) {
    const PitchAnswer answer{pitch, whole};
    if (bytes != 0 && answer.bytes(width, height) == bytes) return answer;
  }
  return std::nullopt;
}

std::optional<PitchAnswer> Pitches::find(const PitchQuestion& question) const noexcept {
  const std::uint64_t key = key_of(question);
  for (std::size_t i = 0; key != 0 && i < kTries; ++i) {
    const Slot& slot = slots_[(first_slot(key) + i) % kSlots];
    const std::uint64_t held = slot.key.load(std::memory_order_acquire);
    if (held == 0) break;
    if (held != key) continue;
    const std::uint64_t answer = slot.answer.load(std::memory_order_acquire);
    if (answer == 0) break;
    return PitchAnswer{answer >> 1U, (answer & 1U) != 0};
  }
  return std::nullopt;
}

void Pitches::add(const PitchQuestion& question, const PitchAnswer& answer) noexcept {
  const std::uint64_t key = key_of(question);
  for (std::size_t i = 0; key != 0 && i < kTries; ++i) {
    Slot& slot = slots_[(first_slot(key) + i) % kSlots];
    std::uint64_t held = 0;
    if (!slot.key.compare_exchange_strong(held, key) && held != key) continue;
    // Two threads that learn of one width write the same: the driver's answer. Order: acquired
    // by find(). An answer that is not there yet counts as unknown.
    slot.answer.store(answer.pitch << 1U | (answer.last_row_whole ? 1U : 0U),
                      std::memory_order_release);
    return;
  }
}

}  // namespace custash
