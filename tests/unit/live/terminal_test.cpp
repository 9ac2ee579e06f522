// SPDX-License-Identifier: MIT
#include "tools/command/live/terminal.hpp"

#include "tests/catch.hpp"

#include <cstdlib>
#include <string>

using namespace custash::live;

namespace {

std::string keys_in(std::string* bytes) {
  std::string text;
  for (const Press& each : take_keys(bytes)) {
    constexpr const char* kNames = "-UDE!";
    text += each.key == Key::Character ? each.character : kNames[static_cast<int>(each.key)];
  }
  return text;
}

std::string keys_in(std::string bytes) {
  return keys_in(&bytes);
}

}  // namespace

TEST_CASE("arrows are keys in both modes of a terminal") {
  CHECK(keys_in("a\033[Ab\033OBq") == "aUbDq");
  CHECK(keys_in("\033[1;5A\033[15~x") == "--x");
  CHECK(keys_in("\033\033[A") == "EU");
}

TEST_CASE("a sequence that is cut off waits for its rest") {
  std::string bytes = "j\033[";
  CHECK(keys_in(&bytes) == "j");
  CHECK(bytes == "\033[");
  bytes += "B";
  CHECK(keys_in(&bytes) == "D");
  CHECK(bytes.empty());
}

TEST_CASE("a sequence without an end does not hold keys back for ever") {
  std::string bytes = "\033[" + std::string(40, '1') + "q";
  CHECK(keys_in(&bytes).back() != 'q');
  bytes = "\033[" + std::string(40, '1');
  CHECK(keys_in(&bytes).front() == 'E');
  CHECK(bytes.empty());
}

TEST_CASE("the locale says whether blocks can be shown") {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"})
    unsetenv(name);
  CHECK_FALSE(has_unicode());
  setenv("LANG", "en_US.UTF-8", 1);
  CHECK(has_unicode());
  setenv("LC_ALL", "C", 1);
  CHECK_FALSE(has_unicode());
  setenv("LC_ALL", "", 1);
  CHECK(has_unicode());
}
