// SPDX-License-Identifier: MIT
// Ten functions that allocate, each another amount, for names.py, which compiles this file in
// several ways. The line of each call is marked with the function's name. Argument: where
// snapshots go.
#include <cstdio>
#include <string>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace {
void* kept[16];
int count = 0;
}  // namespace

// No call in the last place, which would take the caller's frame away.
#define KEPT(mib) (cudaMalloc(&kept[count++], static_cast<size_t>(mib) << 20))
#define PLACE __attribute__((noinline))
#define END asm volatile("" ::: "memory")

#ifdef MOVED  // the same program, built again: other addresses
PLACE int moved(int x) {
  for (int i = 0; i < 100; ++i)
    x = x * 31 + i;
  END;
  return x;
}
#endif

PLACE void weights() {
  KEPT(11);  // @weights
  END;
}

static PLACE void static_cache() {
  KEPT(10);  // @static_cache
  END;
}

namespace net {
PLACE void layer(int) {
  KEPT(9);  // @layer
  END;
}
}  // namespace net

struct Model {
  PLACE void grow() {
    KEPT(8);  // @grow
    END;
  }
};

static inline __attribute__((always_inline)) void inlined() {
  KEPT(7);  // @inlined
}

PLACE void holder() {
  inlined();  // @holder
  END;
}

template <typename T>
PLACE void templated(T) {
  KEPT(6);  // @templated
  END;
}

extern "C" PLACE void plain_c() {
  KEPT(5);  // @plain_c
  END;
}

namespace {
PLACE void hidden() {
  KEPT(4);  // @hidden
  END;
}
}  // namespace

PLACE void recursive(int depth) {
  if (depth > 0) {
    recursive(depth - 1);
  } else {
    KEPT(3);  // @recursive
  }
  END;
}

int main(int argc, char** argv) {
  weights();
  static_cache();
  net::layer(1);
  Model().grow();
  holder();
  templated(1.5);
  plain_c();
  hidden();
  recursive(2);
  KEPT(2);  // @main
#ifdef MOVED
  count += moved(argc) & 0;
#endif
  if (argc > 1) {
    using Snapshot = int (*)(const char*);
    const auto snapshot = reinterpret_cast<Snapshot>(dlsym(RTLD_DEFAULT, "custash_snapshot"));
    for (const char* ending : {".json", ".pickle", ".html"})
      if (snapshot == nullptr || snapshot((argv[1] + std::string(ending)).c_str()) != 0)
        return 1;
    std::puts("ready");
    std::fflush(stdout);
    std::getchar();
  }
  return 0;
}
