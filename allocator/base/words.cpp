// SPDX-License-Identifier: MIT
#include "allocator/base/words.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace custash {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The power of two that a unit stands for.
std::optional<unsigned> shift_of(std::string_view unit) {
  if (unit.empty() || same_word(unit, "b")) return 0;
  constexpr std::string_view kLetters = "kmgt";
  const auto at = kLetters.find(lower(unit.front()));
  const std::string_view rest = unit.substr(1);
  if (at == std::string_view::npos) return std::nullopt;
  if (!rest.empty() && !same_word(rest, "b") && !same_word(rest, "i") && !same_word(rest, "ib"))
    return std::nullopt;
  return 10 * static_cast<unsigned>(at + 1);
}

// The number of letters to add, remove, replace or swap with the next one.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::optional<Bytes> parse_size(std::string_view text) {
  const char* const end = text.data() + text.size();
  Bytes whole = 0;
  auto [stop, error] = std::from_chars(text.data(), end, whole);
  if (error != std::errc()) return std::nullopt;
  // The fraction as numerator and denominator: floating point would round large sizes.
  constexpr Bytes kMostDenominator = 1'000'000;
  Bytes part = 0;
  Bytes denominator = 1;
  if (stop != end && *stop == '.') {
    for (++stop; stop != end && *stop >= '0' && *stop <= '9'; ++stop) {
      if (denominator == kMostDenominator) continue;  // less than a byte in 1 MiB
      part = part * 10 + static_cast<Bytes>(*stop - '0');
      denominator *= 10;
    }
    if (denominator == 1) return std::nullopt;
  }
  const auto shift = shift_of({stop, static_cast<std::size_t>(end - stop)});
  if (!shift || (denominator > 1 && *shift == 0)) return std::nullopt;
  if (whole > (std::numeric_limits<Bytes>::max() >> *shift)) return std::nullopt;
  return (whole << *shift) + (part << *shift) / denominator;
}

std::string in_mib(Bytes bytes) {
  return std::to_string(bytes >> 20U) + " MiB";
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return lower(x) == lower(y);
  });
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  constexpr std::size_t kLongest = 64;  // a longer word is no misspelt name
  std::string_view best;
  // At most a third of the letters may be wrong: more would be a guess.
  std::size_t least =
      word.size() > kLongest ? 0 : std::max<std::size_t>(word.size() / 3, 1) + 1;
  for (const std::string_view each : known) {
    const std::size_t wrong = least == 0 ? 0 : distance(word, each);
    if (wrong >= least) continue;
    least = wrong;
    best = each;
  }
  return best;
}

}  // namespace custash
