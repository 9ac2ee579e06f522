// SPDX-License-Identifier: MIT
// The table of options. A row describes an option for users and says how its text becomes a
// field. No other code knows an option by name. No state, reads no environment.
#include "allocator/base/config_table.hpp"
#include "allocator/base/words.hpp"

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

// "true" and "false" are the documented words; people write the others by habit.
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

// A whole number; the text after it is left in `unit`.
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

// Refuses values that make no sense: a limit below one page, or 0 percent.
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

// "all", "1/1000", "1M-64M".
bool set_guard(GuardChoice* guard, std::string_view text) {
  if (choose<GuardChoice>(guard, text, {{"off", {}}, {"all", {.one_in = 1}}})) return true;
  constexpr std::uint64_t kMost = 1'000'000'000;
  if (std::uint32_t one_in = 0; text.starts_with("1/")) {
    const bool ok = set_number(&one_in, text.substr(2), kMost) && one_in != 0;
    if (ok) *guard = {.one_in = one_in};
    return ok;
  }
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) return false;
  GuardChoice sizes{.one_in = 1};
  if (!set_bytes(&sizes.least, text.substr(0, dash)) ||
      !set_bytes(&sizes.most, text.substr(dash + 1)) || sizes.least > sizes.most)
    return false;
  *guard = sizes;
  return true;
}

constexpr std::array kOptions = {
    Option{{"enabled",
            "flag",
            "true",
            "true|false",
            "false: pass every call to the driver untouched."},
           [](Config& c, std::string_view text) { return set_flag(&c.enabled, text); }},
    Option{{"caching",
            "choice",
            "auto",
            "auto|always|never",
            "never: each allocation is the driver's own, so that memory checkers see it. "
            "auto: never under compute-sanitizer."},
           [](Config& c, std::string_view text) {
             using enum Caching;
             return choose(
                 &c.caching, text, {{"auto", Auto}, {"always", Always}, {"never", Never}});
           }},
    Option{{"backing",
            "choice",
            "auto",
            "auto|vmm|driver",
            "How custash gets device memory. vmm: pages mapped into reserved address ranges. "
            "driver: cuMemAlloc. auto: vmm where the device supports it and all other "
            "devices can reach its memory."},
           [](Config& c, std::string_view text) {
             return choose<Backing>(
                 &c.backing,
                 text,
                 {{"auto", Backing::Auto}, {"vmm", Backing::Vmm}, {"driver", Backing::Driver}});
           }},
    Option{
        {"free",
         "choice",
         "auto",
         "auto|copies|never|strict|parameters",
         "When cudaFree and cuMemFree wait. auto: only if pending work may write memory "
         "that the host can read. copies: also for copies to the device out of pinned "
         "memory. strict: for all work on the device, like the driver. never: not at all. "
         "parameters: as auto, but a kernel counts only if its parameters hold an address of "
         "host memory. Wrong where kernels find such addresses in device memory."},
        [](Config& c, std::string_view text) {
          return choose<FreeMode>(&c.free_mode,
                                  text,
                                  {{"auto", FreeMode::Auto},
                                   {"copies", FreeMode::Copies},
                                   {"never", FreeMode::Never},
                                   {"strict", FreeMode::Strict},
                                   {"parameters", FreeMode::Parameters}});
        }},
    Option{
        {"pools",
         "choice",
         "auto",
         "auto|custash|driver",
         "Stream-ordered memory (cudaMallocAsync, cudaMallocFromPoolAsync). auto: custash "
         "serves the default pool. custash: also for pools that the program makes, "
         "where custash keeps what is asked of them. driver: the driver for all."},
        [](Config& c, std::string_view text) {
          return choose<Pools>(
              &c.pools,
              text,
              {{"auto", Pools::Auto}, {"custash", Pools::Custash}, {"driver", Pools::Driver}});
        }},
    Option{{"magazines",
            "flag",
            "true",
            "true|false",
            "true: each thread keeps a few blocks of each size ready and takes no lock for "
            "them."},
           [](Config& c, std::string_view text) { return set_flag(&c.magazines, text); }},
    Option{{"single_stream",
            "flag",
            "true",
            "true|false",
            "true: while a single stream is active, its own order makes freed memory "
            "reusable at once."},
           [](Config& c, std::string_view text) { return set_flag(&c.single_stream, text); }},
    Option{{"run_ahead",
            "percent",
            "10",
            "0-1000",
            "Extra memory, in percent of the bytes in use, that custash may allocate to avoid "
            "making one stream wait for another."},
           [](Config& c, std::string_view text) {
             return set_number(&c.run_ahead_percent, text, 1000, "%");
           }},
    Option{
        {"limit",
         "limit",
         "0",
         "bytes, or with K, M, G, T (powers of 1,024; 1.5G), or a share of the device with %",
         "The most device memory to hold on each device, in use and cached. Beyond it, an "
         "allocation fails with an out-of-memory error. At least 2M. 0: no limit."},
        [](Config& c, std::string_view text) { return set_limit(&c, text); }},
    Option{{"decay",
            "seconds",
            "10",
            "0-86400",
            "Seconds after which unused device memory returns to the driver. Checked during "
            "later calls, so it can take up to twice as long. Never stalls. 0 disables it."},
           [](Config& c, std::string_view text) {
             return set_number(&c.decay, text, 86400, "s");
           }},
    Option{{"patience",
            "seconds",
            "10",
            "0-86400",
            "How long an allocation on a full device waits for work that the driver would not "
            "wait for there, while nothing on the device ends. Then it is out of memory. "
            "0: not at all."},
           [](Config& c, std::string_view text) {
             return set_number(&c.patience, text, 86400, "s");
           }},
    Option{{"guard",
            "guard",
            "off",
            "off|all|1/N|SIZE-SIZE",
            "Allocations that get pages of their own between addresses without memory, so "
            "that an access outside or after the free faults. all; one in N; those of a size."},
           [](Config& c, std::string_view text) { return set_guard(&c.guard, text); }},
    Option{{"pinned",
            "flag",
            "true",
            "true|false",
            "false: pinned host memory comes from the driver and returns to it at each free."},
           [](Config& c, std::string_view text) { return set_flag(&c.pinned, text); }},
    Option{{"pinned_threads",
            "count",
            "0",
            "0-256",
            "How many threads touch new pinned memory for the first time. They end before "
            "the call does. 0: one per core, at most 16."},
           [](Config& c, std::string_view text) {
             return set_number(&c.pinned_threads, text, 256);
           }},
    Option{{"pinned_limit",
            "bytes",
            "0",
            "bytes, or with K, M, G, T (powers of 1,024)",
            "The most pinned memory to hold, in use and cached. Beyond it, an allocation fails "
            "with an out-of-memory error. 0: no limit."},
           [](Config& c, std::string_view text) { return set_bytes(&c.pinned_limit, text); }},
    Option{{"pinned_decay",
            "seconds",
            "60",
            "0-86400",
            "Seconds after which unused pinned memory returns to the system. Checked during "
            "later pinned calls, while no work is in flight. 0 disables it."},
           [](Config& c, std::string_view text) {
             return set_number(&c.pinned_decay, text, 86400, "s");
           }},
    Option{{"neighbours",
            "flag",
            "true",
            "true|false",
            "true: when the device is full, ask other processes of the same user under "
            "custash to return cached memory. Does the same for them."},
           [](Config& c, std::string_view text) { return set_flag(&c.neighbours, text); }},
    Option{{"control",
            "flag",
            "true",
            "true|false",
            "Start a service thread so that custash trim, snapshot and top can reach this "
            "process. It starts with the first device memory. With neighbours and control "
            "both off, there is no thread until memory is exported."},
           [](Config& c, std::string_view text) { return set_flag(&c.control, text); }},
    Option{{"log", "choice", "off", "off|error|warn|info|debug", "The lowest severity to log."},
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
            "The file to append the log to: a path without commas, in an existing folder. "
            "%r, %h, %p as in record. Empty: standard error."},
           [](Config& c, std::string_view text) {
             c.log_file = text;
             return true;
           }},
    Option{{"summary",
            "flag",
            "false",
            "true|false",
            "true: print statistics to standard error at exit."},
           [](Config& c, std::string_view text) { return set_flag(&c.summary, text); }},
    Option{
        {"stats",
         "choice",
         "basic",
         "basic|detailed",
         "detailed: also count by call site and calling library, and measure how long "
         "blocks live and how long each driver call takes."},
        [](Config& c, std::string_view text) {
          return choose<bool>(&c.detailed_stats, text, {{"basic", false}, {"detailed", true}});
        }},
    Option{{"nvtx",
            "flag",
            "false",
            "true|false",
            "true: show NVIDIA's tools (Nsight Systems) what custash does, by NVTX: calls as "
            "ranges, memory in use and held as counters."},
           [](Config& c, std::string_view text) { return set_flag(&c.nvtx, text); }},
    Option{{"history",
            "count",
            "0",
            "0-100000000",
            "How many of the latest allocations and frees to keep with their call sites, for "
            "snapshots. 48 bytes each. 0: none."},
           [](Config& c, std::string_view text) {
             return set_number(&c.history, text, 100'000'000);
           }},
    Option{{"history_depth",
            "count",
            "16",
            "0-64",
            "How many callers a call site has, in C++ and as many in Python. 0: no call "
            "sites."},
           [](Config& c, std::string_view text) {
             return set_number(&c.history_depth, text, 64);
           }},
    Option{{"history_python",
            "flag",
            "true",
            "true|false",
            "true: in a process that runs Python, call sites also have its lines. Costs some "
            "ten microseconds per allocation."},
           [](Config& c, std::string_view text) { return set_flag(&c.history_python, text); }},
    Option{{"snapshot",
            "path",
            "",
            "",
            "Write a snapshot of all memory at exit. With history on, also write one named "
            ".oom when memory first runs out. The ending chooses the form: .html, a report "
            "to read; .json; .pickle, for PyTorch's viewer; .trace.json, for Perfetto. An "
            "existing file stays: the process's number goes into the name. A link is not "
            "followed. %r, %h, %p as in record. Empty: none."},
           [](Config& c, std::string_view text) {
             c.snapshot = text;
             return true;
           }},
    Option{
        {"snapshot_signal",
         "count",
         "0",
         "0-64",
         "The number of a signal. It makes the running process write a snapshot and switch "
         "history on. The option snapshot names the file, else it is custash.html. 0: none."},
        [](Config& c, std::string_view text) {
          return set_number(&c.snapshot_signal, text, 64);
        }},
    Option{{"leaks",
            "flag",
            "false",
            "true|false",
            "true: list on standard error at exit what is still allocated, by call site."},
           [](Config& c, std::string_view text) { return set_flag(&c.leaks, text); }},
    Option{{"record",
            "path",
            "",
            "",
            "Record every allocation and free in this file, a path without commas. Further "
            "processes append their number to the path. An existing file is not overwritten; "
            "a folder or a device is refused. %r stands for the process's rank (none without "
            "one), %h for the host, %p for the process's number, %% for a percent sign. Empty: "
            "nothing."},
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
