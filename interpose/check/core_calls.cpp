// SPDX-License-Identifier: MIT
// Of libcustash-check.so alone: libcustash.so's functions under their own names. Each calls
// through the table. (The static form is linked with the functions themselves.)
#include "interpose/check/core_table.hpp"

const custash::ReportLibrary* custash_open_reports(const custash::CoreTable* core) {
  return custash::open_reports(core);
}

const custash::SleepLibrary* custash_open_sleep(const custash::CoreTable* core) {
  return custash::open_sleep(core);
}

#define SELF(Class, ...) (const_cast<Class&>(*this) __VA_OPT__(, ) __VA_ARGS__)  // NOLINT
#define FUNCTION(id, result, name, params, how, args) \
  auto custash::name params how->result {             \
    return core_calls().id args;                      \
  }
#define METHOD(id, result, Class, name, params, how, args)   \
  auto custash::Class::name params how->result {             \
    return core_calls().id SELF(Class, IN_PARENTHESES args); \
  }
#include "interpose/check/core_table.def"
