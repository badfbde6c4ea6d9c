// Looks again and again whether another coordinator has taken this one's place, on a thread of its
// own: the folder that tells it may be on another machine, and hang for minutes, which nobody who
// decides is to wait for.
#pragma once

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "lib/base/mailbox.h"
#include "lib/base/time.h"

namespace muster::coordinator {

class ClaimWatch {
 public:
  // kAborted: it has; any other answer tells nothing.
  using Look = std::function<absl::Status()>;
  // `lost` is called once, with that kAborted, on the watch's thread; then nobody looks any more.
  ClaimWatch(Look look, Duration every, std::function<void(const absl::Status& why)> lost);
  ~ClaimWatch();
  ClaimWatch(const ClaimWatch&) = delete;
  ClaimWatch& operator=(const ClaimWatch&) = delete;

  // Waits for a look that is under way.
  void Stop();

 private:
  Mailbox<bool> end_;  // closed: it ends; nothing is ever posted
  std::thread thread_;
};

}  // namespace muster::coordinator
