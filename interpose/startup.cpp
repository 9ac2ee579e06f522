// SPDX-License-Identifier: MIT
// The composition root, above every layer: builds the core, starts each part and connects them;
// stops them at exit and in a forked child. Loading reads the environment and does nothing
// else.
#include "allocator/base/config_values.hpp"
#include "allocator/base/log.hpp"
#include "allocator/base/thread.hpp"
#include "allocator/memory_limits.hpp"
#include "allocator/peer_processes.hpp"
#include "allocator/sleep/sleep.hpp"
#include "interpose/counters/driver_calls.hpp"
#include "interpose/counters/passed.hpp"
#include "interpose/hooks/async_memory.hpp"
#include "interpose/hooks/charges.hpp"
#include "interpose/hooks/engines.hpp"
#include "interpose/hooks/handle_table.hpp"
#include "interpose/hooks/host_ranges.hpp"
#include "interpose/hooks/layouts.hpp"
#include "interpose/hooks/nvml.hpp"
#include "interpose/hooks/parameters.hpp"
#include "interpose/ipc/ipc.hpp"
#include "interpose/observe/observe.hpp"
#include "interpose/observe/report_library.hpp"
#include "interpose/process/check_library.hpp"
#include "interpose/process/checkers.hpp"
#include "interpose/process/descriptors.hpp"
#include "interpose/process/file_name.hpp"
#include "interpose/process/life.hpp"
#include "interpose/process/limit_group.hpp"
#include "interpose/process/output_file.hpp"
#include "interpose/process/peer_clients.hpp"
#include "interpose/process/sleep_library.hpp"
#include "interpose/real/dlsym.hpp"
#include "interpose/real/loaded.hpp"
#include "interpose/real/real_driver.hpp"
#include "interpose/service/live.hpp"
#include "interpose/service/neighbours.hpp"
#include "interpose/service/room.hpp"
#include "interpose/service/verbs.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

namespace custash::process {
namespace {

// The verbs of the service. Each is a row here; its function may be anywhere.
constexpr service::Verb kVerbs[] = {
    {"bye", ipc::leave, true},  // importers' four
    {"deep_trim", sleep_verbs::deep_trim, false, sleep_verbs::prepare},
    {"give", neighbours::give, true},
    {"history", snapshot::answer_history, false, snapshot::prepare},
    {"leaks", snapshot::answer_leaks, false, snapshot::prepare},
    {"live", live::answer},
    {"pages", ipc::pages, true},
    {"ping", service::ping, true},
    {"share", ipc::share, true},
    {"sleep", sleep_verbs::sleep, false, sleep_verbs::prepare},
    {"snapshot", snapshot::answer, false, snapshot::prepare},
    {"stat", live::answer_statistics},
    {"trim", service::trim},
    {"unshare", ipc::unshare, true},
    {"wake", sleep_verbs::wake},
    {"yield", room::yield, true},
};

constinit Driver driver{};
constinit const char* conf = nullptr;
constinit bool conf_read = false;
constinit const char* launcher = nullptr;  // `custash run` waits for this process

// Schedulers of containers set these: for all devices, and for one.
constexpr const char* kMemoryLimit = "CUDA_DEVICE_MEMORY_LIMIT";
constexpr int kLimitedDevices = 64;
constinit const char* memory_limit = nullptr;
constinit std::array<const char*, kLimitedDevices> memory_limit_of{};

const char* kept(const std::string& name) {
  const char* const text = secure_getenv(name.c_str());
  return text != nullptr && *text != '\0' ? strdup(text) : nullptr;
}

// Not at first use: by then the program may have changed its environment, and getenv races with
// setenv in other threads. (Only a constructor in the program's libraries can run earlier.)
__attribute__((constructor)) void read_environment() {
  if (conf_read) return;
  conf_read = true;
  checkers::read_environment();
  launcher = kept(kLauncher);
  conf = kept("CUSTASH_CONF");
  memory_limit = kept(kMemoryLimit);
  const std::string prefix = std::string(kMemoryLimit) + "_";
  const auto names_device = [&](const char* each) {
    return std::string_view(each).starts_with(prefix);
  };
  bool any = false;  // every process comes here: most have none
  for (char** each = environ; each != nullptr && *each != nullptr; ++each)
    any = any || names_device(*each);
  for (std::size_t i = 0; any && i < memory_limit_of.size(); ++i)
    memory_limit_of[i] = kept(prefix + std::to_string(i));
}

void before_exit() {
  const CancellationOff off;
  // Later calls go to the driver, which knows nothing of memory that sleeps.
  constexpr Nanoseconds kPatience = 10'000'000'000;
  if (Allocator* const core = current.load()) Sleep(*core).wake_within(kPatience);
  if (!shut_down()) return;
  service::stop();
  Allocator& core = *made_core();
  const CheckLibrary* const checks = check_library();
  if (checks != nullptr) checks->finish(core);
  const ReportLibrary* const reports = report_library();
  if (reports != nullptr) reports->finish(core);
  if (checks != nullptr) checks->print();
  observe::end(observe::Watcher::Nvtx);  // before the tool ends with the process
  if (reports != nullptr) reports->print(core);
}

void in_forked_child() {
  const CancellationOff off;
  if (!become_forked()) return;
  host_ranges::reset_lock_after_fork();
  layouts::reset_lock_after_fork();
  passed::table().reset_lock_after_fork();
  handle_table().reset_lock_after_fork();
  if (const CheckLibrary* const checks = check_library()) checks->reset_locks_after_fork();
  service::after_fork_in_child();
  ipc::after_fork_in_child();
  if (Allocator* const core = made_core()) {
    core->after_fork_in_child();
    pinned().after_fork_in_child();
  }
}

void say(const std::string& line) {
  output::write_to_stderr(line + "\n");
}

void say_switched_off() {
  if (started_here()) say("custash: enabled:false: 0 allocations served");
}

// Why nothing is checked, although it was requested. Written once, before threads could read
// it.
constinit std::string* unchecked = nullptr;

void say_unchecked() {
  if (started_here()) say("custash: guard: nothing was checked: " + *unchecked);
}

void leave_unchecked(const std::string& why, bool show) {
  unchecked = new std::string(why);  // never destroyed
  if (show && std::atexit(say_unchecked) != 0) say_unchecked();
}

// Without the library the program runs, and nothing is checked.
void open_checks(Config* config) {
  if (!config->guard.any() && !config->check_streams) return;
  if (const std::string why = open_check_library(); !why.empty()) {
    log(LogLevel::Error, "event=nothing_checked reason=\"" + why + "\"");
    leave_unchecked(why, config->guard_show && launcher == nullptr);
    config->guard = {};
    config->check_streams = false;
    return;
  }
  check_library()->serve(&config->guard);
}

bool launcher_shows_findings() {
  const std::string_view text = launcher == nullptr ? "" : launcher;
  return text.substr(0, text.find(' ')).find('f') != std::string_view::npos;
}

bool wants_reports(const Config& config) {
  return launcher != nullptr || !config.record.empty() || !config.snapshot.empty() ||
         config.snapshot_signal != 0 || config.history > 0 || config.leaks ||
         config.detailed_stats || config.summary || config.nvtx;
}

// A signal that nobody handles would end the program.
void ignore(int number) {
  struct sigaction action {};

  if (number == 0 || sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL)
    return;
  action.sa_handler = SIG_IGN;
  (void)sigaction(number, &action, nullptr);
}

// Without the library the program runs, and nothing is reported. Null where no option asks.
const ReportLibrary* open_reports(const Config& config) {
  if (!wants_reports(config)) return nullptr;
  std::string why;
  const ReportLibrary* const reports = open_report_library(&why);
  if (reports == nullptr) {
    say("custash: " + why + "; nothing is recorded or reported");
    ignore(static_cast<int>(config.snapshot_signal));
  } else if (!config.record.empty() && !reports->record(config.record, say, &why)) {
    say("custash: record:" + config.record + ": " + why + "; nothing is recorded");
  }
  return reports;
}

// Without the library the program runs, and its memory stays awake.
void open_sleep(Allocator& core) {
  const Config& config = core.config();
  std::string why;
  if (config.sleep_after + config.deep_trim_after + config.yield_after == 0) return;
  if (open_sleep_library(core, &why) == nullptr)
    say("custash: " + why + "; no memory goes to sleep or is trimmed deeply");
}

// A checker cannot see that a cached block is used after its free or past its end.
void heed_checkers(Config* config) {
  if (const char* const seen = checkers::debugger())
    log(LogLevel::Info, "event=debugger seen=" + std::string(seen));
  const char* const seen = checkers::sanitizer();
  if (seen != nullptr && config->caching == Caching::Auto) {
    config->caching = Caching::Never;
    log(LogLevel::Warn,
        "event=caching_off reason=\"compute-sanitizer\" seen=" + std::string(seen));
  }
  if (config->caching == Caching::Never) config->pinned = false;
}

void fill_names(Config* config) {
  for (std::string* const name :
       {&config->record, &config->snapshot, &config->log_file, &config->guard_report})
    if (file_name::has_marks(*name)) *name = file_name::filled(*name, file_name::own_parts());
}

void read_limit(const std::string& name, const char* text, SizeLimit* limit) {
  if (text != nullptr && !config_values::set_limit(limit, text))
    say("custash: " + name + "=" + text + " is no size (3000m, 20G) or below 2 MiB; ignored");
}

// An option wins over the environment. HAMi's library limits the process by itself.
void set_limit_all(Config* config, bool given) {
  if (!given) {
    read_limit(kMemoryLimit, memory_limit, &config->limit_all);
    for (std::size_t i = 0; i < memory_limit_of.size(); ++i)
      if (memory_limit_of[i] != nullptr)
        read_limit(std::string(kMemoryLimit) + "_" + std::to_string(i),
                   memory_limit_of[i],
                   &config->limit_of[static_cast<int>(i)]);
  }
  const bool limits = config->limit_all.any() || !config->limit_of.empty();
  if (!limits && !config->limit_group.empty())
    say("custash: CUSTASH_CONF: limit_group:" + config->limit_group + " needs limit_all");
  if (!limits || how_many_loaded("libvgpu.so") == 0) return;
  config->limit_all = {};
  config->limit_of.clear();
  say("custash: HAMi's libvgpu.so limits this process; limit_all is off");
}

// The processes of a fleet guard different allocations.
void set_seed(GuardChoice* guard) {
  if (guard->any() && guard->seed == 0 &&
      getrandom(&guard->seed, sizeof guard->seed, GRND_NONBLOCK) != sizeof guard->seed)
    guard->seed = static_cast<std::uint32_t>(getpid());
}

int tick(Allocator& core) {
  const Config& config = core.config();
  int wait = idle::tick(core);
  if (config.sleep_after != 0 || config.deep_trim_after != 0 || config.sleep_pinned != 0)
    wait = std::min(wait, sleep_verbs::tick(core));
  return config.yield_after != 0 ? std::min(wait, room::tick(core)) : wait;
}

}  // namespace

State build() {
  if (another_copy_serves()) return State::Disabled;
  read_environment();
  ParsedConfig parsed = parse_config(conf == nullptr ? "" : conf);
  for (const std::string& complaint : parsed.complaints)
    say(complaint);
  for (const std::string& notice : parsed.notices)
    say(notice);
  set_limit_all(&parsed.config,
                std::any_of(parsed.given.begin(), parsed.given.end(), [](const auto& each) {
                  return each.first == "limit_all";
                }));
  fill_names(&parsed.config);
  parsed.config.guard_show = parsed.config.guard_report == "-" || launcher_shows_findings();
  const ReportLibrary* const reports = open_reports(parsed.config);
  if (!parsed.config.enabled) {
    if (launcher != nullptr) return State::Disabled;  // it says so
    if (parsed.config.summary) (void)std::atexit(say_switched_off);
    if (parsed.config.guard_show) leave_unchecked("enabled:false", true);
    return State::Disabled;
  }
  // A guard that finds something must be heard.
  if ((parsed.config.guard.any() || parsed.config.check_streams) &&
      parsed.config.log == LogLevel::Off && !parsed.config.guard_show)
    parsed.config.log = LogLevel::Error;
  set_seed(&parsed.config.guard);
  if (const std::string why = log_file::open(parsed.config.log, parsed.config.log_file);
      !why.empty())
    say("custash: " + why + "; no log is kept");
  open_checks(&parsed.config);
  heed_checkers(&parsed.config);
  if (!stands_in_front()) {
    parsed.config.single_stream = false;
    log(LogLevel::Info, "event=opened_late reason=\"submissions are not seen\"");
  }
  if (!driver.fill(real::symbol)) {
    log(LogLevel::Error, "event=disabled reason=\"the driver lacks a call that is needed\"");
    return State::Disabled;
  }
  driver_calls::time_calls(
      &driver,
      parsed.config.detailed_stats ? driver_calls::Which::All : driver_calls::Which::Slow);
  host_ranges::follow(&driver);
  if (parsed.config.pools == Pools::Driver) async_memory::leave_to_driver();
  service::answer_with(kVerbs, ipc::session_ended);
  if (parsed.config.control || parsed.config.neighbours) service::start_with_memory(driver);
  Allocator& core = make_core(driver, parsed.config);
  Sleep(core).set_mapped(handle_table());
  open_sleep(core);
  core.limits().set_quota_calls({neighbours::uuid_of, limit_group::join, charges::refresh});
  if (charges::counts(core)) {
    nvml::open_library();
    core.limits().add_oom_hook(charges::measure_again, &core);
  }
  service::tick_with(tick);
  if (PeerClients().possible()) PeerProcesses(core).set_registering(peer_clients::in_use);
  if (const char* const engine = engines::used()) PeerProcesses(core).let_engine_reach(engine);
  if (parsed.config.neighbours)
    PeerProcesses(core).set_neighbours(
        {room::ask, room::ask_to_sleep, room::take_turn, room::is_taken});
  // The driver registered its own exit handler in cuInit; ours was registered later, so it runs
  // first.
  if (std::atexit(before_exit) != 0 || pthread_atfork(nullptr, nullptr, in_forked_child) != 0) {
    log(LogLevel::Error, "event=disabled reason=\"no room for exit and fork handlers\"");
    return State::Disabled;
  }
  if (core.config().nvtx && reports != nullptr && !reports->start_nvtx())
    say("custash: nvtx: custash was built without NVTX's headers");
  if (reports != nullptr) reports->begin(core, launcher, say);
  if (reports != nullptr && unchecked != nullptr) reports->unchecked(*unchecked);
  if (const CheckLibrary* const checks = check_library()) checks->begin(core.config(), say);
  log(LogLevel::Info, "event=started");
  return State::Running;
}

}  // namespace custash::process
