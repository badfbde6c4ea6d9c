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

std::string WhyAPassHangs(double seconds, const std::string& task) {
  return absl::StrFormat(
      "nothing has gone on for %.0f s in a pass through the model of %s: it has not returned; "
      "where it needs so long, take more lanes, or give the job a larger thread_patience",
      seconds, task);
}

CheckWatch::CheckWatch(const std::string& task, Duration patience,
                       std::function<void(const std::string& why)> hangs)
    : patience_(patience),
      signs_({.every = std::min<Duration>(patience / 4, std::chrono::seconds(1)),
              .patience = patience,
              .hangs =
                  [this, hangs = std::move(hangs)](const ThreadAge& age) {
                    line_.Clear();
                    hangs(is_made_ ? WhyAPassHangs(age.seconds, progress_.runs())
                                   : WhyItHangs(age, progress_.runs()));
                  }},
             {&progress_}) {
  progress_.Runs(absl::StrCat("task ", task));
  GoesOn();
}

Preparing CheckWatch::Makes(std::function<void(const std::string& what)> enters) {
  is_made_ = false;
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
  is_made_ = true;
  Begins("running the model of ");
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
