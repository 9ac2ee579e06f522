// SPDX-License-Identifier: MIT
#include "tools/command/live/server.hpp"

#include <algorithm>
#include <array>

namespace custash::live {
namespace {

constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kTextType = "text/plain; charset=utf-8";

std::string answer(std::string_view status,
                   std::string_view type,
                   std::string_view body,
                   bool with_body = true) {
  std::string text = "HTTP/1.1 ";
  text += status;
  text += "\r\nContent-Type: ";
  text += type;
  text += "\r\nContent-Length: " + std::to_string(body.size());
  if (status.starts_with("405")) text += "\r\nAllow: GET, HEAD";
  text += "\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n";
  if (with_body) text += body;
  return text;
}

std::string refusal(std::string_view status) {
  return answer(status, kTextType, std::string(status.substr(4)) + "\n");
}

// The next line, without its end, taken out of `text`.
std::string_view take_line(std::string_view* text) {
  const std::size_t end = std::min(text->find('\n'), text->size());
  std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view take_word(std::string_view* text) {
  const std::size_t end = std::min(text->find(' '), text->size());
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return word;
}

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) {
    return lower(x) == lower(y);
  });
}

// "localhost:9838" and the like.
bool is_this_machine(std::string_view host) {
  while (!host.empty() && (host.front() == ' ' || host.front() == '\t'))
    host.remove_prefix(1);
  while (!host.empty() && (host.back() == ' ' || host.back() == '\t'))
    host.remove_suffix(1);
  const std::size_t colon = host.rfind(':');
  if (colon != std::string_view::npos &&
      host.find_first_not_of("0123456789", colon + 1) == std::string_view::npos)
    host = host.substr(0, colon);
  return same_letters(host, "localhost") || host == "127.0.0.1";
}

// Whether the fields that follow the first line name this machine, once.
bool is_for_this_machine(std::string_view fields, bool is_old) {
  int hosts = 0;
  while (!fields.empty()) {
    const std::string_view line = take_line(&fields);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !same_letters(line.substr(0, colon), "host"))
      continue;
    if (!is_this_machine(line.substr(colon + 1))) return false;
    ++hosts;
  }
  return hosts == 1 || (hosts == 0 && is_old);
}

}  // namespace

bool is_complete(std::string_view request) {
  return request.size() > kLongestRequest ||
         request.find("\r\n\r\n") != std::string_view::npos ||
         request.find("\n\n") != std::string_view::npos;
}

std::string answer_to(std::string_view request, const std::function<std::string()>& metrics) {
  if (request.size() > kLongestRequest) return refusal("431 Request Header Fields Too Large");
  std::string_view line = take_line(&request);
  const std::string_view method = take_word(&line);
  std::string_view target = take_word(&line);
  const bool is_old = line == "HTTP/1.0";
  if (method.empty() || !target.starts_with('/') || (!is_old && line != "HTTP/1.1"))
    return refusal("400 Bad Request");
  if (method != "GET" && method != "HEAD") return refusal("405 Method Not Allowed");
  if (!is_for_this_machine(request, is_old)) return refusal("403 Forbidden");
  target = target.substr(0, target.find('?'));
  const bool with_body = method == "GET";
  if (target == "/metrics") return answer("200 OK", kMetricsType, metrics(), with_body);
  if (target == "/") return answer("200 OK", kTextType, "custash serve: /metrics\n", with_body);
  return refusal("404 Not Found");
}

}  // namespace custash::live
