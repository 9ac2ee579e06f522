// SPDX-License-Identifier: MIT
// Buffers that other processes or cards have open when they are freed. The driver returns their
// memory once nobody has it open any more, and a program's own use of memory stays flat:
// - a DMA-BUF for each buffer, closed before the free (libfabric's #12828);
// - an importer that keeps what it has opened, by the owner's address, until another buffer
//   comes there (UCX's cache of cuda_ipc);
// - neighbours of a freed buffer, with a kernel at work on them.
//
//   exports [--quick]
#include "driver_calls.cuh"
#include "kernels.cuh"

#include <map>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gpu {

struct Message {
  cudaIpcMemHandle_t handle;
  std::uintptr_t base;
  std::size_t bytes;
  int value;  // in each byte; -1: the end
};

struct Told {
  int code;
  int wrong;
  int open;
};

template <typename T>
bool get(int socket, T* out) {
  return recv(socket, out, sizeof *out, MSG_WAITALL) == static_cast<ssize_t>(sizeof *out);
}

static std::size_t tenth_of_memory() {
  cudaDeviceProp properties{};
  CUDA_OK(cudaGetDeviceProperties(&properties, 0));
  return std::min<std::size_t>(512 * kMiB, properties.totalGlobalMem / 40 / kMiB * kMiB);
}

static int wrong_at(const void* at, std::size_t bytes, int value) {
  unsigned char found[2] = {};
  if (cudaMemcpy(found, at, 1, cudaMemcpyDeviceToHost) != cudaSuccess ||
      cudaMemcpy(
          found + 1, static_cast<const char*>(at) + bytes - 1, 1, cudaMemcpyDeviceToHost) !=
          cudaSuccess)
    return 2;
  return found[0] != value || found[1] != value;
}

static int import(int socket) {
  struct Entry {
    Message of;
    void* at;
  };

  std::map<std::uintptr_t, Entry> cache;
  CUDA_OK(cudaFree(nullptr));
  Message message{};
  while (get(socket, &message) && message.value >= 0) {
    Told told{};
    for (auto it = cache.begin(); it != cache.end();) {
      const Message& old = it->second.of;
      const bool overlaps =
          old.base < message.base + message.bytes && message.base < old.base + old.bytes;
      if (overlaps && std::memcmp(&old.handle, &message.handle, sizeof old.handle) != 0) {
        CUDA_OK(cudaIpcCloseMemHandle(it->second.at));
        it = cache.erase(it);
      } else {
        ++it;
      }
    }
    auto known = cache.find(message.base);
    if (known == cache.end()) {
      void* at = nullptr;
      told.code = cudaIpcOpenMemHandle(&at, message.handle, cudaIpcMemLazyEnablePeerAccess);
      (void)cudaGetLastError();
      if (told.code == 0) known = cache.emplace(message.base, Entry{message, at}).first;
    }
    if (told.code == 0) told.wrong = wrong_at(known->second.at, message.bytes, message.value);
    told.open = static_cast<int>(cache.size());
    send(socket, &told, sizeof told, 0);
  }
  return 0;
}

static Told tell(int socket, const Message& message) {
  Told told{-1, -1, -1};
  send(socket, &message, sizeof message, 0);
  (void)get(socket, &told);
  return told;
}

static Message message_of(void* buffer, std::size_t bytes, int value) {
  Message message{};
  CUDA_OK(cudaMemset(buffer, value, bytes));
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaIpcGetMemHandle(&message.handle, buffer));
  message.base = reinterpret_cast<std::uintptr_t>(buffer);
  message.bytes = bytes;
  message.value = value;
  return message;
}

static void by_ipc(int socket, int rounds, Report& report) {
  const std::size_t bytes = tenth_of_memory();
  const std::size_t before = free_memory();
  std::size_t least = before;
  int bad = 0;
  int open = 0;
  int done = 0;
  for (; done < rounds; ++done) {
    void* buffer = nullptr;
    if (cudaMalloc(&buffer, bytes) != cudaSuccess) break;
    const Told told = tell(socket, message_of(buffer, bytes, done % 250 + 1));
    bad += told.code != 0 || told.wrong != 0;
    open = std::max(open, told.open);
    CUDA_OK(cudaFree(buffer));
    least = std::min(least, free_memory());
  }
  (void)cudaGetLastError();
  report.check(done == rounds && bad == 0,
               "messages",
               "rounds=%d of=%d wrong=%d open=%d",
               done,
               rounds,
               bad,
               open);
  report.check(before - least < 12 * bytes,
               "messages_held",
               "held_mib=%zu buffer_mib=%zu",
               (before - least) / kMiB,
               bytes / kMiB);
}

static int dma_buf(void* buffer, std::size_t bytes, int* fd) {
  const auto at = reinterpret_cast<CUdeviceptr>(buffer);
  const CUdeviceptr begin = at / 4096 * 4096;
  const CUdeviceptr end = (at + bytes + 4095) / 4096 * 4096;
  return driver("cuMemGetHandleForAddressRange",
                static_cast<void*>(fd),
                begin,
                static_cast<std::size_t>(end - begin),
                static_cast<int>(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD),
                0ULL);
}

static void by_dma_buf(std::size_t bytes, int rounds, Report& report) {
  const std::size_t before = free_memory();
  std::size_t least = before;
  int refused = 0;
  int done = 0;
  for (; done < rounds; ++done) {
    void* buffer = nullptr;
    if (cudaMalloc(&buffer, bytes) != cudaSuccess) break;
    int fd = -1;
    const int code = dma_buf(buffer, bytes, &fd);
    if (done == 0 && code != 0) {
      std::printf("skip: dma_buf bytes=%zu code=%d\n", bytes, code);
      CUDA_OK(cudaFree(buffer));
      return;
    }
    refused += code != 0;
    if (fd >= 0) close(fd);
    CUDA_OK(cudaFree(buffer));
    if (done % 16 == 0) least = std::min(least, free_memory());
  }
  (void)cudaGetLastError();
  report.check(done == rounds && before - least < 3 * bytes + 256 * kMiB,
               "dma_bufs",
               "bytes=%zu rounds=%d of=%d refused=%d held_mib=%zu",
               bytes,
               done,
               rounds,
               refused,
               (before - least) / kMiB);
}

// A buffer with a DMA-BUF is freed beside neighbours that a kernel works on, and under a kernel
// that still writes to it.
static void beside_kernels(int rounds, Report& report) {
  constexpr std::size_t kBytes = 4 * kMiB + 512 * kKiB;
  constexpr std::size_t kBeside = kMiB + 256 * kKiB;
  WrongWords wrong;
  cudaStream_t stream = new_stream();
  warm_up(stream, wrong);
  int descriptors = 0;
  for (int i = 0; i < rounds; ++i) {
    void* buffer = device_memory(kBytes);
    void* beside = device_memory(kBeside);
    int fd = -1;
    descriptors += dma_buf(buffer, kBytes, &fd) == 0;
    if (fd >= 0) close(fd);
    const Word word = 0x1000 + static_cast<Word>(i);
    fill(stream, beside, kBeside, word);
    spin(stream, 2'000'000);
    fill(stream, buffer, kBytes, ~word);
    verify(stream, buffer, kBytes, ~word, wrong.device());
    verify(stream, beside, kBeside, word, wrong.device());
    CUDA_OK(cudaFree(buffer));
    void* next = device_memory(kBytes);
    fill(stream, next, kBytes, word);
    verify(stream, beside, kBeside, word, wrong.device());
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaFree(next));
    CUDA_OK(cudaFree(beside));
  }
  const auto words = wrong.take();
  CUDA_OK(cudaStreamDestroy(stream));
  report.check(words == 0,
               "neighbours",
               "rounds=%d descriptors=%d wrong=%llu",
               rounds,
               descriptors,
               static_cast<unsigned long long>(words));
}

static int run(int argc, char** argv) {
  if (const int socket = static_cast<int>(number_after(argc, argv, "--import", -1));
      socket >= 0)
    return import(socket);
  int sockets[2] = {};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 1;
  const pid_t child = fork();  // before CUDA begins
  if (child == 0) {
    close(sockets[0]);
    const std::string number = std::to_string(sockets[1]);
    execl("/proc/self/exe", argv[0], "--import", number.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(sockets[1]);
  need_devices(1);
  const bool quick = has_flag(argc, argv, "--quick");
  Report report;
  const std::size_t large = tenth_of_memory();
  by_dma_buf(large, quick ? 300 : 1000, report);
  by_dma_buf(2 * kMiB, quick ? 1000 : 20'000, report);
  by_dma_buf(256 * kKiB, quick ? 2000 : 20'000, report);
  by_ipc(sockets[0], quick ? 300 : 1000, report);
  beside_kernels(quick ? 50 : 500, report);
  Message end{};
  end.value = -1;
  send(sockets[0], &end, sizeof end, 0);
  int status = 0;
  waitpid(child, &status, 0);
  report.check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "importer", "status=%d", status);
  return report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
