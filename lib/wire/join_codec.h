// Messages of hosts that join as bytes (muster/v1/join.proto). What is read is distrusted.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "lib/domain/join.h"

namespace muster {

std::string Encode(const JoinHost& ask);
std::string Encode(const JoinAnswer& answer);
// kInvalidArgument: names the field. kFailedPrecondition, with the versions of both: that host has
// no form of the protocol in common with us (docs/protocol.md section 10).
absl::StatusOr<JoinHost> DecodeJoinHost(std::string_view bytes);
absl::StatusOr<JoinAnswer> DecodeJoinAnswer(std::string_view bytes);

}  // namespace muster
