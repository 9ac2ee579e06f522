// SPDX-License-Identifier: MIT
// What a program registers before main: fat binaries, kernels, variables; and how they become
// modules and functions of a context at their first use there. One lock over all of it, held
// across the module calls (they are rare). Never destroyed.
#pragma once

#include "tests/sim/cudart/runtime.hpp"

#include <cstddef>

namespace custash::cudart {

struct Binary;
struct Kernel;

Binary* add_binary(const void* image);
void remove_binary(Binary* binary);
void add_kernel(Binary* binary, const void* host_function, const char* name);
// `managed` is the host variable to be pointed at the memory, else null.
void add_variable(Binary* binary, const void* host_variable, const char* name, void** managed);
// Points the managed variables of a binary at their memory.
Error init_managed(Binary* binary);

// By the host function's address, or by the kernel itself (which is what cudaKernel_t holds).
Kernel* find_kernel(const void* function);
const char* kernel_name(const Kernel* kernel);

// In the current context. Both load the module where needed.
Error function_of(Kernel* kernel, CUfunction* function);
Error variable_of(const void* host_variable, CUdeviceptr* address, size_t* bytes);

// The same from whatever the program passed.
Error function_of(const void* function, CUfunction* found);

// The context is about to be reset.
void forget_modules(CUcontext context);

}  // namespace custash::cudart
