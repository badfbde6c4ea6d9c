#include "lib/member/runtime/pace.h"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace muster {
namespace {

Duration ProcessorTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

// Both bounds are for the whole of the work so far, so that a rest that was too long, or a disk
// that was slow for a while, is made up for.
Duration RestOf(const PaceRules& rules, const PaceProgress& progress) {
  const double by_share = Seconds(progress.busy) / rules.share;
  const double by_interval = Seconds(progress.interval) * rules.of_interval * progress.done;
  const double rest = std::min(by_share, by_interval) - Seconds(progress.elapsed);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::max(rest, 0.0)));
}

void Pace::Begin(size_t bytes) {
  const Time now = std::chrono::steady_clock::now();
  interval_ = began_ ? now - *began_ : rules_.first_interval;
  began_ = now;
  began_busy_ = ProcessorTime();
  bytes_ = bytes;
  done_ = looked_ = 0;
  MutexLock lock(mutex_);
  hurry_work_ = false;
}

void Pace::Did(size_t bytes) {
  done_ += bytes;
  if (done_ >= bytes_ || done_ - looked_ < kPieceBytes) return;
  looked_ = done_;
  const Time now = std::chrono::steady_clock::now();
  const double done = static_cast<double>(done_) / static_cast<double>(bytes_);
  const Duration rest =
      RestOf(rules_, {now - *began_, ProcessorTime() - began_busy_, done, interval_});
  if (rest > Duration(0)) RestUntil(now + rest);
}

void Pace::RestUntil(Time until) {
  MutexLock lock(mutex_);
  while (!hurry_work_ && !hurry_all_ && changed_.WaitUntil(mutex_, until)) {
  }
}

void Pace::HurryWork() {
  MutexLock lock(mutex_);
  hurry_work_ = true;
  changed_.NotifyAll();
}

void Pace::HurryAll(bool hurry) {
  MutexLock lock(mutex_);
  hurry_all_ = hurry;
  changed_.NotifyAll();
}

}  // namespace muster
