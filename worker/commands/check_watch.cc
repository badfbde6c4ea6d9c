#include "worker/commands/check_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/lease.h"

namespace muster::worker {
namespace {

constexpr std::chrono::milliseconds kToldAfter{2000};

Time Now() { return std::chrono::steady_clock::now(); }

}  // namespace

Duration PatienceOf(const RuntimeSpec& runtime) {
  return runtime.thread_patience > 0 ? DurationOf(runtime.thread_patience)
                                     : Duration(kDefaultThreadPatience);
}

CheckWatch::CheckWatch(const std::string& task, Duration patience,
                       std::function<void(const std::string& why)> hangs)
    : patience_(patience),
      signs_({.every = std::min<Duration>(patience / 4, std::chrono::seconds(1)),
              .patience = patience,
              .hangs =
                  [this, hangs = std::move(hangs)](const ThreadAge& age) {
                    line_.Clear();
                    hangs(WhyItStandsStill(age));
                  }},
             {&progress_}) {
  progress_.Runs(absl::StrCat("task ", task));
  GoesOn();
}

std::string CheckWatch::WhyItStandsStill(const ThreadAge& age) const {
  if (at_ == Stage::kMaking) return WhyItHangs(age, progress_.runs());
  if (at_ == Stage::kEnding)
    return absl::StrFormat(
        "nothing has gone on for %.0f s at the end of the model of %s: its destructor has not "
        "returned",
        age.seconds, progress_.runs());
  return absl::StrFormat(
      "nothing has gone on for %.0f s in a pass through the model of %s: it has not returned; "
      "where it needs so long, take more lanes, or give the job a larger thread_patience",
      age.seconds, progress_.runs());
}

Preparing CheckWatch::Makes(std::function<void(const std::string& what)> enters) {
  at_ = Stage::kMaking;
  Begins("making the model of ");
  GoesOn();
  Preparing preparing = line_.TellsThis();
  preparing.goes_on = [this] { GoesOn(); };
  preparing.patience = patience_;
  preparing.told = [this, told = std::move(preparing.told)](const PreparedSoFar& so_far) {
    GoesOn();
    told(so_far);
  };
  preparing.enters = [this, enters = std::move(enters)](const std::string& what) {
    GoesOn();
    progress_.Runs(what);
    enters(what);
  };
  return preparing;
}

void CheckWatch::RunsTheModel() {
  at_ = Stage::kRunning;
  Begins("running the model of ");
  GoesOn();
}

void CheckWatch::EndsTheModel() {
  at_ = Stage::kEnding;
  Begins("ending the model of ");
  GoesOn();
}

void CheckWatch::GoesOn() { progress_.GoesOn(Now()); }

void CheckWatch::Begins(const char* what) {
  tells_.reset();
  line_.Clear();
  stage_.GoesOn(Now());
  tells_.emplace(LifeSigns::Options{.every = kToldAfter / 4,
                                    .patience = kToldAfter,
                                    .hangs =
                                        [this, what](const ThreadAge&) {
                                          line_.Shows(absl::StrCat(what, progress_.runs()));
                                        }},
                 std::vector<const ThreadProgress*>{&stage_});
}

}  // namespace muster::worker
