// SPDX-License-Identifier: MIT
// A client of peer memory is in use if its module is loaded and its device is open.
#include "interpose/process/peer_clients.hpp"

#include "tests/catch.hpp"

#include <cstdlib>
#include <filesystem>
#include <string_view>

using custash::PeerClients;

namespace {

std::size_t nccl_is_loaded(const char* beginning) noexcept {
  return std::string_view(beginning) == "libnccl" ? 1 : 0;
}

std::size_t nothing_is_loaded(const char*) noexcept {
  return 0;
}

}  // namespace

TEST_CASE("a client needs its module and an open device") {
  namespace fs = std::filesystem;
  char name[] = "/tmp/peer_clients_XXXXXX";
  const fs::path root = mkdtemp(name);
  const fs::path descriptors = root / "proc/self/fd";
  fs::create_directories(descriptors);
  const PeerClients clients(root.string(), nccl_is_loaded);
  fs::create_symlink("/dev/infiniband/uverbs3", descriptors / "7");
  fs::create_symlink("/dev/null", descriptors / "0");
  CHECK_FALSE(clients.possible());
  CHECK(clients.open_device().empty());
  fs::create_directories(root / "sys/module/nvidia_peermem");
  CHECK(clients.possible());
  CHECK(clients.open_device().empty());  // NCCL opens it, and registers none of the program's
  CHECK(PeerClients(root.string(), nothing_is_loaded).open_device() ==
        "/dev/infiniband/uverbs3");
  fs::create_symlink("/dev/gdrdrv", descriptors / "9");
  CHECK(clients.open_device().empty());
  fs::create_directories(root / "sys/module/gdrdrv");
  CHECK(clients.open_device() == "/dev/gdrdrv");
  fs::remove(descriptors / "9");
  fs::create_symlink("/dev/nvidia-fs0", descriptors / "9");
  CHECK(clients.open_device().empty());
  fs::create_directories(root / "sys/module/nvidia_fs");
  CHECK(clients.open_device() == "/dev/nvidia-fs0");
  fs::remove_all(root);
}
