// The one error language is absl::Status. What some codes mean in Muster:
// - kInvalidArgument: bytes or a specification from outside are wrong; the message names the field.
// - kFailedPrecondition: right words at the wrong time (old view, another specification or
// version).
// - kResourceExhausted: a limit, a full disk. kDataLoss: a checksum that differs, unusable data.
// - kUnavailable: the peer is gone, try again. kInternal: an invariant of ours is broken.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace muster {

// The same status, payloads included, with `prefix: ` before its message; OK stays OK.
inline absl::Status Prefix(absl::string_view prefix, const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status prefixed(status.code(), absl::StrCat(prefix, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { prefixed.SetPayload(url, payload); });
  return prefixed;
}

}  // namespace muster

#define MUSTER_CONCAT_INNER(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_INNER(a, b)
#define MUSTER_RETURN_IF_ERROR(expr)                                                       \
  do {                                                                                     \
    if (absl::Status muster_status_ = (expr); !muster_status_.ok()) return muster_status_; \
  } while (false)
#define MUSTER_ASSIGN_OR_RETURN(lhs, expr) \
  MUSTER_ASSIGN_OR_RETURN_IMPL(MUSTER_CONCAT(muster_or_, __LINE__), lhs, expr)
#define MUSTER_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp.ok()) return tmp.status();                \
  lhs = std::move(tmp).value()
