// A cluster, as its coordinator's REST tells of it to whoever asks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/doctor/finding.h"
#include "cli/rest_client.h"
#include "lib/http/message.h"

namespace muster::cli::doctor {

// How far another clock may be from ours, the other's time minus ours: the truth lies between.
struct ClockOffset {
  absl::Duration least;
  absl::Duration most;
};
// From the header Date of an answer, which tells whole seconds, of a request that was sent and
// answered then by our clock. Nothing: it says no time.
std::optional<ClockOffset> OffsetFrom(const http::Response& response, absl::Time sent,
                                      absl::Time came);
Finding JudgeClockOffset(std::optional<ClockOffset> offset);

struct ClusterFacts {
  std::string url;
  absl::Status may_ask;  // not OK: whom to trust, or which token to show, is not known
  absl::Status reached;  // of GET /healthz: how the exchange went
  absl::Status healthy;  // … and what was answered
  absl::Status ready;    // of GET /readyz
  bool has_token = false;
  std::optional<ClockOffset> offset;
  absl::StatusOr<std::string> version = absl::UnknownError("");  // of GET /metrics
  int64_t under_way = 0;  // jobs that have places, of those that the coordinator lists first
  absl::StatusOr<std::vector<JobAnswer>> queued = absl::UnknownError("");
  absl::StatusOr<HostList> hosts = absl::UnknownError("");  // of all pages
  absl::StatusOr<AuthorityAnswer> authority = absl::UnknownError("");
};

// One exchange with the coordinator, a bounded one, with the token where there is one.
using Ask = std::function<absl::StatusOr<http::Response>(const std::string& target)>;
// `facts`: with url, may_ask and has_token.
ClusterFacts GatherCluster(ClusterFacts facts, const Ask& ask,
                           const std::function<absl::Time()>& now);
// `version`: that of this muster.
Findings JudgeCluster(const ClusterFacts& facts, const std::string& version, absl::Time now);

// That in `muster_build_info` of a text of metrics; "" where it has none.
std::string VersionIn(const std::string& metrics);

}  // namespace muster::cli::doctor
