// SPDX-License-Identifier: MIT

#include "interpose/check/guard_report.hpp"
#include "interpose/process/process.hpp"

#include <cerrno>
#include <csignal>

#include <ucontext.h>

namespace custash::guards {
namespace {

struct sigaction older;  // the program's, from before begin

const char* access_of([[maybe_unused]] void* context) {
#ifdef __x86_64__
  constexpr greg_t kWrite = 2;  // of the page fault's error code
  const auto error = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR];
  return (error & kWrite) != 0 ? "writes" : "reads";
#else
  return "uses";
#endif
}

void pass_on(int number, siginfo_t* info, void* context) {
  if ((older.sa_flags & SA_SIGINFO) != 0) return older.sa_sigaction(number, info, context);
  if (older.sa_handler != SIG_DFL && older.sa_handler != SIG_IGN)
    return older.sa_handler(number);
  // The access happens once more after the return, and ends the program.
  (void)sigaction(number, &older, nullptr);
  if (info->si_code <= 0) (void)raise(number);  // no access: somebody has sent it
}

void heed(int number, siginfo_t* info, void* context) {
  const int error = errno;
  const auto address = reinterpret_cast<Address>(info->si_addr);
  if (info->si_code > 0 && may_be_guarded(address) && process::pinned().guards(address))
    host_fault(address,
               access_of(context),
               reinterpret_cast<stacks::Word>(__builtin_return_address(0)));
  errno = error;
  pass_on(number, info, context);
}

}  // namespace

bool heed_host_faults() noexcept {
  struct sigaction ours {};

  ours.sa_sigaction = heed;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  return sigaction(SIGSEGV, nullptr, &older) == 0 && sigaction(SIGSEGV, &ours, nullptr) == 0;
}

}  // namespace custash::guards
