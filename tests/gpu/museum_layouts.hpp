// SPDX-License-Identifier: MIT
// The structures that the kernels of museum_streams.cu and museum_others.cu take, and the index
// arithmetic of those kernels. museum_others_kernels.cpp uses both for the simulator.
#pragma once

#ifdef __CUDACC__
#define MUSEUM_BOTH __host__ __device__
#else
#define MUSEUM_BOTH
#endif

namespace museum {

// A table's column, as a query engine passes it.
struct Column {
  int type;
  int rows;
  const int* values;
};

// A column of strings: both addresses lie inside one packed batch.
struct Strings {
  int rows;
  const int* offsets;
  const char* chars;
};

struct Query {
  int tokens;
  int* q;
  const int* topk;
};

struct Ring {
  char* base;
  int slots;
  int slot_bytes;
};

struct Step {
  long cells;
  const float* now;
  float* next;
};

struct Mesh {
  int vertices;
  const float* positions;
  const float* normals;
};

struct Table {
  int* slots;
  unsigned mask;
};

MUSEUM_BOTH inline unsigned hash(unsigned key) {
  return key * 2654435761U;
}

// The hash is cast to int first, so the remainder is negative for half of the keys.
MUSEUM_BOTH inline int signed_slot(unsigned key, int buckets) {
  return static_cast<int>(hash(key)) % buckets;
}

MUSEUM_BOTH inline int unsigned_slot(unsigned key, int buckets) {
  return static_cast<int>(hash(key) % static_cast<unsigned>(buckets));
}

// Values from 0 to 1, both included, so that 1 has a bin of its own.
MUSEUM_BOTH inline int bin_of(float value, int bins) {
  return static_cast<int>(value * static_cast<float>(bins));
}

}  // namespace museum
