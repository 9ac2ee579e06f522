// SPDX-License-Identifier: MIT
// What the system's log tells of a fault of the GPU. The lines were taken from an H100.
#include "interpose/check/kernel_log.hpp"

#include "tests/catch.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

using namespace custash;

namespace {

std::string line(const std::string& process,
                 const std::string& address = "0x3_02900000",
                 const std::string& type = "ACCESS_TYPE_VIRT_WRITE",
                 const std::string& number = "31") {
  return "4,360,25894115,c;NVRM: Xid (PCI:0000:00:06): " + number + ", pid=" + process +
         ", name=diag2, channel 0x0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 "
         "GPCCLIENT_T1_8 faulted @ " +
         address + ". Fault is of type FAULT_PDE " + type + "\n";
}

// A log that holds the line of another fault already.
struct Log {
  char path[32] = "/tmp/custash-log.XXXXXX";
  int file = mkstemp(path);

  Log() {
    write(line(std::to_string(getpid()), "0x1_00000000"));
    kernel_log::begin(path);
  }

  ~Log() {
    kernel_log::end();
    close(file);
    (void)unlink(path);
  }

  void write(const std::string& text) const {
    REQUIRE(::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
};

}  // namespace

TEST_CASE("a line tells the page and the access") {
  const auto found = kernel_log::read(line("446"), 446);
  REQUIRE(found);
  CHECK(found->page == 0x302900000);
  CHECK(found->access == "writes");
  CHECK(kernel_log::read(line("446", "0x7f12_c2a01008", "ACCESS_TYPE_VIRT_READ"), 446)->page ==
        0x7f12c2a01000);
  CHECK(kernel_log::read(line("446", "0x3_0", "ACCESS_TYPE_VIRT_READ"), 446) == std::nullopt);
  CHECK(kernel_log::read(line("446", "0x3_02900000", "ACCESS_TYPE_PHYS_READ"), 446)->access ==
        "reads");
  CHECK(kernel_log::read(line("446", "0x3_02900000", "UNRECOGNIZED"), 446)->access == "uses");
}

TEST_CASE("lines of others and of other faults tell nothing") {
  CHECK_FALSE(kernel_log::read(line("447"), 446));
  CHECK_FALSE(kernel_log::read(line("4460"), 446));
  CHECK_FALSE(kernel_log::read(line("'446'"), 446));
  CHECK_FALSE(kernel_log::read(line("446", "0x3_02900000", "", "13"), 446));
  CHECK_FALSE(kernel_log::read(line("446", "nowhere"), 446));
  CHECK_FALSE(kernel_log::read("", 446));
  CHECK_FALSE(kernel_log::read("4,1,2,-;pid=446, faulted @ 0x3_02900000. ", 446));
}

TEST_CASE("only what comes after the beginning counts") {
  const Log log;
  CHECK_FALSE(kernel_log::fault());
  log.write(line("1"));
  CHECK_FALSE(kernel_log::fault());
  log.write(line(std::to_string(getpid())));
  REQUIRE(kernel_log::fault());
  CHECK_FALSE(kernel_log::fault());
}

TEST_CASE("a child reads its own lines") {
  const Log log;
  const pid_t child = fork();
  if (child == 0) {
    kernel_log::reset_after_fork();
    log.write(line(std::to_string(getpid()), "0x5_00000000"));
    const auto found = kernel_log::fault();
    _exit(found && found->page == 0x500000000 ? 0 : 1);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  log.write(line(std::to_string(getpid())));
  CHECK(kernel_log::fault());
}

TEST_CASE("a file of the program's own under the same number is left alone") {
  const Log log;
  char other[] = "/tmp/custash-own.XXXXXX";
  const int mine = mkstemp(other);
  const std::string text = line(std::to_string(getpid()));
  REQUIRE(write(mine, text.data(), text.size()) > 0);
  (void)lseek(mine, 0, SEEK_SET);
  for (int number = 3; number < mine; ++number)  // as programs do that become daemons
    if (number != log.file) (void)dup2(mine, number);
  CHECK_FALSE(kernel_log::fault());
  kernel_log::end();
  CHECK(lseek(mine, 0, SEEK_CUR) == 0);
  (void)unlink(other);
}

TEST_CASE("where the log cannot be read there is nothing") {
  kernel_log::begin("/nowhere/kmsg");
  CHECK_FALSE(kernel_log::fault());
  kernel_log::end();
}
