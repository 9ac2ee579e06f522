// SPDX-License-Identifier: MIT
// The kernels of museum_others.cu. None is wrong in itself: the fault lies in what it is given.
#pragma once

#include "museum_layouts.hpp"

// One element a thread, without a bound.
extern "C" __global__ void others_scale(float* out, float factor) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  out[i] = static_cast<float>(i) * factor;
}

// `stride` is the length of a row of `out`.
extern "C" __global__ void others_transpose(
    const int* in, int* out, int width, int height, int stride) {
  for (int i = static_cast<int>(threadIdx.x); i < width * height; i += blockDim.x)
    out[i % width * stride + i / width] = in[i];
}

// Each element from `first` on writes its left neighbour.
extern "C" __global__ void others_shift(int* values, long first, long count) {
  for (long i = first + threadIdx.x; i < count; i += blockDim.x)
    values[i - 1] = static_cast<int>(i);
}

extern "C" __global__ void others_push(museum::Ring ring, int head, int records) {
  for (int i = head; i < head + records; ++i) {
    char* const slot = ring.base + static_cast<long>(i % ring.slots) * ring.slot_bytes;
    for (int at = static_cast<int>(threadIdx.x); at < ring.slot_bytes; at += blockDim.x)
      slot[at] = static_cast<char>(i + 1);
  }
}

// `last` is added, too.
extern "C" __global__ void others_sum(const int* from, long first, long last, int* sink) {
  int sum = 0;
  for (long i = first + threadIdx.x; i <= last; i += blockDim.x)
    sum += from[i];
  atomicAdd(sink, sum);
}

extern "C" __global__ void others_step(museum::Step step) {
  for (long i = threadIdx.x; i < step.cells; i += blockDim.x)
    step.next[i] = step.now[i] * 0.5F + 1.0F;
}

extern "C" __global__ void others_fill4(int4* out, long vectors) {
  for (long i = threadIdx.x; i < vectors; i += blockDim.x)
    out[i] = make_int4(1, 2, 3, 4);
}

extern "C" __global__ void others_shade(museum::Mesh mesh, float* out) {
  for (int i = static_cast<int>(threadIdx.x); i < mesh.vertices; i += blockDim.x)
    out[i] = mesh.positions[i] * mesh.normals[i];
}

extern "C" __global__ void others_insert(museum::Table table, unsigned key) {
  table.slots[museum::hash(key) & table.mask] = static_cast<int>(key);
}

extern "C" __global__ void others_put(int* buckets, int count, unsigned key, int is_signed) {
  const int slot =
      is_signed ? museum::signed_slot(key, count) : museum::unsigned_slot(key, count);
  buckets[slot] = static_cast<int>(key);
}

// An index of 16 bits, as long as there are few elements.
extern "C" __global__ void others_scatter(float* out, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += blockDim.x)
    out[static_cast<short>(i)] = 1.0F;
}

extern "C" __global__ void others_histogram(const float* values,
                                            long count,
                                            int* bins,
                                            int bin_count) {
  for (long i = threadIdx.x; i < count; i += blockDim.x)
    atomicAdd(bins + museum::bin_of(values[i], bin_count), 1);
}
