// Keys of P-256, as text.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kMostPublicKeyBytes = 256;

absl::StatusOr<std::string> MakeKey();  // the private key, in PEM
// What a request for a certificate carries: the public half, in DER (SubjectPublicKeyInfo).
absl::StatusOr<std::string> PublicKeyOf(absl::string_view key_pem);
// kInvalidArgument: it is no public key of P-256, or written in another way than PublicKeyOf does.
absl::Status CheckPublicKey(absl::string_view public_key);
// By which the journal knows that public half: its SHA-256, 64 lower-case digits.
std::string HashOfKey(absl::string_view public_key);

}  // namespace muster
