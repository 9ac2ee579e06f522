// SPDX-License-Identifier: MIT
#include "interpose/check/parameter_words.hpp"

#include <algorithm>

namespace custash::streams {

bool ParameterWords::may_be(const char* kernel, std::size_t place) const {
  if (place == 0) return true;
  const auto found = in_use_.find(kernel);
  return found == in_use_.end() || place >= found->second.size() ||
         found->second[place] != kNever;
}

bool ParameterWords::is_address(const char* kernel, std::size_t place) const {
  if (place == 0) return true;
  const auto found = in_use_.find(kernel);
  return found != in_use_.end() && place < found->second.size() &&
         found->second[place] == kCertain;
}

bool ParameterWords::saw(const char* kernel, std::size_t place, Held held) {
  if (place == 0) return true;
  std::vector<std::uint16_t>& places = in_use_[kernel];
  if (places.size() <= place) places.resize(place + 1);
  std::uint16_t& times = places[place];
  if (times == kNever) return false;
  if (held == Held::Other || (held == Held::Freed && times < kCertain)) {
    times = kNever;
    return false;
  }
  if (held == Held::InUse) times = std::min<std::uint16_t>(times + 1, kCertain);
  return true;
}

}  // namespace custash::streams
