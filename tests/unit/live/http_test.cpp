// SPDX-License-Identifier: MIT
#include "tests/catch.hpp"
#include "tools/command/live/server.hpp"

#include <string>

using namespace custash::live;

namespace {

int asked = 0;

std::string answer(const std::string& request) {
  return answer_to(request, [] {
    ++asked;
    return std::string("m 1\n");
  });
}

std::string get(const std::string& target, const std::string& host = "localhost:9838") {
  return answer("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nAccept: */*\r\n\r\n");
}

bool is(const std::string& answer, const std::string& status) {
  return answer.starts_with("HTTP/1.1 " + status);
}

}  // namespace

TEST_CASE("a scrape gets the metrics") {
  const std::string text = get("/metrics");
  CHECK(is(text, "200 OK\r\n"));
  CHECK(text.find("Content-Type: text/plain; version=0.0.4") != text.npos);
  CHECK(text.find("Content-Length: 4\r\n") != text.npos);
  CHECK(text.ends_with("\r\n\r\nm 1\n"));
  CHECK(is(get("/metrics?x=1"), "200"));
  CHECK(is(get("/"), "200"));
  const std::string head = answer("HEAD /metrics HTTP/1.1\r\nhost:127.0.0.1\r\n\r\n");
  CHECK(head.ends_with("\r\n\r\n"));
  CHECK(head.find("Content-Length: 4\r\n") != head.npos);
  CHECK(is(answer("GET /metrics HTTP/1.0\n\n"), "200"));
}

TEST_CASE("what is no request for them is refused, and asks no process") {
  asked = 0;
  CHECK(is(get("/other"), "404"));
  CHECK(is(get("/metrics/"), "404"));
  CHECK(is(get("http://localhost/metrics"), "400"));
  for (const char* const method :
       {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get"})
    CHECK(is(answer(std::string(method) + " /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"),
             "405"));
  for (const char* const line : {"",
                                 "GET",
                                 "GET /metrics",
                                 "GET  /metrics HTTP/1.1",
                                 "GET /metrics HTTP/2.0",
                                 "GET /metrics HTTP/1.1 ",
                                 "PRI * HTTP/2.0",
                                 "\x16\x03\x01"})
    CHECK(is(answer(std::string(line) + "\r\nHost: localhost\r\n\r\n"), "400"));
  CHECK(is(answer("GET /metrics HTTP/1.1\r\n" + std::string(9000, 'x') + "\r\n\r\n"), "431"));
  CHECK(asked == 0);
}

TEST_CASE("another name for this machine is refused") {
  asked = 0;
  for (const char* const host : {"evil.example",
                                 "localhost.evil.example",
                                 "127.0.0.1.evil.example:9838",
                                 "",
                                 "evil.example:80",
                                 "0.0.0.0",
                                 "localhost:x"})
    CHECK(is(get("/metrics", host), "403"));
  CHECK(is(answer("GET /metrics HTTP/1.1\r\n\r\n"), "403"));
  CHECK(
      is(answer("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"), "403"));
  CHECK(is(answer("GET /metrics HTTP/1.0\r\nHost: evil.example\r\n\r\n"), "403"));
  CHECK(asked == 0);
  CHECK(is(get("/metrics", "LocalHost"), "200"));
  CHECK(is(get("/metrics", "127.0.0.1:1"), "200"));
}

TEST_CASE("a request is complete at its empty line, or when it is too long") {
  CHECK_FALSE(is_complete(""));
  CHECK_FALSE(is_complete("GET / HTTP/1.1\r\nHost: x\r\n"));
  CHECK(is_complete("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  CHECK(is_complete("GET / HTTP/1.0\n\n"));
  CHECK(is_complete(std::string(kLongestRequest + 1, 'x')));
}
