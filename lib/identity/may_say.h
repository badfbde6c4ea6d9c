// Who may say what: the table of frames against names (docs/identity.md section 2). A kind of frame
// without a row does not build.
#pragma once

#include "absl/status/status.h"
#include "lib/domain/message.h"
#include "lib/identity/peer_name.h"

namespace muster {

// OK, or kPermissionDenied: the frame is of a kind that `who` has no part in, or it speaks for
// somebody else. What a frame says besides is for its receiver to judge.
absl::Status MaySay(const PeerName& who, const ToCoordinator& message);
absl::Status MaySay(const PeerName& who, const FromAgent& message);
absl::Status MaySay(const PeerName& who, const PeerMessage& message);

}  // namespace muster
