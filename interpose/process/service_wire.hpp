// SPDX-License-Identifier: MIT
// The protocol between the service of a process (service.hpp) and its clients. A packet of a
// SOCK_SEQPACKET socket is a Header and `size` bytes. A request is a verb and its arguments in
// words. A reply is any bytes, in as many packets as it needs; the last one is marked. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

namespace custash::service {

inline constexpr std::uint32_t kMagic = 0x68737563;  // "cush"
inline constexpr std::uint16_t kVersion = 1;      // of the packets; verbs are only ever added
inline constexpr std::size_t kMaxRequest = 4096;  // a packet, with its header
inline constexpr std::size_t kMaxReply = 32768;   // a packet; a reply may have many
inline constexpr std::size_t kMaxFiles = 16;      // descriptors that one packet may carry

enum class ReplyStatus : std::int16_t {
  Done = 0,
  UnknownVerb = 1,
  BadArguments = 2,
  NotNow = 3,   // exit has begun, or the request cannot be served at this moment
  Refused = 4,  // understood, and the answer is no; the text may say why
  Later = 5,    // it is being done: ask again
};

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  ReplyStatus status = ReplyStatus::Done;  // of a reply
  std::uint32_t size = 0;                  // of what follows
  std::uint32_t last = 1;                  // 0: more packets of this reply come
};

// Names a service, and no other ever: the number is random, drawn when it starts.
struct Identity {
  pid_t pid = 0;
  std::uint64_t nonce = 0;

  bool operator==(const Identity&) const = default;
};

// What handles of memory prove themselves with. Drawn with the number, and named nowhere.
using Secret = std::array<std::uint64_t, 2>;

// The abstract name, without the zero before it: "custash/UID/PID/NONCE".
inline std::string name_of(uid_t user, const Identity& who) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string name = "custash/" + std::to_string(user) + "/" + std::to_string(who.pid) + "/";
  for (int shift = 60; shift >= 0; shift -= 4)
    name += kDigits[(who.nonce >> static_cast<unsigned>(shift)) & 15U];
  return name;
}

// An abstract name as the system takes it.
class AbstractAddress {
 public:
  explicit AbstractAddress(const std::string& name)
      : size_(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path + 1, name.data(), name.size());
  }

  [[nodiscard]] const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address_);
  }

  [[nodiscard]] socklen_t size() const { return size_; }

 private:
  sockaddr_un address_{};
  socklen_t size_;
};

}  // namespace custash::service
