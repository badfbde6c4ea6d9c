// How far a process is with work that others wait for, in the file that it has locked meanwhile.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"
#include "lib/data/prepare_once.h"

namespace muster {

// Writes it there, where those who wait read it, and tells whoever asked for it. Any thread.
class Saying {
 public:
  // All outlive it. `lock`: null where nobody waits.
  Saying(const Descriptor* lock, const std::function<void(const PreparedSoFar&)>& told,
         PreparedSoFar begins = {});
  // Five times a second at most.
  void Say(double share, absl::string_view what);
  // What was written, before others may have the lock: it is nothing that goes on then.
  void Clear() const;

 private:
  void Write(const PreparedSoFar& so_far) const;

  const Descriptor* const lock_;
  const std::function<void(const PreparedSoFar&)>& told_;
  const bool hashes_;
  Mutex mutex_;
  std::optional<std::chrono::steady_clock::time_point> said_ ABSL_GUARDED_BY(mutex_);
};

// What the one who holds it said last; its `is_ours` is false. A process that is not on this
// machine any more is not named: its lock is another's by now, or that of another machine.
PreparedSoFar HeardAt(const std::string& lock_path);

struct WhileWaiting {
  std::function<bool()> may_wait;                  // whether it is of use to go on
  std::function<void(const PreparedSoFar&)> told;  // five times a second at most
  std::function<PreparedSoFar()> heard;            // of the one that is waited for
};
// Until `look` finds what it looks for, ten times a second. Errors of it, and kCancelled: waiting
// is of no use any more.
absl::Status WaitForOther(const std::function<absl::StatusOr<bool>()>& look,
                          const WhileWaiting& waiting);

}  // namespace muster
