// SPDX-License-Identifier: MIT
// cuInit, the names of errors, and the fixture for tests.
#include "tests/sim/lifetime.hpp"
#include "tests/sim/process.hpp"

#include <cstdlib>

namespace custash::sim {

void (*after_init)() = nullptr;

void set_deinitialised() {
  const Guard guard;
  guard->deinitialised = true;
}

SIM_ENTRY(cuInit, (unsigned flags)) {
  bool first = false;
  const CUresult result = SIM_CALL(cuInit, Nothing) {
    if (f.world.deinitialised) return CUDA_ERROR_DEINITIALIZED;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (f.world.options.devices == 0) return CUDA_ERROR_NO_DEVICE;
    first = !f.world.initialised;
    f.world.initialised = true;
    return CUDA_SUCCESS;
  });
  if (first && after_init != nullptr) after_init();
  return result;
}

namespace {

struct ErrorText {
  int code;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
#define RUNTIME(code, name, text)
#define BOTH(code, runtime_name, name, text) {code, name, text},
#include "tests/sim/errors.def"
};

const ErrorText* find(int code) {
  for (const ErrorText& error : kErrors)
    if (error.code == code) return &error;
  return nullptr;
}

}  // namespace

SIM_ENTRY(cuGetErrorName, (CUresult code, const char** out)) {
  const ErrorText* error = find(code);
  if (out != nullptr) *out = error == nullptr ? nullptr : error->name;
  return error == nullptr || out == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

SIM_ENTRY(cuGetErrorString, (CUresult code, const char** out)) {
  const ErrorText* error = find(code);
  if (out != nullptr) *out = error == nullptr ? nullptr : error->text;
  return error == nullptr || out == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

Sim::Sim(const Options& options) {
  reset(options);
  driver_ = make_driver();
  // Not through the entries: the fixture's own calls shall not be counted.
  const Guard guard;
  guard->devices[0].primary_references = 1;
  context_ = make_context(*guard, 0, true, 0);
  thread_state(*guard).stack.push_back(context_);
}

Sim::~Sim() {
  reset({});
}

}  // namespace custash::sim
