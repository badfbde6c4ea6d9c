// How far a process is with work that others wait for, in the file that it has locked meanwhile.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"
#include "lib/data/prepare_once.h"

namespace muster {

inline constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
inline constexpr auto kBetweenWords = std::chrono::milliseconds(200);

// Writes it there, where those who wait read it, and tells whoever asked for it. Any thread.
class Saying {
 public:
  // All outlive it. `lock`: null where nobody waits.
  Saying(const Descriptor* lock, const std::function<void(const PreparedSoFar&)>& told,
         PreparedSoFar begins = {});
  // Five times a second at most.
  void Say(double share, absl::string_view what);

 private:
  void Write(const PreparedSoFar& so_far) const;

  const Descriptor* const lock_;
  const std::function<void(const PreparedSoFar&)>& told_;
  const bool hashes_;
  Mutex mutex_;
  std::optional<std::chrono::steady_clock::time_point> said_ ABSL_GUARDED_BY(mutex_);
};

// What the one who holds it said last; its `is_ours` is false.
PreparedSoFar HeardAt(const std::string& lock_path);

}  // namespace muster
