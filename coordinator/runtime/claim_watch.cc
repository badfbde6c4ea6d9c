#include "coordinator/runtime/claim_watch.h"

#include <utility>

#include "lib/base/clock.h"

namespace muster::coordinator {

ClaimWatch::ClaimWatch(Look look, Duration every,
                       std::function<void(const absl::Status& why)> lost) {
  thread_ = std::thread([this, look = std::move(look), every, lost = std::move(lost)] {
    while (!end_.closed()) {
      const absl::Status ours = look();
      if (absl::IsAborted(ours)) return lost(ours);
      end_.TakeUntil(RealClock().Now() + every);
    }
  });
}

ClaimWatch::~ClaimWatch() { Stop(); }

void ClaimWatch::Stop() {
  end_.Close();
  if (thread_.joinable()) thread_.join();
}

}  // namespace muster::coordinator
