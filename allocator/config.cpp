// SPDX-License-Identifier: MIT
// The table of options. A row says what an option is for people and how its text becomes a
// field; nothing else knows an option by name. Rank 1, no state, reads no environment.
#include "allocator/config_table.hpp"
#include "allocator/words.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <utility>

namespace custash {
namespace {

template <typename Value, std::size_t kCount>
bool choose(Value* out,
            std::string_view text,
            const std::pair<std::string_view, Value> (&choices)[kCount]) {
  for (const auto& [name, value] : choices) {
    if (same_word(name, text)) {
      *out = value;
      return true;
    }
  }
  return false;
}

// "true" and "false" are the documented words; the others are what people write by habit.
bool set_flag(bool* out, std::string_view text) {
  return choose(out,
                text,
                {{"true", true},
                 {"false", false},
                 {"on", true},
                 {"off", false},
                 {"yes", true},
                 {"no", false},
                 {"1", true},
                 {"0", false}});
}

// A whole number; what follows it is left in `unit`.
bool read_number(std::string_view text, std::uint64_t* out, std::string_view* unit) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  *unit = std::string_view(stop, static_cast<std::size_t>(end - stop));
  return error == std::errc();
}

bool set_number(std::uint32_t* out,
                std::string_view text,
                std::uint64_t most,
                std::string_view unit_allowed = "") {
  std::uint64_t value = 0;
  std::string_view unit;
  if (!read_number(text, &value, &unit) || value > most) return false;
  if (!unit.empty() && !same_word(unit, unit_allowed)) return false;
  *out = static_cast<std::uint32_t>(value);
  return true;
}

bool set_bytes(std::uint64_t* out, std::string_view text) {
  const auto bytes = parse_size(text);
  if (bytes) *out = *bytes;
  return bytes.has_value();
}

// What nobody can mean is refused: a limit below one page, and a share of nothing.
bool set_limit(Config* config, std::string_view text) {
  if (text.ends_with('%')) {
    std::uint32_t share = 0;
    if (!set_number(&share, text, 100, "%") || share == 0) return false;
    config->limit_percent = share;
    config->limit = 0;
    return true;
  }
  std::uint64_t bytes = 0;
  if (!set_bytes(&bytes, text) || (bytes != 0 && bytes < 2_MiB)) return false;
  config->limit = bytes;
  config->limit_percent = 0;
  return true;
}

constexpr std::array kOptions = {
    Option{{"enabled",
            "flag",
            "true",
            "true|false",
            "false: every call goes to the driver untouched"},
           [](Config& c, std::string_view text) { return set_flag(&c.enabled, text); }},
    Option{{"caching",
            "choice",
            "auto",
            "auto|always|never",
            "never: each allocation is the driver's own, so that memory checkers see it; auto: "
            "never under compute-sanitizer"},
           [](Config& c, std::string_view text) {
             using enum Caching;
             return choose(&c.caching, text, {{"auto", Auto}, {"always", Always}, {"never", Never}});
           }},
    Option{{"backing",
            "choice",
            "auto",
            "auto|vmm|driver",
            "what device memory is made of: vmm, pages mapped into reserved address ranges; "
            "driver, cuMemAlloc; auto, vmm where the device has it and all others can reach it"},
           [](Config& c, std::string_view text) {
             return choose<Backing>(
                 &c.backing,
                 text,
                 {{"auto", Backing::Auto}, {"vmm", Backing::Vmm}, {"driver", Backing::Driver}});
           }},
    Option{{"free",
            "choice",
            "auto",
            "auto|never|strict",
            "when cudaFree and cuMemFree wait: auto, only for work whose results the host "
            "could be about to read; never; strict, for the whole device, as the driver does"},
           [](Config& c, std::string_view text) {
             return choose<FreeMode>(&c.free_mode,
                                     text,
                                     {{"auto", FreeMode::Auto},
                                      {"never", FreeMode::Never},
                                      {"strict", FreeMode::Strict}});
           }},
    Option{{"magazines",
            "flag",
            "true",
            "true|false",
            "true: each thread keeps a few blocks ready of each size, and takes no lock for them"},
           [](Config& c, std::string_view text) { return set_flag(&c.magazines, text); }},
    Option{{"one_lane",
            "flag",
            "true",
            "true|false",
            "true: while one stream works, its own order makes freed memory ready at once"},
           [](Config& c, std::string_view text) { return set_flag(&c.one_lane, text); }},
    Option{
        {"run_ahead",
         "percent",
         "10",
         "0-1000",
         "how much new memory, as a share of the bytes in use, is taken before freed memory is "
         "handed out behind a wait on the GPU"},
        [](Config& c, std::string_view text) {
          return set_number(&c.run_ahead_percent, text, 1000, "%");
        }},
    Option{{"limit",
            "limit",
            "0",
            "bytes, or with K, M, G, T (powers of 1,024; 1.5G), or a share of the device with %",
            "the most device memory that is held of each device, in use and cached; past it an "
            "allocation fails for memory. At least 2M. 0: no limit"},
           [](Config& c, std::string_view text) { return set_limit(&c, text); }},
    Option{
        {"decay",
         "seconds",
         "10",
         "0-86400",
         "device memory that was free for so long (up to twice that) goes back to the driver, "
         "when a call comes by, without a stall. 0: never"},
        [](Config& c, std::string_view text) {
          return set_number(&c.decay, text, 86400, "s");
        }},
    Option{{"pinned",
            "flag",
            "true",
            "true|false",
            "false: pinned host memory comes from the driver and goes back to it at each free"},
           [](Config& c, std::string_view text) { return set_flag(&c.pinned, text); }},
    Option{{"pinned_threads",
            "count",
            "0",
            "0-256",
            "how many threads touch new pinned memory for the first time; they end before the "
            "call does. 0: one a core, at most 16"},
           [](Config& c, std::string_view text) {
             return set_number(&c.pinned_threads, text, 256);
           }},
    Option{
        {"pinned_limit",
         "bytes",
         "0",
         "bytes, or with K, M, G, T (powers of 1,024)",
         "the most pinned memory that is held, in use and cached; past it an allocation fails "
         "for memory. 0: no limit"},
        [](Config& c, std::string_view text) { return set_bytes(&c.pinned_limit, text); }},
    Option{{"pinned_decay",
            "seconds",
            "60",
            "0-86400",
            "pinned memory that was free for so long goes back to the system, when a pinned "
            "call comes by and no work is in flight. 0: never"},
           [](Config& c, std::string_view text) {
             return set_number(&c.pinned_decay, text, 86400, "s");
           }},
    Option{{"neighbours",
            "flag",
            "true",
            "true|false",
            "true: when the device is full, other processes of the same user under custash are "
            "asked to give back what they cache, and so does this one for them"},
           [](Config& c, std::string_view text) { return set_flag(&c.neighbours, text); }},
    Option{{"control",
            "flag",
            "true",
            "true|false",
            "true: the command can reach the process (custash trim), by a thread of its own from "
            "the first device memory on. Without neighbours and control there is no thread until "
            "memory is exported"},
           [](Config& c, std::string_view text) { return set_flag(&c.control, text); }},
    Option{{"log",
            "choice",
            "off",
            "off|error|warn|info|debug",
            "the least important messages that are written"},
           [](Config& c, std::string_view text) {
             return choose<LogLevel>(&c.log,
                                     text,
                                     {{"off", LogLevel::Off},
                                      {"error", LogLevel::Error},
                                      {"warn", LogLevel::Warn},
                                      {"info", LogLevel::Info},
                                      {"debug", LogLevel::Debug}});
           }},
    Option{{"log_file",
            "path",
            "",
            "",
            "the file that gets the log, appended to; a path without commas, in a folder that is there. Empty: "
            "standard error"},
           [](Config& c, std::string_view text) {
             c.log_file = text;
             return true;
           }},
    Option{{"summary",
            "flag",
            "false",
            "true|false",
            "true: print statistics to standard error at exit"},
           [](Config& c, std::string_view text) { return set_flag(&c.summary, text); }},
    Option{{"stats",
            "choice",
            "basic",
            "basic|detailed",
            "detailed: also count by call site and calling library, how long blocks live, and how "
            "long each call of the driver takes"},
           [](Config& c, std::string_view text) {
             return choose<bool>(
                 &c.detailed_stats, text, {{"basic", false}, {"detailed", true}});
           }},
    Option{{"history",
            "count",
            "0",
            "0-100000000",
            "how many of the last allocations and frees are kept with their call sites, for "
            "snapshots; 40 bytes each. 0: none"},
           [](Config& c, std::string_view text) {
             return set_number(&c.history, text, 100'000'000);
           }},
    Option{{"history_depth",
            "count",
            "16",
            "0-64",
            "how many callers a call site has, in C++ and as many in Python. 0: no call sites"},
           [](Config& c, std::string_view text) {
             return set_number(&c.history_depth, text, 64);
           }},
    Option{{"history_python",
            "flag",
            "true",
            "true|false",
            "true: call sites have the lines of Python, too, in a process that runs some; some "
            "ten microseconds an allocation"},
           [](Config& c, std::string_view text) { return set_flag(&c.history_python, text); }},
    Option{{"snapshot",
            "path",
            "",
            "",
            "write a snapshot of all memory at exit, and with history on one named .oom when memory "
            "runs out for the first time: .html, a report to read; .json; .pickle, for PyTorch's viewer; "
            ".trace.json, for Perfetto. A file that is there stays: the process's number goes "
            "into the name. A link is not followed. Empty: none"},
           [](Config& c, std::string_view text) {
             c.snapshot = text;
             return true;
           }},
    Option{{"snapshot_signal",
            "count",
            "0",
            "0-64",
            "a signal that makes the running process write a snapshot (snapshot:, or "
            "custash.html) and switches history on. 0: none"},
           [](Config& c, std::string_view text) {
             return set_number(&c.snapshot_signal, text, 64);
           }},
    Option{{"leaks",
            "flag",
            "false",
            "true|false",
            "true: say on standard error at exit what is still allocated, by call site"},
           [](Config& c, std::string_view text) { return set_flag(&c.leaks, text); }},
    Option{{"record",
            "path",
            "",
            "",
            "write down every allocation and free in this file, a path without commas; further "
            "processes append their number to it; a file that is there is not overwritten, and a "
            "folder or a device is refused. Empty: nothing"},
           [](Config& c, std::string_view text) {
             c.record = text;
             return true;
           }},
};

constexpr auto kRows = [] {
  std::array<OptionRow, kOptions.size()> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = kOptions[i].row;
  return rows;
}();

}  // namespace

std::span<const OptionRow> option_rows() {
  return kRows;
}

std::span<const Option> option_table() {
  return kOptions;
}

}  // namespace custash
