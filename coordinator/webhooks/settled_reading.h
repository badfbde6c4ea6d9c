// A file that is read again and again, while others may be writing it, counts once two readings in
// a row say the same: half of it, even a half that can be read, is not obeyed, nor warned of.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/webhooks/settings.h"

namespace muster::coordinator {

// A plain value.
class SettledReading {
 public:
  using Read = absl::StatusOr<std::vector<WebhookSettings>>;

  // What holds until then.
  void Obeyed(const Read& settings) { last_ = settled_ = settings; }
  // Now it says something else than what settled last, and did so the last time, too.
  bool Settles(const Read& read) {
    const bool again = AreSame(read, last_);
    last_ = read;
    if (!again || AreSame(read, settled_)) return false;
    settled_ = read;
    return true;
  }

 private:
  static bool AreSame(const Read& a, const Read& b) {
    return a.status() == b.status() && (!a.ok() || *a == *b);
  }

  Read last_;
  Read settled_;
};

}  // namespace muster::coordinator
