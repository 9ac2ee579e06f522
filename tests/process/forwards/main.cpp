// SPDX-License-Identifier: MIT
// Each entry of entry_points.def, called by its exported name with arguments that all differ:
// the driver must be called by the same name with the same arguments, and its code must come
// back. So it is as long as the core has not started, and what is passed by must not depend on
// it later.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/entry_points.hpp"
// clang-format on
#include "tests/process/forwards/arguments.hpp"

#include <cstdio>
#include <cstring>
#include <tuple>
#include <type_traits>

#include <dlfcn.h>

namespace {

constexpr std::size_t kApart = 512;
alignas(64) char zone[32 * kApart];  // all zero: handles and lists that may be looked at

template <typename T>
T value(std::size_t number) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(&zone[number * kApart]);
  } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
    return static_cast<T>(number + 40);
  } else {
    T all;
    std::memset(&all, static_cast<int>(number + 40), sizeof all);
    return all;
  }
}

void* library;
forwards::Seen* seen;
int wrong = 0;
int count = 0;

template <typename Function>
struct Check;

template <typename... Params>
struct Check<CUresult(Params...)> {
  template <std::size_t... kNumbers>
  static void run(const char* entry, std::index_sequence<kNumbers...>) {
    void* found = dlsym(RTLD_DEFAULT, entry);
    if (found == nullptr) found = dlsym(library, entry);
    const auto call = reinterpret_cast<CUresult (*)(Params...)>(found);
    for (const int answer : {0, 801}) {
      *seen = {.entry = {}, .arguments = {}, .answer = answer};
      const std::tuple<Params...> given{value<Params>(kNumbers)...};
      const int code = call(std::get<kNumbers>(given)...);
      const bool same = seen->entry == entry && code == answer &&
                        seen->arguments == forwards::bytes_of(std::get<kNumbers>(given)...);
      if (same) continue;
      ++wrong;
      std::printf("%s: answered %d for %d, by %s\n", entry, code, answer, seen->entry.c_str());
    }
    ++count;
  }
};

template <typename Function>
struct Numbers;

template <typename... Params>
struct Numbers<CUresult(Params...)> : std::index_sequence_for<Params...> {};

template <typename Function>
void check(const char* entry) {
  Check<Function>::run(entry, Numbers<Function>{});
}

}  // namespace

int main() {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  seen = library == nullptr ? nullptr
                            : static_cast<forwards::Seen*>(dlsym(library, "forwards_seen"));
  if (seen == nullptr) return 1;
#define CHECK_One(symbol, params) check<CUresult params>(symbol);
#define CHECK_Ptsz(symbol, params) CHECK_One(symbol, params) CHECK_One(symbol "_ptsz", params)
#define CHECK_Ptds(symbol, params) CHECK_One(symbol, params) CHECK_One(symbol "_ptds", params)
#define ENTRY(symbol, forms, role, params) CHECK_##forms(#symbol, params)
#include "interpose/real/entry_points.def"
  std::printf("%d entries, %d wrong\n", count, wrong);
  return wrong == 0 ? 0 : 1;
}
