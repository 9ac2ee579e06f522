// SPDX-License-Identifier: MIT
#include "interpose/process/file_name.hpp"
#include "tools/command/live/look.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include <fcntl.h>
#include <unistd.h>

namespace custash::live {
namespace {

constexpr std::size_t kMostText = std::size_t{256} << 10U;

std::string read_file(pid_t process, const char* name) {
  std::string path("/proc/");  // by pieces: GCC 12 warns of more (PR 105651)
  path += std::to_string(process);
  path += name;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::string text;
  std::array<char, 4096> bytes{};
  while (file >= 0 && text.size() < kMostText) {
    const ssize_t got = read(file, bytes.data(), bytes.size());
    if (got <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
  if (file >= 0) close(file);
  return text;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::string base_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// "python3.11" and "/usr/bin/python" too.
bool is_interpreter(const std::string& program) {
  constexpr std::array kNames = {
      "python", "pypy", "perl", "ruby", "node", "julia", "bash", "sh", "dash"};
  const std::string base = base_of(program);
  const std::string plain = base.substr(0, base.find_last_not_of("0123456789.") + 1);
  return std::find(kNames.begin(), kNames.end(), plain) != kNames.end();
}

}  // namespace

std::string name_in(const std::vector<std::string>& words) {
  if (words.empty()) return "";
  std::string program = base_of(words[0]);
  if (!is_interpreter(words[0])) return program;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_next = i + 1 < words.size();
    if (word.empty() || word[0] != '-') return word.empty() ? program : base_of(word);
    if (word == "--" && has_next) return base_of(words[i + 1]);
    if (word.starts_with("--")) continue;
    if (word.ends_with('m') && has_next) return words[i + 1];
    if (word.ends_with('c') || word == "-") return program + " " + word;
    if (word == "-W" || word == "-X") ++i;  // Python's, with a value behind
  }
  return program;
}

std::optional<int> rank_in(std::string_view environment) {
  const std::vector<std::string> all = split(environment);
  for (const char* const name : kRankVariables) {
    const std::string begin = std::string(name) + "=";
    for (const std::string& each : all) {
      if (!each.starts_with(begin)) continue;
      if (const auto rank = parse_rank(std::string_view(each).substr(begin.size())))
        return rank;
    }
  }
  return std::nullopt;
}

Program program_of(pid_t process, const std::string& name) {
  Program program{name_in(split(read_file(process, "/cmdline"))),
                  rank_in(read_file(process, "/environ"))};
  if (program.name.empty()) program.name = name;
  return program;
}

}  // namespace custash::live
