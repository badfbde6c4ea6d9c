// What a host and the coordinator say to each other when the host joins (docs/identity.md section
// 3). Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "lib/base/version.h"

namespace muster {

// host → coordinator, as its only word. The same key again renews the certificate.
struct JoinHost {
  std::string host;
  std::string node;
  std::string public_key;   // as PublicKeyOf writes it
  int64_t now_unix_ms = 0;  // by the host's clock
  Speaks speaks{};
  bool operator==(const JoinHost&) const = default;
};

struct HostJoined {
  std::string cluster;
  std::string certificate_pem;
  std::string authority_pem;
  int64_t now_unix_ms = 0;  // by the coordinator's clock
  bool operator==(const HostJoined&) const = default;
};
struct JoinRefused {
  std::string why;      // for people
  bool passes = false;  // the same question may be answered otherwise before long
  bool operator==(const JoinRefused&) const = default;
};
using JoinAnswer = std::variant<HostJoined, JoinRefused>;

// Of a question; an answer carries certificates, and may be as long as these.
inline constexpr size_t kMostJoinBytes = 16 << 10;
inline constexpr size_t kMostJoinAnswerBytes = 160 << 10;

}  // namespace muster
