// SHA-256, for digests that must hold against anybody. OpenSSL stands behind this header only.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

struct evp_md_ctx_st;

namespace muster {

// One running hash; used by one thread at a time. After HexFinish only destruction is allowed.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(absl::Span<const std::byte> bytes);
  std::string HexFinish();  // 64 lower-case digits

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// Of a text: 64 lower-case digits.
std::string HexSha256(absl::string_view text);

// HMAC-SHA256 (RFC 2104) of a text: 32 bytes.
std::string HmacSha256(absl::string_view key, absl::string_view text);

}  // namespace muster
