// SPDX-License-Identifier: MIT
// NVENC, NVDEC and OptiX: their libraries work on device memory by private tables of the
// driver, past every hook. The first call that begins such work is noticed; loading a library
// is not enough, as some programs load all of them. No lock.
#pragma once

namespace custash::engines {

// What a look-up of one of their beginnings answers, for the function at `found`; null: the
// name is none of them.
void* wrapper_of(const char* name, void* found) noexcept;

// How the engine that was used first is named in messages; null: none was.
const char* used() noexcept;

// Whether that is a function of exports_engines.cpp, which only the preload library has.
[[gnu::weak]] bool is_exported(const void* function) noexcept;

// The beginnings, for callers that are linked with such a library.
int create_decoder(void* decoder, void* parameters) noexcept;
int create_encoder(void* functions) noexcept;

}  // namespace custash::engines
