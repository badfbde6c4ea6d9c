#include "lib/base/exit_codes.h"

#include "absl/strings/cord.h"

namespace muster {
namespace {

constexpr char kLackOfPlugin[] = "muster.dev/lack-of-plugin";

}  // namespace

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return kExitDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kAlreadyExists: return kExitBadConfiguration;
    case absl::StatusCode::kDataLoss: return kExitBadData;
    default: return kExitFailed;
  }
}

int ExitCodeOfTask(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return kExitDone;
    case absl::StatusCode::kFailedPrecondition: return kExitBadConfiguration;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDataLoss: return kExitBadData;
    default: return kExitFailed;
  }
}

absl::Status LackOfPlugin(absl::string_view message) {
  absl::Status status = absl::FailedPreconditionError(message);
  status.SetPayload(kLackOfPlugin, absl::Cord());
  return status;
}

bool IsLackOfPlugin(const absl::Status& status) {
  return status.GetPayload(kLackOfPlugin).has_value();
}

}  // namespace muster
