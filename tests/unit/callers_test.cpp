// SPDX-License-Identifier: MIT
#include "interpose/process/callers.hpp"

#include "tests/catch.hpp"

using custash::callers::is_file_of_nvidia;

TEST_CASE(
    "NVIDIA's libraries are known by their files, and what only begins like them is not") {
  for (const char* const path : {"/usr/lib/libcublas.so.12",
                                 "libcublasLt.so.13.0.2",
                                 "/a/libcudnn_engines_precompiled.so.9",
                                 "/wheel.libs/libcudnn-0a1b2c3d.so.9",
                                 "libcusparseLt-00ff11ee.so.0",
                                 "libnccl.so"})
    CHECK(is_file_of_nvidia(path));
  for (const char* const path : {"/opt/libnccl-net.so",
                                 "libnccl-net-ofi.so.0",
                                 "libnccl-tuner-0a1b2c3d.so",
                                 "libnccl-plugin01.so",
                                 "libcublas_of_ours.so",
                                 "libcudnn_frontend_of_ours.so.1",
                                 "libcublas",
                                 "libcublas.software.so",
                                 "libcublas.so.12.of_ours",
                                 "/libcublas.so.12/program",
                                 ""})
    CHECK_FALSE(is_file_of_nvidia(path));
}

TEST_CASE("an address that is in no such library is nobody's of NVIDIA") {
  CHECK_FALSE(custash::callers::is_library_of_nvidia(nullptr));
  CHECK_FALSE(custash::callers::is_library_of_nvidia(&custash::callers::current));
}
