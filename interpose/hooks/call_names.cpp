// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "interpose/hooks/call_names.hpp"
#include "interpose/hooks/parameters.hpp"

namespace custash::call_names {

Reading of_kernel(const void* function,
                  void** params,
                  void** extra,
                  std::vector<Address>* out) {
  constexpr std::size_t kTensorMapWords = 16;
  Allocator* const core = process::core();
  if (core == nullptr) return Reading::None;
  const auto note = [](void* addresses, Address word, std::size_t) {
    if (Allocator* const its = process::core(); its != nullptr && its->owns(word))
      static_cast<std::vector<Address>*>(addresses)->push_back(word);
  };
  const std::optional<std::size_t> largest =
      parameters::visit_words(core->driver(), function, params, extra, note, out);
  if (!largest) return Reading::None;
  return *largest < kTensorMapWords ? Reading::Whole : Reading::InPart;
}

}  // namespace custash::call_names
