// What of all that is told of a preparation is news, and for whom: while data is hashed, each piece
// that was read is told. Any thread. Lives as long as its process prepares.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "lib/base/mutex.h"
#include "lib/base/printable.h"
#include "lib/data/prepare_once.h"
#include "lib/domain/message.h"

namespace muster::worker {

class PrepareNews {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr auto kBetweenWords = std::chrono::seconds(10);

  struct News {
    std::optional<HowFar> for_coordinator;  // which shows the last that it heard of it
    bool for_people = false;                // at once, and then now and then
  };
  News In(const PreparedSoFar& so_far, Time now) {
    const MutexLock lock(mutex_);
    News news;
    HowFar how_far = HowFarOf(so_far);
    if (posted_ != how_far) {
      posted_ = how_far;
      news.for_coordinator = std::move(how_far);
    }
    // Whose work it is, and the first that is said of it, does not wait.
    const std::pair<bool, bool> kind(so_far.is_ours, so_far.what.empty());
    news.for_people = !told_ || kind_ != kind || now - *told_ >= kBetweenWords;
    if (!news.for_people) return news;
    told_ = now;
    kind_ = kind;
    return news;
  }
  // The coordinator was told that nothing is prepared any more.
  void Over() {
    const MutexLock lock(mutex_);
    posted_.reset();
  }

 private:
  static HowFar HowFarOf(const PreparedSoFar& so_far) {
    return {.waits = !so_far.is_ours,
            .hashes = so_far.hashes,
            .percent = static_cast<int32_t>(100 * so_far.share),
            .what = Cut(so_far.what, kMostHowFarBytes)};
  }

  Mutex mutex_;
  std::optional<HowFar> posted_ ABSL_GUARDED_BY(mutex_);
  std::optional<Time> told_ ABSL_GUARDED_BY(mutex_);
  std::pair<bool, bool> kind_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::worker
