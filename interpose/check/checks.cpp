// SPDX-License-Identifier: MIT
#include "interpose/build_id.hpp"
#include "interpose/check/call.hpp"
#include "interpose/check/check_time.hpp"
#include "interpose/check/core_table.hpp"
#include "interpose/check/graph_uses.hpp"
#include "interpose/check/guard_findings.hpp"
#include "interpose/check/guard_report.hpp"
#include "interpose/check/guarded_memory.hpp"
#include "interpose/check/kernel_name.hpp"
#include "interpose/check/stream_report.hpp"

namespace custash {
namespace {

void serve(GuardChoice* choice) {
  GuardedMemory::serve(choice);
  choice->report = guards::slack_written;
}

void begin(const Config& config, void (*say)(const std::string& line)) {
  check::config = &config;
  if (config.guard.any()) {
    guards::begin(config, say, real::symbol);
    if (config.pinned && !guards::heed_host_faults())
      log(LogLevel::Warn, "event=host_faults_unseen");
  }
  if (config.check_streams) {
    streams::begin(config, say, real::symbol);
    graph_uses::begin();
  }
  check::observe_calls();
}

void finish(Allocator& core) noexcept {
  guards::finish(core);
  streams::finish();
}

void reset_locks_after_fork() noexcept {
  guards::reset_lock_after_fork();
  streams::reset_lock_after_fork();
  graph_uses::reset_lock_after_fork();
  reset_kernel_names_after_fork();
}

constexpr CheckLibrary kLibrary{
    .build = kBuild,
    .out_of_memory = throw_bad_alloc,
    .serve = Contained<serve>::call,
    .begin = Contained<begin>::call,
    .finish = finish,
    .print = guards::print_findings,
    .reset_locks_after_fork = reset_locks_after_fork,
    .context_ended = guards::context_ended,
    .fault = guards::fault,
    .named = streams::named,
    .nanoseconds = streams::CheckTime::nanoseconds,
    .sampled_calls = streams::CheckTime::sampled,
};

}  // namespace
}  // namespace custash

const custash::CheckLibrary* custash_open_checks(const custash::CoreTable* core) {
  custash::prepare_unwinder();
  custash::use_core(core);
  return &custash::kLibrary;
}
