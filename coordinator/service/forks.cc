#include "coordinator/service/forks.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/runtime/checkpoints.h"
#include "coordinator/runtime/fork_copy.h"
#include "coordinator/runtime/once.h"
#include "coordinator/state/plan.h"
#include "lib/base/status.h"
#include "lib/checkpoint/load.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/config/field_error.h"
#include "lib/domain/fork.h"
#include "lib/log/log.h"
#include "lib/task/model_size.h"
#include "lib/task/registry.h"

namespace muster::coordinator {
namespace {

constexpr size_t kMostUnderWay = 16;
constexpr size_t kMostStepsShown = 16;  // the newest

// The newest one on the ancestry; with `step`: of that step, which may be the one that was found.
absl::StatusOr<CheckpointPlace> PlaceOf(const JobStatus& parent, std::optional<int64_t> step,
                                        const ManifestPtr& found) {
  if (found && found->job == parent.job.id && step && found->step == Step(*step) &&
      OnAncestry(parent.job.lineages, found->lineage, found->step))
    return CheckpointPlace(found->lineage, found->step);
  std::vector<std::string> steps;
  for (auto c = parent.checkpoints.rbegin(); c != parent.checkpoints.rend(); ++c) {
    if (!OnAncestry(parent.job.lineages, c->first, c->second)) continue;
    if (!step || c->second == Step(*step)) return *c;
    if (steps.size() < kMostStepsShown) steps.push_back(absl::StrCat(c->second.value()));
  }
  return FieldError(
      "", "initial.parent.step",
      absl::StrCat("job ", parent.job.id, " has no checkpoint",
                   step ? absl::StrCat(" of step ", *step) : "",
                   steps.empty() ? "; let it make one first"
                                 : absl::StrCat("; allowed: ", absl::StrJoin(steps, ", "))));
}

// Of tasks that are known here, so that nothing is copied for nothing.
absl::Status CheckSize(const TrainingSpec& parent, const TrainingSpec& fork) {
  if (FindTask(fork.task) == nullptr) return absl::OkStatus();
  const int64_t theirs = ModelElements(parent), ours = ModelElements(fork);
  if (theirs == ours) return absl::OkStatus();
  return FieldError("", "parameters",
                    absl::StrCat("with these the model has ", ours, " numbers, and that of the ",
                                 "parent has ", theirs, ": a fork has the same tensors"));
}

absl::Status NotReadable(const Manifest& manifest, const absl::Status& why) {
  const std::string text =
      absl::StrCat("the checkpoint of job ", manifest.job, ", step ", manifest.step.value(),
                   ", cannot be read any more: ", why.message(),
                   "; fork another step, or keep that one first (muster checkpoints)");
  return absl::IsNotFound(why) ? absl::FailedPreconditionError(text)
                               : absl::Status(why.code(), text);
}

bool IsOfParent(const absl::Status& why) { return absl::IsNotFound(why) || absl::IsDataLoss(why); }

}  // namespace

Forks::Forks(Driver& driver, const Journal& journal, std::string root, Decide decide, Pick pick)
    : driver_(driver),
      journal_(journal),
      root_(std::move(root)),
      decide_(std::move(decide)),
      pick_(std::move(pick)) {}

void Forks::Submit(const std::string& id, const JobSpec& spec, Accepts accepts,
                   const Caller& caller, const ManifestPtr& found,
                   const JobApi::Reply<SubmittedJob>& replies) {
  const JobApi::Reply<SubmittedJob> reply = Once(replies);
  // Null: the job is there, and what is submitted is decided as of any other.
  const auto record = std::make_shared<RecordPtr>();
  const auto created = std::make_shared<bool>(false);
  const auto decide = [=, this](const KnownJobs& jobs) -> absl::StatusOr<std::optional<Input>> {
    if (const auto known = FindJob(jobs, id); known.ok()) {
      JobSpec asked = spec;
      std::optional<ParentState>& parent = asked.training.initial.parent;
      const auto& held = (*known)->status.job.spec.training.initial.parent;
      if (held && NamesParent(*parent, *held)) parent = held;
      return decide_(jobs, id, asked, accepts, caller, found, *created);
    }
    MUSTER_ASSIGN_OR_RETURN(*record, Reserve(jobs, id, spec, caller, found, reply));
    return std::nullopt;
  };
  driver_.Change(decide, [=, this](const absl::StatusOr<KnownJobs>& jobs) {
    if (*record == nullptr) {
      const absl::StatusOr<JobInfo> info = pick_(jobs, id);
      return info.ok() ? reply(SubmittedJob{*info, *created}) : reply(info.status());
    }
    if (!jobs.ok()) return Answer(*record, jobs.status());
    const bool is_first = [&] {
      const MutexLock lock(mutex_);
      return !std::exchange((*record)->is_begun, true);
    }();
    if (!is_first) return;
    const bool runs = driver_.RunLong(
        [this, record = *record](const std::stop_token& stop) { Copy(record, stop); });
    if (!runs) Answer(*record, ShuttingDown());
  });
}

absl::Status Forks::CheckFree(const std::string& job) const {
  const MutexLock lock(mutex_);
  if (under_way_.contains(job))
    return absl::AlreadyExistsError(absl::StrCat(
        "job ", job, " is being forked; take another id, or submit the same again to wait for it"));
  if (!left_behind_.contains(job)) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "what a fork copied for job ", job,
      " could not be removed: take another id, or start the coordinator again, which removes it"));
}

// On the driver's thread, as all that reserves.
absl::StatusOr<Forks::RecordPtr> Forks::Reserve(const KnownJobs& jobs, const std::string& id,
                                                const JobSpec& spec, const Caller& caller,
                                                const ManifestPtr& found,
                                                const JobApi::Reply<SubmittedJob>& reply) {
  {
    const MutexLock lock(mutex_);
    if (const auto it = under_way_.find(id); it != under_way_.end()) {
      const RecordPtr& record = it->second;
      if (record->asked == spec && record->caller.user == caller.user) {
        record->waiting.push_back(reply);
        return record;
      }
    } else if (under_way_.size() >= kMostUnderWay) {
      return absl::UnavailableError(
          absl::StrCat(kMostUnderWay, " forks are under way already; retry later"));
    }
  }
  MUSTER_RETURN_IF_ERROR(CheckFree(id));
  MUSTER_ASSIGN_OR_RETURN(RecordPtr record, Plan(jobs, id, spec, caller, found));
  record->waiting.push_back(reply);
  const MutexLock lock(mutex_);
  under_way_[id] = record;
  return record;
}

// All that can be said of it before anything is read.
absl::StatusOr<Forks::RecordPtr> Forks::Plan(const KnownJobs& jobs, const std::string& id,
                                             const JobSpec& spec, const Caller& caller,
                                             const ManifestPtr& found) const {
  const ParentState& asked = *spec.training.initial.parent;
  if (asked.job == id) return FieldError("", "initial.parent.job", "is the job itself");
  auto record = std::make_shared<Record>();
  record->id = id;
  record->asked = spec;
  record->caller = caller;
  const auto parent = FindJob(jobs, asked.job);
  const JobRights rights = parent.ok() ? RightsOf((*parent)->status.job) : JobRights();
  const bool is_seen = parent.ok() && CheckRights(caller, Need::kSeeJobs, asked.job, &rights).ok();
  if (!is_seen)
    return FieldError("", "initial.parent.job", absl::StrCat("there is no job ", asked.job));
  record->parent = *parent;
  const JobStatus& status = (*parent)->status;
  if (status.job.deleting)
    return absl::FailedPreconditionError(
        absl::StrCat("job ", asked.job, " is being deleted: there is nothing to fork any more"));
  if (!asked.name.empty())
    return absl::UnavailableError(absl::StrCat("job ", id, " was deleted, or job ", asked.job,
                                               " came, just now; submit it again"));
  MUSTER_ASSIGN_OR_RETURN(const CheckpointPlace place, PlaceOf(status, asked.step, found));
  std::tie(record->lineage, record->step) = place;
  const TrainingSpec& training = status.job.spec.training;
  if (const auto not_forked = WhyNotForked(training, record->step, spec.training))
    return FieldError("", not_forked->field, not_forked->why);
  MUSTER_RETURN_IF_ERROR(CheckSize(training, spec.training));
  bool created = false;
  MUSTER_RETURN_IF_ERROR(decide_(jobs, id, spec, {}, caller, nullptr, created).status());
  return record;
}

// ---- what it does, one after the other, none of which waits for another thread

absl::StatusOr<Fork> Forks::MakeCopy(const Record& record, const std::stop_token& stop) {
  const JobJournal& parent = record.parent->status.job;
  const ParentState& asked = *record.asked.training.initial.parent;
  Catalogue catalogue = driver_.OurCatalogue();
  MUSTER_ASSIGN_OR_RETURN(const Catalogue::Listing listing, catalogue.List(parent.id));
  const auto found = std::find_if(
      listing.manifests.begin(), listing.manifests.end(),
      [&](const Manifest& m) { return m.lineage == record.lineage && m.step == record.step; });
  if (found == listing.manifests.end() || !parent.environment)
    return absl::FailedPreconditionError(
        absl::StrCat("job ", parent.id, " has removed its checkpoint of step ", record.step.value(),
                     " meanwhile; fork a newer one"));
  const std::unique_ptr<CheckpointFiles> from = CheckpointFilesIn(CheckpointDir(root_, parent.id));
  const absl::StatusOr<std::string> digest = Digest(*from, *found, stop);
  if (IsOfParent(digest.status())) return NotReadable(*found, digest.status());
  MUSTER_RETURN_IF_ERROR(digest.status());
  if (!asked.digest.empty() && asked.digest != *digest)
    return FieldError("", "initial.parent.digest",
                      absl::StrCat("the state of job ", parent.id, ", step ", record.step.value(),
                                   ", has digest ", *digest));
  const TrainingSpec& training = parent.spec.training;
  ForkTarget target{record.id, record.asked, journal_.cluster()};
  target.spec.runtime.resume = {};
  target.spec.training = ForkedAt(training, record.step, *digest, record.asked.training);
  const std::unique_ptr<CheckpointFiles> to = CheckpointFilesIn(CheckpointDir(root_, record.id));
  absl::StatusOr<Manifest> made =
      CopyFork({*found, training, *parent.environment}, *from, target, catalogue, *to, stop);
  if (IsOfParent(made.status())) return NotReadable(*found, made.status());
  MUSTER_RETURN_IF_ERROR(made.status());
  return Fork{record.id, std::move(target.spec), *std::move(made), record.caller.user};
}

void Forks::Copy(const RecordPtr& record, const std::stop_token& stop) {
  if (stop.stop_requested()) return Answer(record, ShuttingDown());
  absl::StatusOr<Fork> made = MakeCopy(*record, stop);
  if (!made.ok()) return Drop(record, made.status());
  const auto fork = std::make_shared<const Fork>(*std::move(made));
  // Once it is decided the job has the copy, whatever becomes of the write.
  const auto decided = std::make_shared<bool>(false);
  const auto decide = [this, record, decided,
                       fork](const KnownJobs& jobs) -> absl::StatusOr<std::optional<Input>> {
    bool created = false;
    MUSTER_RETURN_IF_ERROR(
        decide_(jobs, fork->id, fork->spec, {}, record->caller, nullptr, created).status());
    *decided = true;
    return *fork;
  };
  driver_.Change(decide, [this, record, decided](const absl::StatusOr<KnownJobs>& jobs) {
    if (!jobs.ok() && !*decided) {
      const bool runs = driver_.RunLong(
          [this, record, why = jobs.status()](const std::stop_token&) { Drop(record, why); });
      return runs ? void() : Answer(record, jobs.status());
    }
    absl::StatusOr<JobInfo> info = pick_(jobs, record->id);
    if (info.ok()) return Answer(record, SubmittedJob{*std::move(info), true});
    Answer(record, info.status());
  });
}

// Without a job the copy would be found by the next one of that id.
void Forks::Drop(const RecordPtr& record, const absl::Status& why) {
  Catalogue catalogue = driver_.OurCatalogue();
  const std::string& id = record->id;
  const absl::Status removed =
      catalogue.RemoveAll(id, *CheckpointFilesIn(CheckpointDir(root_, id)));
  if (!removed.ok()) LogWarning("a copy for job %s stays: %s", id, removed.message());
  const absl::StatusOr<std::set<std::string>> left = catalogue.Jobs();
  {
    const MutexLock lock(mutex_);
    left_behind_.erase(id);
    if (!left.ok() || left->contains(id)) left_behind_.insert(id);
  }
  Answer(record, absl::IsCancelled(why) ? ShuttingDown() : why);
}

// Nothing is left of what was copied, or there is the job; or the driver ends, and the next start
// looks whether the copy has a job.
void Forks::Answer(const RecordPtr& record, const absl::StatusOr<SubmittedJob>& answer) {
  std::vector<JobApi::Reply<SubmittedJob>> waiting;
  {
    const MutexLock lock(mutex_);
    under_way_.erase(record->id);
    waiting = std::exchange(record->waiting, {});
  }
  for (const JobApi::Reply<SubmittedJob>& reply : waiting) reply(answer);
}

}  // namespace muster::coordinator
