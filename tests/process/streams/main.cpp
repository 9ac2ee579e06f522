// SPDX-License-Identifier: MIT
// check_streams: small programs that use memory on several streams, right or wrong in one way
// each. Argument: which. check_streams.py knows what is to be found in each.
#include "tests/process/streams/bed.hpp"

#include <cstring>

using namespace check_streams;

int main(int argc, char** argv) {
  Programs all;
  for (const Programs* const some : {&kFrees, &kOutside, &kBugs, &kOrders, &kRight})
    all.insert(some->begin(), some->end());
  if (argc < 2 || std::strcmp(argv[1], "--list") == 0) {
    for (const auto& each : all)
      std::printf("%s\n", each.first.c_str());
    return 0;
  }
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 2;
  CALL(cuInit, 0U);
  CALL(cuDevicePrimaryCtxRetain, &context, 0);
  CALL(cuCtxSetCurrent, context);
  if (std::strcmp(argv[1], "random") == 0 && argc == 3) {
    random_program(static_cast<unsigned>(std::atoi(argv[2])));
    return 0;
  }
  const auto found = all.find(argv[1]);
  if (found == all.end()) return 5;
  found->second();
  CALL(cuCtxSynchronize);
  return 0;
}
