#include "worker/commands/making_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/base/lease.h"

namespace muster::worker {

Duration PatienceOf(const RuntimeSpec& runtime) {
  return runtime.thread_patience > 0 ? DurationOf(runtime.thread_patience)
                                     : Duration(kDefaultThreadPatience);
}

MakingWatch::MakingWatch(Duration patience, std::function<void(const std::string& why)> hangs)
    : signs_({.every = std::min<Duration>(patience / 4, std::chrono::seconds(1)),
              .patience = patience,
              .hangs = [this, hangs = std::move(hangs)](
                           const ThreadAge& age) { hangs(WhyItHangs(age, progress_.runs())); }},
             {&progress_}) {
  GoesOn();
}

void MakingWatch::WatchOver(Preparing& preparing) {
  preparing.goes_on = [this] { GoesOn(); };
  preparing.told = [this, told = std::move(preparing.told)](const PreparedSoFar& so_far) {
    GoesOn();
    told(so_far);
  };
  preparing.enters = [this, enters = std::move(preparing.enters)](const std::string& what) {
    GoesOn();
    progress_.Runs(what);
    enters(what);
  };
}

void MakingWatch::GoesOn() { progress_.GoesOn(std::chrono::steady_clock::now()); }

}  // namespace muster::worker
