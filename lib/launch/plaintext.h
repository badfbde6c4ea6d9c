// Whether a program may speak plain text, over loopback. Those that people get may not: they speak
// with certificates or not at all. A bench that compares, and tests of what has nothing to do with
// certificates, build programs of the same parts that may (bench/plaintext): each program is linked
// with one of two files that answer this (docs/decisions/0075-no-plain-text.md).
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster {

bool MaySpeakPlaintext();

// `identity` is where the certificate of this program lies. kInvalidArgument: nowhere, and it needs
// one; `advice` says where one comes from.
absl::Status CheckHasIdentity(const std::string& identity, const std::string& advice);

}  // namespace muster
