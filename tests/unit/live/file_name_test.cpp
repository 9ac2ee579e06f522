// SPDX-License-Identifier: MIT
#include "interpose/process/file_name.hpp"

#include "tests/catch.hpp"

#include <cstdlib>

using namespace custash;

TEST_CASE("marks in a file's name stand for rank, host and process") {
  const file_name::Parts parts{3, "node7", 4711};
  CHECK(file_name::filled("r-%r.html", parts) == "r-3.html");
  CHECK(file_name::filled("%h/%p/%r%r", parts) == "node7/4711/33");
  CHECK(file_name::filled("100%%r", parts) == "100%r");
  CHECK(file_name::filled("a%q%", parts) == "a%q%");
  CHECK(file_name::filled("%r", {std::nullopt, "n", 1}) == "none");
  CHECK(file_name::filled("", parts).empty());
}

TEST_CASE("a name has marks where filling it in would change it") {
  for (const char* const name : {"%r", "a%h", "%p.x", "%%", "%q%%"})
    CHECK(file_name::has_marks(name));
  for (const char* const name : {"", "%", "a%q", "50%", "%R"})
    CHECK_FALSE(file_name::has_marks(name));
}

TEST_CASE("the own rank is the first variable that holds a number") {
  for (const char* const name : kRankVariables)
    unsetenv(name);
  CHECK_FALSE(file_name::own_rank());
  setenv("SLURM_PROCID", "5", 1);
  CHECK(file_name::own_rank() == 5);
  setenv("RANK", "x", 1);
  CHECK(file_name::own_rank() == 5);
  setenv("RANK", "2", 1);
  CHECK(file_name::own_rank() == 2);
  CHECK_FALSE(file_name::own_host().empty());
}
