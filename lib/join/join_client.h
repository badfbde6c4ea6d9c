// How a host joins: one question to the coordinator's join port, and what it makes of the answer.
// It blocks until the deadline at most, or until it is stopped.
#pragma once

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "lib/base/time.h"
#include "lib/domain/join.h"
#include "lib/identity/identity.h"
#include "lib/join/join_token.h"

namespace muster {

struct JoinOptions {
  std::string address;  // HOST:PORT, or several with commas, which are tried in turn
  JoinToken token;
  std::string host;  // our name
  std::string node;
};

// The answer of one that knows the token's key. kUnavailable: nobody was reached, or what was there
// broke off; kUnauthenticated: who was there does not take this token; kCancelled.
absl::StatusOr<JoinAnswer> AskToJoin(const JoinOptions& options, const JoinHost& ask, Time deadline,
                                     const std::stop_token& stop);

// A certificate for that key, checked. Errors of AskToJoin; kPermissionDenied: refused, and why;
// kAborted: refused for now; kFailedPrecondition: the clocks are too far apart; kDataLoss: what
// came is no certificate of ours.
absl::StatusOr<Identity> JoinCluster(const JoinOptions& options, const std::string& key_pem,
                                     Time deadline, const std::stop_token& stop);

}  // namespace muster
