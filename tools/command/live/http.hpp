// SPDX-License-Identifier: MIT
// The little of HTTP that a scrape needs: one request without a body, one answer, the end.
// Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace custash::live {

inline constexpr std::size_t kLongestRequest = 8192;

// Whether the head of the request is complete, or is too long to go on.
bool is_complete(std::string_view request);

// The whole answer to a request's head. `metrics` is called when they are requested. Only GET
// and HEAD of /metrics and of / are served, and only under a name of this machine: a page in a
// browser that has another name led here gets nothing.
std::string answer_to(std::string_view request, const std::function<std::string()>& metrics);

}  // namespace custash::live
