// SPDX-License-Identifier: MIT
// The part of the C API that needs no core: version and the words for a status.
#include "interpose/api/custash.h"

int custash_version(void) {
  return CUSTASH_VERSION;
}

const char* custash_error_name(custash_status_t status) {
  switch (status) {
    case CUSTASH_SUCCESS:
      return "CUSTASH_SUCCESS";
    case CUSTASH_ERROR_INVALID_VALUE:
      return "CUSTASH_ERROR_INVALID_VALUE";
    case CUSTASH_ERROR_OUT_OF_MEMORY:
      return "CUSTASH_ERROR_OUT_OF_MEMORY";
    case CUSTASH_ERROR_NOT_RUNNING:
      return "CUSTASH_ERROR_NOT_RUNNING";
    case CUSTASH_ERROR_NOT_OURS:
      return "CUSTASH_ERROR_NOT_OURS";
    case CUSTASH_ERROR_BUFFER_TOO_SMALL:
      return "CUSTASH_ERROR_BUFFER_TOO_SMALL";
    case CUSTASH_ERROR_DRIVER:
      return "CUSTASH_ERROR_DRIVER";
    case CUSTASH_ERROR_BUSY:
      return "CUSTASH_ERROR_BUSY";
    case CUSTASH_ERROR_FILE:
      return "CUSTASH_ERROR_FILE";
    case CUSTASH_ERROR_CONTENTS:
      return "CUSTASH_ERROR_CONTENTS";
  }
  return "CUSTASH_ERROR_UNKNOWN";
}

const char* custash_error_string(custash_status_t status) {
  switch (status) {
    case CUSTASH_SUCCESS:
      return "success";
    case CUSTASH_ERROR_INVALID_VALUE:
      return "an argument is invalid: a null pointer, no such device, a value out of range, or a "
             "pointer that was already freed";
    case CUSTASH_ERROR_OUT_OF_MEMORY:
      return "out of memory, after all cached memory was released";
    case CUSTASH_ERROR_NOT_RUNNING:
      return "custash does not serve this process, or CUDA does not work in it";
    case CUSTASH_ERROR_NOT_OURS:
      return "the pointer was not allocated through custash";
    case CUSTASH_ERROR_BUFFER_TOO_SMALL:
      return "the array is too small for all counters";
    case CUSTASH_ERROR_BUSY:
      return "this cannot be done now";
    case CUSTASH_ERROR_DRIVER:
      return "a CUDA error that custash did not cause";
    case CUSTASH_ERROR_FILE:
      return "the file cannot be written";
    case CUSTASH_ERROR_CONTENTS:
      return "memory that slept has other contents than before";
  }
  return "a number that is no custash status";
}
