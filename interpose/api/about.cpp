// SPDX-License-Identifier: MIT
// The part of the C API that needs no core: version and the words for a status.
#include "interpose/api/custash.h"

#include <iterator>

namespace {

struct Words {
  const char* name;
  const char* text;
};

// By the status's number.
constexpr Words kWords[] = {
    {"CUSTASH_SUCCESS", "success"},
    {"CUSTASH_ERROR_INVALID_VALUE",
     "an argument is invalid: a null pointer, no such device, a value out of range, or a "
     "pointer that was already freed"},
    {"CUSTASH_ERROR_OUT_OF_MEMORY", "out of memory, after all cached memory was released"},
    {"CUSTASH_ERROR_NOT_RUNNING",
     "custash does not serve this process, or CUDA does not work in it"},
    {"CUSTASH_ERROR_NOT_OURS", "the pointer was not allocated through custash"},
    {"CUSTASH_ERROR_BUFFER_TOO_SMALL", "the array is too small for all counters"},
    {"CUSTASH_ERROR_DRIVER", "a CUDA error that custash did not cause"},
    {"CUSTASH_ERROR_FILE", "the file cannot be written"},
    {"CUSTASH_ERROR_BUSY", "this cannot be done now"},
    {"CUSTASH_ERROR_CONTENTS", "memory that slept has other contents than before"},
    {"CUSTASH_ERROR_UNKNOWN", "a number that is no custash status"},
};

constexpr std::size_t kUnknown = std::size(kWords) - 1;
static_assert(CUSTASH_ERROR_CONTENTS + 1 == kUnknown);

const Words& words_of(custash_status_t status) {
  const auto number = static_cast<std::size_t>(status);
  return kWords[number < kUnknown ? number : kUnknown];
}

}  // namespace

int custash_version(void) {
  return CUSTASH_VERSION;
}

const char* custash_error_name(custash_status_t status) {
  return words_of(status).name;
}

const char* custash_error_string(custash_status_t status) {
  return words_of(status).text;
}
