// SPDX-License-Identifier: MIT
#include "interpose/process/callers.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include <dlfcn.h>

namespace custash::callers {
namespace {

constexpr std::string_view kLibraries[] = {"libcublas",
                                           "libcublasLt",
                                           "libcudnn",
                                           "libcudnn_adv",
                                           "libcudnn_adv_infer",
                                           "libcudnn_adv_train",
                                           "libcudnn_cnn",
                                           "libcudnn_cnn_infer",
                                           "libcudnn_cnn_train",
                                           "libcudnn_engines_precompiled",
                                           "libcudnn_engines_runtime_compiled",
                                           "libcudnn_engines_tensor_ir",
                                           "libcudnn_ext",
                                           "libcudnn_graph",
                                           "libcudnn_heuristic",
                                           "libcudnn_ops",
                                           "libcudnn_ops_infer",
                                           "libcudnn_ops_train",
                                           "libcufft",
                                           "libcufftw",
                                           "libcusolver",
                                           "libcusolverMg",
                                           "libcusparse",
                                           "libcusparseLt",
                                           "libnccl"};

bool is_hash(std::string_view text) {
  constexpr std::size_t kDigits = 8;
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

bool is_file_of_nvidia(std::string_view path) noexcept {
  path.remove_prefix(path.rfind('/') + 1);  // npos + 1 is 0
  const std::size_t end = path.find(".so");
  if (end == std::string_view::npos) return false;
  const std::string_view version = path.substr(end + 3);
  if (version.find_first_not_of(".0123456789") != std::string_view::npos) return false;
  std::string_view stem = path.substr(0, end);
  const std::size_t dash = stem.rfind('-');  // packages put a hash behind the name
  if (dash != std::string_view::npos && is_hash(stem.substr(dash + 1)))
    stem = stem.substr(0, dash);
  return std::find(std::begin(kLibraries), std::end(kLibraries), stem) != std::end(kLibraries);
}

const void* noted() noexcept {
  return current;
}

bool is_library_of_nvidia(const void* address) noexcept {
  Dl_info info{};
  return address != nullptr && dladdr(address, &info) != 0 && info.dli_fname != nullptr &&
         is_file_of_nvidia(info.dli_fname);
}

}  // namespace custash::callers
