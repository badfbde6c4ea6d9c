// When a member speaks to the coordinator, and whether it names those that it does not reach
// (docs/hosts.md section 8). Pure; lives as long as its life signs.
#pragma once

#include <algorithm>
#include <chrono>

#include "lib/base/own_gaps.h"
#include "lib/base/time.h"

namespace muster {

// Between two words of which one tells news; and while a member names others it speaks so often, as
// the coordinator counts from word to word how long.
inline constexpr Duration kBetweenNews = std::chrono::milliseconds(250);
// Whoever stood still longer than this may have lost sessions by that. It names nobody until its
// peers have had the time to come back: they try again twice a second at least, for a second each.
inline constexpr Duration kStandstill = std::chrono::seconds(1);
inline constexpr Duration kAfterStandstill = std::chrono::seconds(2);

class WordPace {
 public:
  // `every`: between two words without news.
  WordPace(Duration every, Time now)
      : every_(std::max<Duration>(every, std::chrono::milliseconds(1))),
        own_gaps_(kStandstill, now),
        due_(now + every),
        next_(due_),
        looks_(now + kBetweenNews) {}

  // It looks at the clock again then: at a time of a word, and often enough to see a standstill.
  Time Next(bool has_news) const {
    return std::min(looks_, has_news ? std::min(next_, soonest_) : next_);
  }
  // True: it is to speak now.
  bool Wake(Time now, bool has_news) {
    if (own_gaps_.Wake(now)) names_from_ = now + kAfterStandstill;
    looks_ = now + kBetweenNews;
    return now >= next_ || (has_news && now >= soonest_);
  }
  // May what was noted then of who is not reached be said now? Later nobody knows: they may have
  // come back.
  bool MayName(Time now, Time noted) const {
    return now >= names_from_ && now - noted <= 2 * std::min(every_, kBetweenNews);
  }
  // `misses`: there are others that it does not reach, be it that it may not name them now.
  void Spoke(Time now, bool misses) {
    if (now >= due_) due_ += every_ * ((now - due_) / every_ + 1);
    next_ = misses ? std::min(due_, now + kBetweenNews) : due_;
    soonest_ = now + kBetweenNews;
  }

 private:
  const Duration every_;
  OwnGaps own_gaps_;
  Time due_;        // a word, whatever is said before it
  Time next_;       // word, without news
  Time soonest_{};  // … with news
  Time looks_;      // again
  Time names_from_{};
};

}  // namespace muster
