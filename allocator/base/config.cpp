// SPDX-License-Identifier: MIT
// The table of options. A row describes an option for users and says how its text becomes a
// field. No other code knows an option by name. No state, reads no environment.
#include "allocator/base/config_table.hpp"
#include "allocator/base/config_values.hpp"

#include <array>
#include <cstddef>

namespace custash {
namespace {

using namespace config_values;  // NOLINT: the rows are written in these words

constexpr std::array kOptions = {
    Option{{"enabled",
            "flag",
            "true",
            "true|false",
            "false: pass every call to the driver untouched."},
           [](Config& c, std::string_view text) { return set_flag(&c.enabled, text); }},
    Option{
        {"backing",
         "choice",
         "auto",
         "auto|vmm|whole|driver",
         "How custash gets device memory. vmm: mapped pages. whole: the same, with each block "
         "above 1 MiB in one physical allocation, for GDRCopy and the like. driver: "
         "cuMemAlloc. auto: vmm if possible, and whole once the process uses GDRCopy or the "
         "like."},
        [](Config& c, std::string_view text) {
          return choose<Backing>(&c.backing,
                                 text,
                                 {{"auto", Backing::Auto},
                                  {"vmm", Backing::Vmm},
                                  {"whole", Backing::Whole},
                                  {"driver", Backing::Driver}});
        }},
    Option{
        {"free",
         "choice",
         "auto",
         "auto|copies|never|strict|parameters",
         "When cudaFree and cuMemFree wait. auto: only if pending work may write memory that "
         "the host can read. copies: also for copies to the device out of pinned memory. "
         "strict: for all work on the device, like the driver, and for work that custash does "
         "not see. never: not at all, which is unsafe if the program relies on a free to wait. "
         "parameters: as auto, but a kernel counts only if its parameters hold an address of "
         "host memory; wrong if kernels find such addresses in device memory."},
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
        {"limit",
         "limit",
         "0",
         "bytes, or with K, M, G, T (powers of 1,024; 1.5G), or a share of the device with %",
         "The most device memory to hold on each device, in use and cached. Allocations beyond "
         "it fail with an out-of-memory error. At least 2M. 0: no limit."},
        [](Config& c, std::string_view text) { return set_limit(&c.limit, text); }},
    Option{
        {"limit_all",
         "limit",
         "0",
         "bytes, or with K, M, G, T (powers of 1,024; 1.5G), or a share of the device with %",
         "The most device memory that the process uses on each device by any call. "
         "Allocations beyond it fail with an out-of-memory error, and cudaMemGetInfo and NVML "
         "report it as the device's size. CUDA_DEVICE_MEMORY_LIMIT (all devices) and "
         "CUDA_DEVICE_MEMORY_LIMIT_0 (one) set it, too. Not a security boundary. 0: no limit."},
        [](Config& c, std::string_view text) { return set_limit(&c.limit_all, text); }},
    Option{{"decay",
            "seconds",
            "10",
            "0-86400",
            "Release device memory to the driver after this many seconds without use (up to "
            "twice as many), even if the process makes no call. Never stalls. 0: never."},
           [](Config& c, std::string_view text) { return set_seconds(&c.decay, text); }},
    Option{{"patience",
            "seconds",
            "10",
            "0-86400",
            "How many seconds an allocation on a full device waits for running work before it "
            "fails with out of memory. The timer restarts whenever work finishes. 0: do not "
            "wait."},
           [](Config& c, std::string_view text) { return set_seconds(&c.patience, text); }},
    Option{{"guard",
            "guard",
            "off",
            "off|all|1/N|1/N@SEED|SIZE-SIZE, or with +fill",
            "Put allocations on their own pages, surrounded by unmapped addresses, so that "
            "out-of-bounds and use-after-free accesses fault. all, one in N, or a size range. "
            "+fill: fill them with bytes of 255 to expose reads of uninitialised memory."},
           [](Config& c, std::string_view text) { return set_guard(&c.guard, text); }},
    Option{{"check_streams",
            "flag",
            "false",
            "true|false",
            "true: report device memory used on a stream that is not ordered after its "
            "allocation and before its free. Findings go where guard_report says."},
           [](Config& c, std::string_view text) { return set_flag(&c.check_streams, text); }},
    Option{
        {"pinned",
         "pinned",
         "true",
         "true|false|SIZE",
         "false: pass pinned host memory to the driver, without a cache. SIZE (bytes, or with "
         "K, M, G, T): the most to hold, in use and cached. Allocations beyond it fail with "
         "an out-of-memory error."},
        set_pinned},
    Option{
        {"deep_trim_after",
         "seconds",
         "0",
         "0-86400",
         "After this many seconds without submitted work, release all free memory to the "
         "driver, compacting partly used pages. Also before an allocation fails for lack of "
         "memory. Needs control. 0: never."},
        [](Config& c, std::string_view text) { return set_seconds(&c.deep_trim_after, text); }},
    Option{{"sleep_after",
            "seconds",
            "0",
            "0-86400",
            "Put the device memory to sleep after this many seconds without submitted work. "
            "The next submission wakes it. Needs control. 0: never."},
           [](Config& c, std::string_view text) { return set_seconds(&c.sleep_after, text); }},
    Option{{"sleep_dir",
            "path",
            "",
            "",
            "Directory, without commas in its path, for sleeping memory that does not fit in "
            "host memory, in an unnamed file that only you can read. Empty: none; the process "
            "then stays awake if host memory is too small."},
           [](Config& c, std::string_view text) { return set_text(&c.sleep_dir, text); }},
    Option{{"neighbours",
            "flag",
            "true",
            "true|false",
            "true: when the device is full, ask your other processes under custash to release "
            "cached memory, and do the same for them. cudaMemGetInfo counts it as free."},
           [](Config& c, std::string_view text) { return set_flag(&c.neighbours, text); }},
    Option{
        {"control",
         "flag",
         "true",
         "true|false",
         "Start a service thread so that custash trim, snapshot and top can reach this "
         "process. It starts with the first allocation. With neighbours and control both off "
         "there is no thread until memory is exported, and idle memory returns only during "
         "later calls that miss the cache."},
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
            "The file to append the log to: a path without commas, in an existing folder. %r, "
            "%h, %p as in record. Empty: standard error."},
           [](Config& c, std::string_view text) { return set_text(&c.log_file, text); }},
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
         "detailed: also count by call site and calling library, and measure lifetimes of "
         "blocks and the time of each driver call."},
        [](Config& c, std::string_view text) {
          return choose<bool>(&c.detailed_stats, text, {{"basic", false}, {"detailed", true}});
        }},
    Option{{"nvtx",
            "flag",
            "false",
            "true|false",
            "true: show in Nsight Systems and other NVTX tools what custash does: calls as "
            "ranges, memory in use and held as counters."},
           [](Config& c, std::string_view text) { return set_flag(&c.nvtx, text); }},
    Option{{"history",
            "count",
            "0",
            "0-100000000",
            "How many of the latest allocations and frees to keep with their call sites, for "
            "snapshots. 48 bytes each. 0: none."},
           number<&Config::history, 100'000'000>},
    Option{
        {"snapshot",
         "path",
         "",
         "",
         "Write a snapshot of all memory at exit, and with history also one named .oom when "
         "memory first runs out. The ending chooses the format: .html, a report; .json; "
         ".pickle, for PyTorch's viewer; .trace.json, for Perfetto; .pb.gz, for pprof; "
         ".folded, for flame graphs. Without custash run it is written as JSON (x.html.json), "
         "and a message names the command that makes x.html. If the file exists, the "
         "process's number is added to the name; links are not followed. %r, %h, %p as in "
         "record. Empty: none."},
        [](Config& c, std::string_view text) { return set_text(&c.snapshot, text); }},
    Option{{"leaks",
            "flag",
            "false",
            "true|false",
            "true: list at exit on standard error what is still allocated, by call site."},
           [](Config& c, std::string_view text) { return set_flag(&c.leaks, text); }},
    Option{{"record",
            "path",
            "",
            "",
            "Record every allocation and free in this file, a path without commas. Further "
            "processes append their number to the path. An existing file is not overwritten; "
            "a folder or a device is refused. %r stands for the process's rank (none without "
            "one), %h for the host, %p for the process's number, %% for a percent sign. "
            "Empty: none."},
           [](Config& c, std::string_view text) { return set_text(&c.record, text); }},
    // Advanced.
    Option{
        {"caching",
         "choice",
         "auto",
         "auto|always|never",
         "never: pass each allocation to the driver, so that memory checkers see it. always: "
         "also under compute-sanitizer. auto: never under it.",
         "`never`: memory checkers that custash does not detect."},
        [](Config& c, std::string_view text) {
          using enum Caching;
          return choose(
              &c.caching, text, {{"auto", Auto}, {"always", Always}, {"never", Never}});
        }},
    Option{
        {"pools",
         "choice",
         "auto",
         "auto|default|driver",
         "Stream-ordered memory (cudaMallocAsync, cudaMallocFromPoolAsync). auto: serve the "
         "default pool, and any program-created pool whose properties custash can honour. "
         "default: serve the default pool only. driver: serve none.",
         "`driver`: programs that keep stream-ordered memory across a reset of the context."},
        [](Config& c, std::string_view text) {
          return choose<Pools>(
              &c.pools,
              text,
              {{"auto", Pools::Auto}, {"default", Pools::Default}, {"driver", Pools::Driver}});
        }},
    Option{{"limit_group",
            "name",
            "",
            "letters, digits, - and _",
            "Processes of one user that name the same group share limit_all: their memory "
            "together stays below it. Empty: no group.",
            "Several processes of one job on one device."},
           [](Config& c, std::string_view text) { return set_name(&c.limit_group, text); }},
    Option{{"run_ahead",
            "percent",
            "10",
            "0-1000",
            "Extra memory, in percent of the bytes in use, that custash may allocate so that "
            "one stream need not wait for another.",
            "Programs with several streams: kernels of four ran 3.7-fold in parallel with 10, "
            "1.9-fold with 0."},
           [](Config& c, std::string_view text) {
             return set_number(&c.run_ahead_percent, text, 1000, "%");
           }},
    Option{
        {"guard_report",
         "path",
         "",
         "",
         "-: print findings of the checks on standard error, with call sites, and a summary "
         "at exit. A path without commas: write them to this file, as JSON. If the file exists, "
         "the process's number is added to the name. %r, %h, %p as in record. Findings that are "
         "not printed are logged.",
         "custash run --check-memory and --check-streams."},
        [](Config& c, std::string_view text) { return set_text(&c.guard_report, text); }},
    Option{{"pinned_decay",
            "seconds",
            "60",
            "0-86400",
            "Release pinned memory to the system after this many seconds without use, while no "
            "work is in flight; work submitted meanwhile waits. 0: never.",
            "`0`, or a longer time: programs that pause for more than a minute (num_host_free "
            "falls)."},
           [](Config& c, std::string_view text) { return set_seconds(&c.pinned_decay, text); }},
    Option{{"yield_after",
            "seconds",
            "0",
            "0-86400",
            "Go to sleep for another process of the user that lacks device memory, after this "
            "many seconds without work. 0: never.",
            "Several servers on one device: the one that gets a request takes the room of one "
            "that idles."},
           [](Config& c, std::string_view text) { return set_seconds(&c.yield_after, text); }},
    Option{{"priority",
            "count",
            "0",
            "0-100",
            "A process with yield_after and a lower priority goes to sleep for this one even "
            "while it works, once its kernels have ended.",
            "A server beside a training that uses the whole device."},
           number<&Config::priority, 100>},
    Option{{"sleep_pinned",
            "bytes",
            "0",
            "bytes, or with K, M, G, T (powers of 1,024)",
            "The most pinned host memory for the contents of sleeping memory. It stays for "
            "the next sleep. Contents beyond it go to pageable memory, which is slower.",
            "Servers that sleep often: 16 GiB slept in 0.4 s instead of 1.8, and woke in 0.3 s "
            "instead of 2."},
           [](Config& c, std::string_view text) { return set_bytes(&c.sleep_pinned, text); }},
    Option{{"sleep_memory",
            "bytes",
            "all",
            "all, or bytes, or with K, M, G, T (powers of 1,024)",
            "The most pageable host memory for the contents of sleeping memory. all: what the "
            "machine and the cgroup have. Contents beyond it go to sleep_dir.",
            "Hosts with little memory."},
           [](Config& c, std::string_view text) {
             return set_bytes_or_all(&c.sleep_memory, text);
           }},
    Option{{"history_depth",
            "count",
            "16",
            "0-64",
            "How many callers a call site has, in C++ and as many in Python. 0: no call "
            "sites.",
            "Deep programs. A cudaMalloc and cudaFree of 4 KiB took 0.46 µs with 16 and 0.31 "
            "with 0."},
           number<&Config::history_depth, 64>},
    Option{
        {"snapshot_signal",
         "count",
         "0",
         "0-64",
         "The number of a signal that makes the process write a snapshot (option snapshot, or "
         "custash.html) and switch history on. 0: none.",
         "Containers whose processes custash snapshot cannot reach."},
        number<&Config::snapshot_signal, 64>},
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
