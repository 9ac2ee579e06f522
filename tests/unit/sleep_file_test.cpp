// SPDX-License-Identifier: MIT
// Sleep into a file: contents come back from it as they were, and a disk that is full or broken
// loses nothing. The simulator holds real bytes here.
#include "allocator/memory/saved_bytes.hpp"
#include "allocator/sleep/sleep.hpp"
#include "pinned/sleep_store.hpp"
#include "tests/unit/contents.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <unistd.h>

using namespace custash;

namespace {

// A folder of its own, gone with it.
struct Folder {
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }

  ~Folder() { std::filesystem::remove_all(path); }

  [[nodiscard]] bool empty() const { return std::filesystem::is_empty(path); }

  // The descriptor of a file in it, or -1.
  [[nodiscard]] int descriptor() const {
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code none;
      const std::string to = std::filesystem::read_symlink(each.path(), none).string();
      if (to.rfind(path + "/", 0) == 0) return std::stoi(each.path().filename().string());
    }
    return -1;
  }

  std::string path = "/tmp/custash-sleep-XXXXXX";
};

Config into(const Folder& folder) {
  return {.backing = Backing::Vmm, .sleep_memory = 0, .sleep_dir = folder.path};
}

constexpr Bytes kLarge = 20_MiB + 512;
constexpr Bytes kSmall = 1000;

// Two blocks with different bytes at each place, and a process that sleeps in a folder of its
// own.
struct Sleeper {
  Sleeper()
      : config(into(folder)),
        bed(with_bytes(), config),
        store(bed.sim.driver(), config),
        sleep(*bed.allocator) {
    sleep.set_store(store);
    large = bed.malloc(kLarge);
    small = bed.malloc(kSmall);
    bed.launch(nullptr,
               {.accesses = {{large, kLarge, true}, {small, kSmall, true}}, .body = [this] {
                  for (Bytes i = 0; i < kLarge; ++i)
                    reinterpret_cast<unsigned char*>(large)[i] = byte_at(i);
                  std::memset(reinterpret_cast<void*>(small), 9, kSmall);
                }});
    sim::run_all();
  }

  ~Sleeper() {
    bed.free(large);
    bed.free(small);
  }

  static unsigned char byte_at(Bytes i) {
    return static_cast<unsigned char>(i * 7 + (i >> 12U) + (i >> 20U));
  }

  // At the next launch, which wakes the process.
  bool right() {
    bool same = true;
    bed.launch(nullptr,
               {.accesses = {{large, kLarge, false}, {small, kSmall, false}}, .body = [&] {
                  for (Bytes i = 0; i < kLarge; ++i)
                    same = same && reinterpret_cast<unsigned char*>(large)[i] == byte_at(i);
                  for (Bytes i = 0; i < kSmall; ++i)
                    same = same && reinterpret_cast<unsigned char*>(small)[i] == 9;
                }});
    sim::run_all();
    return same && sim::faults().empty();
  }

  const Folder folder;
  Config config;
  Bed bed;
  SleepStore store;
  Sleep sleep;
  Address large = 0;
  Address small = 0;
};

std::atomic<int> failing{0};  // calls that are to fail still

bool fails() {
  return failing.load() > 0 && failing.fetch_sub(1) > 0;
}

}  // namespace

TEST_CASE("portions in a file keep apart", "[sleep_file]") {
  Sleeper it;
  REQUIRE(it.sleep.go({}).asleep);
  const Address more = it.bed.malloc(kLarge);
  const SleepAnswer rest = it.sleep.go({});
  REQUIRE(rest.asleep);
  CHECK(rest.sums.in_file == rest.sums.saved);
  CHECK(sim::used(0) == 0);
  it.sleep.wake();
  CHECK(it.right());
  it.bed.free(more);
}

TEST_CASE("a portion that cannot be written leaves those before it in the file",
          "[sleep_file]") {
  Sleeper it;
  REQUIRE(it.sleep.go({}).asleep);
  const Bytes away = it.sleep.asleep_bytes(0);
  const Address more = it.bed.malloc(64_MiB);  // its end on pages of its own
  fill(reinterpret_cast<char*>(more + 40_MiB), 16_MiB, 9);
  FileCalls calls;
  calls.write = [](int, const void*, std::size_t, off_t) -> ssize_t {
    errno = EIO;
    return -1;
  };
  it.store.set_calls(calls);
  const SleepAnswer answer = it.sleep.go({});
  INFO(answer.text);
  CHECK_FALSE(answer.asleep);
  CHECK(it.sleep.state() == SleepState::Asleep);
  CHECK(it.sleep.asleep_bytes(0) == away);
  CHECK(it.right());
  it.bed.free(more);
}

TEST_CASE("what host memory has no room for goes to a file and comes back", "[sleep_file]") {
  Sleeper it;
  for (int i = 0; i < 2; ++i) {
    const SleepAnswer answer = fall_asleep(it.sleep);
    CHECK(answer.sums.in_file == answer.sums.saved);
    CHECK(says(answer, "MiB in " + it.folder.path));
    CHECK(it.folder.empty());
    CHECK(it.folder.descriptor() >= 0);
    CHECK(sim::used(0) == 0);
    CHECK(it.right());
    CHECK(it.folder.descriptor() < 0);
  }
}

TEST_CASE("host memory takes what it has room for, and the file the rest", "[sleep_file]") {
  Sleeper it;
  it.config.sleep_memory = 5_MiB;
  const SleepAnswer answer = fall_asleep(it.sleep);
  CHECK(answer.sums.in_file > 0);
  CHECK(answer.sums.in_file < answer.sums.saved);
  CHECK(it.right());
}

TEST_CASE("a file that cannot be written keeps the process awake and right", "[sleep_file]") {
  Sleeper it;
  FileCalls write;
  write.write = [](int fd, const void* from, std::size_t bytes, off_t at) -> ssize_t {
    if (at < static_cast<off_t>(8_MiB)) return ::pwrite(fd, from, bytes, at);  // the first part
    errno = EIO;
    return -1;
  };
  FileCalls flush;
  flush.flush = [](int) {
    errno = EIO;
    return -1;
  };
  FileCalls full;
  full.reserve = [](int, int, off_t, off_t) {
    errno = ENOSPC;
    return -1;
  };
  const Bytes used = sim::used(0);
  for (const auto& [calls, words] : {std::pair(write, "cannot write: Input/output error"),
                                     std::pair(flush, "cannot write: Input/output error"),
                                     std::pair(full, "MiB more cannot be reserved")}) {
    it.store.set_calls(calls);
    const SleepAnswer answer = it.sleep.go({});
    INFO(answer.text);
    CHECK_FALSE(answer.asleep);
    CHECK(says(answer, it.folder.path + ": "));
    CHECK(says(answer, words));
    CHECK(it.sleep.state() == SleepState::Awake);
    CHECK(sim::used(0) <= used);
    CHECK(it.folder.descriptor() < 0);
    CHECK(it.right());
  }
  it.store.set_calls({});
  REQUIRE(it.sleep.go({}).asleep);
  CHECK(it.right());
}

TEST_CASE("a file that cannot be read is read again until it can", "[sleep_file]") {
  Sleeper it;
  FileCalls calls;
  calls.read = [](int fd, void* to, std::size_t bytes, off_t at) -> ssize_t {
    if (at == 0 || !fails()) return ::pread(fd, to, bytes, at);  // the first part has come back
    errno = EIO;
    return -1;
  };
  it.store.set_calls(calls);
  REQUIRE(it.sleep.go({}).asleep);
  failing = 3;
  CHECK(it.right());
  CHECK(failing == 0);
}

TEST_CASE("short reads and writes, and signals, are no errors", "[sleep_file]") {
  Sleeper it;
  FileCalls calls;
  calls.write = [](int fd, const void* from, std::size_t bytes, off_t at) -> ssize_t {
    if (fails()) return errno = EINTR, -1;
    return ::pwrite(fd, from, bytes > 1_MiB ? 1_MiB : bytes, at);
  };
  calls.read = [](int fd, void* to, std::size_t bytes, off_t at) -> ssize_t {
    if (fails()) return errno = EINTR, -1;
    return ::pread(fd, to, bytes > 1_MiB ? 1_MiB : bytes, at);
  };
  it.store.set_calls(calls);
  failing = 1;
  REQUIRE(it.sleep.go({}).asleep);
  failing = 1;
  CHECK(it.right());
}

TEST_CASE("a program that closes the file has its contents all the same", "[sleep_file]") {
  Sleeper it;
  REQUIRE(it.sleep.go({}).asleep);
  const int fd = it.folder.descriptor();
  REQUIRE(fd >= 0);
  ::close(fd);
  // Another file under that number is neither read nor closed.
  const int other = ::open("/dev/zero", O_RDONLY);
  REQUIRE(::dup2(other, fd) == fd);
  CHECK(it.right());
  CHECK(::fcntl(fd, F_GETFD) >= 0);
  ::close(other);
  ::close(fd);
  REQUIRE(it.sleep.go({}).asleep);
  CHECK(it.right());
}

TEST_CASE("a closed file is read where the system forbids process_vm_readv", "[sleep_file]") {
  static std::atomic<int> asked;
  for (const int code : {EPERM, ENOSYS}) {
    asked = 0;
    static std::atomic<int> error;
    error = code;
    Sleeper it;
    FileCalls calls;
    calls.read_memory = [](void*, void*, std::size_t) -> ssize_t {
      ++asked;
      return errno = error, -1;
    };
    it.store.set_calls(calls);
    REQUIRE(it.sleep.go({}).asleep);
    ::close(it.folder.descriptor());
    CHECK(it.right());
    CHECK(asked > 0);
  }
}

TEST_CASE("a file system without unnamed files loses the name at once", "[sleep_file]") {
  static std::atomic<int> there;
  there = 0;
  Sleeper it;
  std::ofstream(it.folder.path + "/mine") << "kept";
  FileCalls calls;
  calls.open = [](const char* path, int flags) -> int {
    if ((flags & O_TMPFILE) == O_TMPFILE) return errno = EOPNOTSUPP, -1;
    CHECK((flags & (O_CREAT | O_EXCL | O_NOFOLLOW)) == (O_CREAT | O_EXCL | O_NOFOLLOW));
    if (there.fetch_add(1) == 0) return errno = EEXIST, -1;  // the first name is taken
    return ::open(path, flags, 0600);
  };
  it.store.set_calls(calls);
  REQUIRE(it.sleep.go({}).asleep);
  CHECK(there == 2);
  CHECK(it.folder.descriptor() >= 0);
  const std::filesystem::directory_iterator files(it.folder.path);
  CHECK(std::distance(begin(files), end(files)) == 1);
  CHECK(it.right());
  CHECK(std::filesystem::file_size(it.folder.path + "/mine") == 4);
  calls.open = [](const char*, int) -> int { return errno = EACCES, -1; };
  it.store.set_calls(calls);
  const SleepAnswer refused = it.sleep.go({});
  CHECK_FALSE(refused.asleep);
  CHECK(says(refused, it.folder.path + ": Permission denied"));
  CHECK(it.right());
}

TEST_CASE("a folder that is not there, or too small, is refused", "[sleep_file]") {
  Sleeper it;
  std::filesystem::remove(it.folder.path);
  const SleepAnswer answer = it.sleep.go({});
  INFO(answer.text);
  CHECK_FALSE(answer.asleep);
  CHECK(says(answer, "host memory: needs "));
  CHECK(says(answer, it.folder.path + ": has 0 MiB"));
  CHECK(it.right());
  std::filesystem::create_directory(it.folder.path);
}
