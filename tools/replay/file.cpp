// SPDX-License-Identifier: MIT

#include "tools/replay/trace.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include <lzma.h>

namespace custash::replay {
namespace {

constexpr std::size_t kLargestFile = std::size_t{4} << 30;
constexpr std::uint64_t kMostDecoderMemory = std::uint64_t{1} << 30;
constexpr std::size_t kStep = std::size_t{1} << 20;

const std::uint8_t* data_of(const std::string& text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

// Frees what the decoder holds, however it ends.
struct Stream {
  lzma_stream stream = LZMA_STREAM_INIT;
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  ~Stream() { lzma_end(&stream); }
};

}  // namespace

std::string unpack(const std::string& name, std::string bytes) {
  if (std::string_view(bytes).substr(0, 6) != std::string_view("\xfd"
                                                               "7zXZ\0",
                                                               6))
    return bytes;
  Stream holder;
  lzma_stream& stream = holder.stream;
  if (lzma_stream_decoder(&stream, kMostDecoderMemory, LZMA_CONCATENATED) != LZMA_OK)
    throw BadTrace(name + ": no memory to unpack it");
  std::string out;
  stream.next_in = data_of(bytes);
  stream.avail_in = bytes.size();
  lzma_ret result = LZMA_OK;
  while (result == LZMA_OK) {
    const std::size_t had = out.size();
    if (had >= kLargestFile) throw BadTrace(name + ": unpacks to more than 4 GiB");
    out.resize(had + kStep);
    stream.next_out = reinterpret_cast<std::uint8_t*>(out.data() + had);
    stream.avail_out = kStep;
    result = lzma_code(&stream, LZMA_FINISH);
    out.resize(out.size() - stream.avail_out);
  }
  if (result == LZMA_BUF_ERROR) throw BadTrace(name + ": the .xz file ends too early");
  if (result != LZMA_STREAM_END) throw BadTrace(name + ": the .xz file is damaged");
  return out;
}

std::string_view known_format(std::string_view bytes) {
  constexpr std::pair<std::string_view, std::string_view> kMagics[] = {
      {"\x7f"
       "ELF",
       "an ELF program or library"},
      {"\x1f\x8b", "packed with gzip, which is not read (xz is)"},
      {"\x28\xb5\x2f\xfd", "packed with zstd, which is not read (xz is)"},
      {"BZh", "packed with bzip2, which is not read (xz is)"},
      {"PK\x03\x04", "a zip archive"},
      {"\x89PNG", "a PNG picture"},
      {"%PDF", "a PDF document"},
      {"#!", "a script"},
  };
  for (const auto& [magic, what] : kMagics)
    if (bytes.substr(0, magic.size()) == magic) return what;
  constexpr std::size_t kLooked = 512;
  const auto is_control = [](char c) {
    // Zero bytes may be damage to a text.
    return c > 0 && c < ' ' && std::strchr("\t\n\v\f\r", c) == nullptr;
  };
  const std::string_view begin = bytes.substr(0, kLooked);
  return std::any_of(begin.begin(), begin.end(), is_control) ? "binary data" : "";
}

std::string pack(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  const lzma_ret result = lzma_easy_buffer_encode(LZMA_PRESET_DEFAULT,
                                                  LZMA_CHECK_CRC64,
                                                  nullptr,
                                                  data_of(text),
                                                  text.size(),
                                                  reinterpret_cast<std::uint8_t*>(out.data()),
                                                  &size,
                                                  out.size());
  if (result != LZMA_OK) throw std::runtime_error("no memory to pack a trace");
  out.resize(size);
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  std::string step(kStep, '\0');
  while (file.read(step.data(), static_cast<std::streamsize>(step.size())) ||
         file.gcount() > 0) {
    if (bytes.size() >= kLargestFile) throw BadTrace(path + ": larger than 4 GiB");
    bytes.append(step, 0, static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) throw BadTrace(path + ": " + std::strerror(errno));
  return unpack(path, std::move(bytes));
}

}  // namespace custash::replay
