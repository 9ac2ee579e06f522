// SPDX-License-Identifier: MIT
// In the preload library only: programs that are linked with NVIDIA's libraries for video find
// these first. OptiX has no library to link with.
#include "interpose/hooks/engines.hpp"

extern "C" {

[[gnu::visibility("default")]] int cuvidCreateDecoder(void* decoder, void* info) {  // NOLINT
  return custash::engines::create_decoder(decoder, info);
}

[[gnu::visibility("default")]] int NvEncodeAPICreateInstance(void* functions) {
  return custash::engines::create_encoder(functions);
}
}

bool custash::engines::is_exported(const void* function) noexcept {
  return function == reinterpret_cast<const void*>(&cuvidCreateDecoder) ||
         function == reinterpret_cast<const void*>(&NvEncodeAPICreateInstance);
}
