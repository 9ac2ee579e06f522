// SPDX-License-Identifier: MIT
#include "interpose/reports/dumps.hpp"

#include "interpose/counters/device_stats.hpp"
#include "interpose/counters/passed.hpp"
#include "interpose/history/history.hpp"
#include "interpose/history/leak_text.hpp"
#include "interpose/history/snapshot.hpp"
#include "interpose/observe/observe.hpp"
#include "interpose/process/output_file.hpp"
#include "interpose/process/output_text.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/quietly.hpp"
#include "interpose/process/snapshot_form.hpp"
#include "interpose/reports/launcher.hpp"
#include "interpose/reports/summary.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

namespace custash::dumps {
namespace {

const Config* options = nullptr;  // lives as long as the process
void (*complain)(const std::string& line) = nullptr;
constinit bool writes_snapshots = false;  // the option names a file of a form that is known
constinit std::atomic<bool> ran_out{false};
sem_t bell;
pid_t owner = 0;

// The name of the file; empty where it could not be written.
std::string write_snapshot(Allocator& core, const std::string& path) noexcept {
  try {
    std::string why;
    std::string wrote;
    if (snapshot::write(core, path, snapshot::Existing::Keep, &why, &wrote)) {
      if (snapshot::json_path(path) != path && !launcher::renders(wrote))
        complain("custash: " + snapshot::rendering_hint(wrote));
      return wrote;
    }
    complain("custash: snapshot:" + path + ": " + why + "; no snapshot");
  } catch (...) {
    // No memory for it; the program goes on.
  }
  return "";
}

// Async-signal-safe. A child of a fork does not have the thread.
void ring(int) {
  const int error = errno;
  if (getpid() == owner) (void)sem_post(&bell);
  errno = error;
}

void* answer(void*) {
  for (;;) {
    if (sem_wait(&bell) != 0) continue;
    Allocator* const core = process::running();
    if (core == nullptr) continue;
    const bool was_on = history::started();
    (void)write_snapshot(*core, writes_snapshots ? options->snapshot : snapshot::kUsualPath);
    if (!was_on) (void)history::start(history::kUsualEvents, options->history_depth);
  }
}

const char* listen(int number) {
  struct sigaction before {};

  if (sigaction(number, nullptr, &before) != 0) return "no such signal";
  if (before.sa_handler != SIG_DFL) return "the program handles that signal itself";
  if (sem_init(&bell, 0, 0) != 0) return std::strerror(errno);
  owner = getpid();
  // The thread gets no signal: the program's handlers run on the program's threads.
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread{};
  const int error = pthread_create(&thread, nullptr, answer, nullptr);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (error != 0) return std::strerror(error);
  pthread_detach(thread);

  struct sigaction ours {};

  ours.sa_handler = ring;
  ours.sa_flags = SA_RESTART;
  return sigaction(number, &ours, nullptr) == 0 ? nullptr : std::strerror(errno);
}

// Once a process.
void out_of_memory() {
  Allocator* const core = process::running();
  if (core == nullptr || !writes_snapshots || ran_out.exchange(true)) return;
  try {
    const std::string for_launcher = launcher::oom_path();
    const std::string wrote = write_snapshot(
        *core,
        for_launcher.empty() ? output::with_mark(options->snapshot, ".oom") : for_launcher);
    if (!for_launcher.empty()) launcher::note(&ledger::Header::oom_path, wrote);
  } catch (...) {
  }
}

void print_summary(Allocator& core) {
  int count = 0;
  if (core.driver().device_get_count(&count) != CUDA_SUCCESS) return;
  std::vector<custash_device_stats_t> devices;
  for (int device = 0; device < count; ++device)
    devices.push_back(device_stats::counters(core, device));
  output::write_to_stderr(summary_text(devices, passed::table().read()));
}

void after(const observe::Call& call, CUresult result, observe::Token) {
  if (call.ran_out(result) && call.memory == observe::MemoryKind::Device) out_of_memory();
}

constexpr observe::Observer kObserver{.after = after};

}  // namespace

void begin(const Config& config, void (*say)(const std::string& line)) {
  options = &config;
  complain = say;
  writes_snapshots = snapshot::form_of_ending(config.snapshot).has_value();
  if (!writes_snapshots && !config.snapshot.empty())
    say("custash: snapshot:" + config.snapshot + ": " + snapshot::kOtherEnding +
        "; no snapshot");
  if (writes_snapshots) observe::begin(observe::Watcher::Dumps, &kObserver);
  const bool follow = config.history > 0 || config.leaks || config.detailed_stats;
  if (follow && !history::start(config.history, config.history_depth))
    say("custash: history: no memory for " + std::to_string(config.history) +
        " events; no history");
  if (config.snapshot_signal == 0) return;
  if (const char* const why = listen(static_cast<int>(config.snapshot_signal)))
    say("custash: snapshot_signal:" + std::to_string(config.snapshot_signal) + ": " + why +
        "; not used");
}

void at_exit(Allocator& core) noexcept {
  if (options == nullptr) return;
  using launcher::Report;
  if (options->summary && !launcher::takes(Report::Summary))
    quietly([&] { print_summary(core); });
  if (writes_snapshots && !launcher::takes(Report::History))
    (void)write_snapshot(core, options->snapshot);
  if (!options->leaks || launcher::takes(Report::Leaks)) return;
  try {
    const std::string text = leaks::text("still allocated at exit");
    complain(text.substr(0, text.size() - 1));
  } catch (...) {
  }
}

}  // namespace custash::dumps
