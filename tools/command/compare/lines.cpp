// SPDX-License-Identifier: MIT
#include "tools/command/compare/lines.hpp"

#include "tools/command/compare/signals.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include <unistd.h>

namespace custash::compare {
namespace {

// The lines of a file, with their ends. A longer line comes in pieces.
class Lines {
 public:
  explicit Lines(int file) : file_(file) {}

  bool next(std::string* line) {
    constexpr std::size_t kLongest = 1U << 20U;
    line->clear();
    while (line->size() < kLongest && (at_ < end_ || fill())) {
      const char* const begin = buffer_.data() + at_;
      const char* const end = buffer_.data() + end_;
      const char* const stop = std::find(begin, end, '\n');
      const bool whole = stop != end;
      line->append(begin, stop + (whole ? 1 : 0));
      at_ += static_cast<std::size_t>(stop - begin) + (whole ? 1 : 0);
      if (whole) break;
    }
    return !line->empty();
  }

 private:
  bool fill() {
    check_signals();
    const ssize_t got = pread(file_, buffer_.data(), buffer_.size(), offset_);
    if (got <= 0) return false;
    offset_ += got;
    at_ = 0;
    end_ = static_cast<std::size_t>(got);
    return true;
  }

  const int file_;
  off_t offset_ = 0;
  std::array<char, 1U << 16U> buffer_{};
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

std::string without_end(std::string line) {
  if (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

// The next line that is not ignored; counts those that are.
bool next_of(Lines& lines, const Patterns& ignored, std::string* line, std::uint64_t* number) {
  while (lines.next(line)) {
    check_signals();
    ++*number;
    const std::string text = without_end(*line);
    if (std::none_of(ignored.begin(), ignored.end(), [&](const Pattern* each) {
          return each->matches(text);
        }))
      return true;
  }
  return false;
}

}  // namespace

Pattern::Pattern(const char* option, const std::string& expression) {
  const int code = regcomp(&compiled_, expression.c_str(), REG_EXTENDED);
  if (code == 0) return;
  char why[120];
  (void)regerror(code, &compiled_, why, sizeof why);
  throw std::runtime_error(std::string(option) + ": " + expression + ": " + why);
}

Pattern::~Pattern() {
  regfree(&compiled_);
}

bool Pattern::find(const std::string& line, regoff_t from, Groups* groups) const {
  (*groups)[0] = {from, static_cast<regoff_t>(line.size())};
  // By its bounds: a line may hold a null byte.
  return regexec(&compiled_, line.c_str(), groups->size(), groups->data(), REG_STARTEND) == 0;
}

bool Pattern::matches(const std::string& line) const {
  Groups groups;
  return find(line, 0, &groups);
}

std::optional<std::string> Pattern::last_in(const std::string& line) const {
  std::optional<std::string> found;
  Groups groups;
  for (regoff_t at = 0; at <= std::ssize(line) && find(line, at, &groups);
       at = std::max(groups[0].rm_eo, at + 1)) {
    check_signals();
    const regmatch_t& group = groups[1].rm_so >= 0 ? groups[1] : groups[0];
    found = line.substr(static_cast<std::size_t>(group.rm_so),
                        static_cast<std::size_t>(group.rm_eo - group.rm_so));
  }
  return found;
}

std::optional<Difference> first_difference(int before, int after, const Patterns& ignored) {
  Lines left(before);
  Lines right(after);
  std::string a;
  std::string b;
  std::uint64_t number = 0;
  std::uint64_t other_number = 0;
  while (true) {
    const bool more = next_of(left, ignored, &a, &number);
    const bool other_more = next_of(right, ignored, &b, &other_number);
    if (!more && !other_more) return std::nullopt;
    if (a != b) return Difference{more ? number : other_number, a, b};
  }
}

std::optional<std::string> last_match(int file, const Pattern& pattern) {
  std::optional<std::string> found;
  Lines lines(file);
  for (std::string line; lines.next(&line);)
    if (auto match = pattern.last_in(without_end(line))) found = std::move(match);
  return found;
}

}  // namespace custash::compare
