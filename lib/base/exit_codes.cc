#include "lib/base/exit_codes.h"

namespace muster {

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

}  // namespace muster
