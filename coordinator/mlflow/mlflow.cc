#include "coordinator/mlflow/mlflow.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

Time Now() { return RealClock().Now(); }

// Nothing of any job can be sent now.
bool IsOfServer(const absl::Status& failed) {
  return absl::IsUnavailable(failed) || absl::IsDeadlineExceeded(failed) ||
         absl::IsPermissionDenied(failed) || absl::IsDataLoss(failed);
}

}  // namespace

void GrowingPause::Failed(Time now, Duration first, Duration longest) {
  pause_ = std::min(longest, std::max(first, 2 * pause_));
  until_ = now + pause_;
}

Mlflow::Mlflow(MlflowOptions options)
    : options_(std::move(options)),
      client_(options_.settings, options_.patience, gives_up_),
      thread_([this] { Loop(); }) {}

Mlflow::~Mlflow() {
  stop_.Stop();
  const Time end = Now() + options_.last_patience;
  {
    MutexLock lock(mutex_);
    while (!has_ended_ && changed_.WaitUntil(mutex_, end)) {
    }
  }
  gives_up_ = true;
  thread_.join();
}

void Mlflow::Loop() {
  for (bool more = false, last = false; !last;) {
    last = more ? stop_.stopped() : stop_.WaitFor(options_.period);
    more = LookAtAll(last);
  }
  for (bool more = true; more && !gives_up_;) more = LookAtAll(/*is_last=*/true);
  TellWhatIsLeft();
  {
    MutexLock lock(mutex_);
    has_ended_ = true;
  }
  changed_.NotifyAll();
}

bool Mlflow::LookAtAll(bool is_last) {
  const absl::StatusOr<KnownJobsPtr> jobs = options_.known();
  if (!jobs.ok() || is_replaced_) return false;
  std::erase_if(kept_, [&](const auto& kept) {
    return std::none_of((*jobs)->begin(), (*jobs)->end(), [&](const KnownJobPtr& known) {
      return known->status.job.id == kept.first;
    });
  });
  if (!pause_.IsOver(Now()) && !is_last) return false;
  bool has_more = false;
  for (const KnownJobPtr& known : **jobs) {
    if (gives_up_ || is_replaced_) return false;
    const absl::StatusOr<bool> more = LookAt(known, is_last);
    has_more = has_more || more.value_or(false);
    if (!IsOfServer(more.status())) continue;
    pause_.Failed(Now(), options_.period, options_.longest_pause);
    return false;
  }
  pause_.Worked();
  return has_more;
}

absl::StatusOr<bool> Mlflow::LookAt(const KnownJobPtr& known, bool is_last) {
  const JobJournal& job = known->status.job;
  if (job.deleting || job.lineages.empty()) return false;
  auto kept = kept_.find(job.id);
  if (kept != kept_.end() && kept->second.first_start != job.first_start) {
    kept_.erase(kept);
    kept = kept_.end();
  }
  if (kept == kept_.end()) {
    JobAtMlflow run({options_.cluster, options_.settings.experiment});
    kept = kept_.emplace(job.id, Kept{.first_start = job.first_start, .run = std::move(run)}).first;
  }
  Kept& of = kept->second;
  if (of.is_deleted || of.sent == known || (!of.pause.IsOver(Now()) && !is_last)) return false;
  if (const absl::Status claim = options_.check_claim(); absl::IsAborted(claim)) {
    is_replaced_ = true;
    return false;
  }
  const AskMlflow ask = [this](const std::string& path, const std::string& body) {
    return client_.Ask(path, body);
  };
  const ReadSteps read = [this](const JobJournal& of_job, Step recorded,
                                int64_t from) -> absl::StatusOr<HistoryPage> {
    absl::StatusOr<HistoryPage> page = options_.read(of_job, recorded, from);
    if (page.ok()) return page;
    return absl::InternalError(
        absl::StrCat("the ledger cannot be read (", page.status().message(), ")"));
  };
  absl::StatusOr<bool> more = of.run.Follow(job, known->status.step, read, ask, experiments_);
  if (more.ok() && !*more) of.sent = known;
  of.is_deleted = absl::IsFailedPrecondition(more.status());
  if (more.ok())
    of.pause.Worked();
  else
    of.pause.Failed(Now(), options_.period, options_.longest_pause);
  if (!gives_up_) Note(job.id, more.status(), of);
  return more;
}

void Mlflow::Note(const std::string& job, const absl::Status& sent, Kept& kept) {
  const std::string server = absl::StrCat("MLflow at ", options_.settings.url);
  if (absl::IsFailedPrecondition(sent)) {
    options_.tell(absl::StrCat("note: ", server, ": ", sent.message()));
    return;
  }
  const auto warn = [&] {
    options_.tell(absl::StrCat("warning: ", server, " does not take what it is sent of job ", job,
                               ": ", sent.message(),
                               "; training goes on, and what it lacks is sent once it takes it"));
  };
  if (IsOfServer(sent)) {
    if (!std::exchange(is_failing_, true)) warn();
    return;
  }
  if (std::exchange(is_failing_, false)) options_.tell(absl::StrCat(server, " answers again"));
  const bool was_failing = std::exchange(kept.is_failing, !sent.ok());
  if (kept.is_failing && !was_failing) warn();
}

void Mlflow::TellWhatIsLeft() {
  const absl::StatusOr<KnownJobsPtr> jobs = options_.known();
  if (!jobs.ok() || is_replaced_) return;
  std::vector<std::string> left;
  for (const KnownJobPtr& known : **jobs) {
    const JobJournal& job = known->status.job;
    const auto kept = kept_.find(job.id);
    const bool has_nothing = job.deleting || job.lineages.empty() || known->status.step == Step(0);
    const bool is_done = has_nothing || (kept != kept_.end() &&
                                         (kept->second.is_deleted || kept->second.sent == known));
    if (!is_done) left.push_back(job.id);
  }
  if (left.empty()) return;
  constexpr size_t kMostNamed = 3;
  const bool all_named = left.size() <= kMostNamed;
  const size_t others = left.size() - std::min(left.size(), kMostNamed);
  left.resize(std::min(left.size(), kMostNamed));
  options_.tell(absl::StrCat("warning: MLflow at ", options_.settings.url,
                             " lacks the end of what there is of ", absl::StrJoin(left, ", "),
                             all_named ? "" : absl::StrCat(" and ", others, " more"),
                             "; the next start with --mlflow sends it"));
}

}  // namespace muster::coordinator
