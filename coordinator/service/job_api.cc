#include "coordinator/service/job_api.h"

#include <algorithm>
#include <climits>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/runtime/checkpoints.h"
#include "coordinator/runtime/history.h"
#include "coordinator/runtime/once.h"
#include "coordinator/service/adoptions.h"
#include "coordinator/service/asked_checkpoint.h"
#include "coordinator/service/forks.h"
#include "coordinator/service/job_questions.h"
#include "coordinator/service/namespace_api.h"
#include "coordinator/service/new_job_id.h"
#include "coordinator/service/shared_answer.h"
#include "coordinator/state/plan.h"
#include "coordinator/state/stored_job.h"
#include "lib/base/mutex.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/config/field_error.h"
#include "lib/config/places.h"
#include "lib/domain/fork.h"
#include "lib/domain/job_id.h"
#include "lib/task/model_size.h"
#include "lib/wire/job_codec.h"

namespace muster::coordinator {
namespace {

absl::Status CheckId(const std::string& id) {
  if (IsJobId(id)) return absl::OkStatus();
  return FieldError("", "id", absl::StrCat("must be ", JobIdRule()));
}

// Workers would look for a relative path in directories of their own.
absl::Status CheckPath(const std::string& field, const std::string& path) {
  if (path.empty() || path[0] == '/') return absl::OkStatus();
  return FieldError("", field, absl::StrCat("'", path, "' is relative; write the whole path"));
}

absl::Status CheckEach(const std::string& field, const std::vector<std::string>& paths) {
  for (size_t i = 0; i < paths.size(); ++i)
    MUSTER_RETURN_IF_ERROR(CheckPath(FieldPath(field, i), paths[i]));
  return absl::OkStatus();
}

absl::Status CheckPaths(const JobSpec& spec) {
  const TrainingSpec& training = spec.training;
  MUSTER_RETURN_IF_ERROR(CheckEach("data.paths", training.data.paths));
  MUSTER_RETURN_IF_ERROR(CheckEach("validation.paths", training.validation.paths));
  MUSTER_RETURN_IF_ERROR(CheckPath("data.stream.path", spec.runtime.stream.path));
  return CheckPath("initial.file", training.initial.file);
}

absl::Status CheckFolder(const std::string& folder) {
  if (folder.empty() || folder[0] != '/')
    return FieldError("", "folder",
                      absl::StrCat("'", Cut(folder),
                                   "' is relative; write the whole path of a folder that the "
                                   "coordinator can read"));
  if (folder.size() < PATH_MAX && folder.find('\0') == std::string::npos) return absl::OkStatus();
  return FieldError("", "folder", "is no path: it is too long, or holds a zero byte");
}

// Work that was stopped says so in words for people.
template <class T>
absl::StatusOr<T> UnlessStopped(absl::StatusOr<T> answer) {
  return absl::IsCancelled(answer.status()) ? ShuttingDown() : std::move(answer);
}

// How many watch, by user.
struct Watching {
  Mutex mutex;
  std::map<std::string, size_t> of_user ABSL_GUARDED_BY(mutex);
};

// A watcher that is counted while it lives.
class CountedWatcher final : public JobWatcher {
 public:
  CountedWatcher(std::shared_ptr<Watching> watching, std::string user,
                 std::shared_ptr<JobWatcher> watcher)
      : watching_(std::move(watching)), user_(std::move(user)), watcher_(std::move(watcher)) {}
  ~CountedWatcher() override {
    const MutexLock lock(watching_->mutex);
    const auto of = watching_->of_user.find(user_);
    if (--of->second == 0) watching_->of_user.erase(of);
  }
  bool OnEvent(const JobEvent& event) override { return watcher_->OnEvent(event); }
  bool closed() const override { return watcher_->closed(); }

 private:
  const std::shared_ptr<Watching> watching_;
  const std::string user_;
  const std::shared_ptr<JobWatcher> watcher_;
};

class Api final : public JobApi {
 public:
  Api(Driver& driver, const Journal& journal, std::string root, JobBudget most_kept,
      std::string logs, LogFollowers* followers, size_t watchers)
      : driver_(driver),
        journal_(journal),
        root_(std::move(root)),
        most_kept_(most_kept),
        logs_(std::move(logs)),
        followers_(followers),
        most_watched_(std::max(size_t{1}, watchers / 8)),
        adoptions_(driver, journal, root_,
                   [this](const KnownJobs& jobs, const std::string& id, const JobSpec& spec) {
                     return CheckAdoption(jobs, id, spec);
                   }),
        forks_(
            driver, journal, root_,
            [this](const KnownJobs& jobs, const std::string& id, const JobSpec& spec,
                   Accepts accepts, const Caller& caller, const ManifestPtr& found, bool& created) {
              return Decide(jobs, id, spec, accepts, caller, found, created);
            },
            Pick) {}

  void Submit(std::string id, JobSpec spec, Accepts accepts, const Caller& caller,
              Reply<SubmittedJob> reply) override {
    if (id.empty()) id = MakeJobId(spec.runtime.name);
    if (const absl::Status bad = CheckId(id); !bad.ok()) return reply(bad);
    if (const absl::Status bad = CheckPaths(spec); !bad.ok()) return reply(bad);
    if (const auto too_large = TooLargeForAJob(spec.training))
      return reply(FieldError("", too_large->field, too_large->reason));
    const absl::StatusOr<KnownJobsPtr> jobs = driver_.Known();
    if (!jobs.ok()) return reply(jobs.status());
    const std::optional<AskedCheckpoint> asked = AskedBy(**jobs, id, spec, caller);
    if (!asked) return SubmitFound(id, std::move(spec), accepts, caller, nullptr, std::move(reply));
    const auto answer = Once(std::move(reply));
    const absl::Status taken =
        driver_.Ask([=, this, spec = std::move(spec)](const std::stop_token&) {
          const absl::StatusOr<ManifestPtr> found =
              FindCheckpoint(driver_.OurCatalogue(), root_, *asked);
          if (!found.ok()) return answer(found.status());
          SubmitFound(id, WithStep(spec, id, *found), accepts, caller, *found, answer);
        });
    if (!taken.ok()) answer(taken);
  }

  void Adopt(std::string folder, std::string id, Accepts accepts, const Caller& caller,
             Reply<AdoptionInfo> reply) override {
    if (const absl::Status bad = CheckFolder(folder); !bad.ok()) return reply(bad);
    if (!id.empty())
      if (const absl::Status bad = CheckId(id); !bad.ok()) return reply(bad);
    if (const absl::Status taken = forks_.CheckFree(id); !taken.ok()) return reply(taken);
    adoptions_.Begin({std::move(folder), std::move(id), caller.user, accepts}, std::move(reply));
  }

  void FindAdoption(const std::string& adoption, Reply<AdoptionInfo> reply) override {
    reply(adoptions_.Find(adoption));
  }

  void Get(const std::string& id, Reply<JobInfo> reply) override {
    const absl::StatusOr<KnownJobPtr> known = Find(id);
    if (!known.ok()) return reply(known.status());
    reply(DescribeNow(*known));
  }

  void List(const JobQuery& query, Reply<JobPage> reply) override {
    const absl::StatusOr<KnownJobsPtr> jobs = driver_.Known();
    if (!jobs.ok()) return reply(jobs.status());
    reply(PageOf(**jobs, query));
  }

  void Cancel(const std::string& id, const Caller& caller, Reply<JobInfo> reply) override {
    End<coordinator::Cancel>(id, caller, std::move(reply));
  }
  void Stop(const std::string& id, const Caller& caller, Reply<JobInfo> reply) override {
    End<coordinator::Stop>(id, caller, std::move(reply));
  }

  // A second time is the same as the first; after a failure it is tried again.
  void Delete(const std::string& id, const Caller& caller, Reply<JobInfo> reply) override {
    const auto decide = [id,
                         caller](const KnownJobs& jobs) -> absl::StatusOr<std::optional<Input>> {
      MUSTER_ASSIGN_OR_RETURN(const KnownJobPtr known, FindToChange(jobs, id, caller));
      const std::string why_not = WhyNotDeleted(known->status.job);
      if (!why_not.empty()) return absl::FailedPreconditionError(why_not);
      return coordinator::Delete{id};
    };
    driver_.Change(decide, [id, reply = std::move(reply)](absl::StatusOr<KnownJobs> jobs) {
      reply(Pick(jobs, id));
    });
  }

  void Scale(const std::string& id, int32_t workers_min, int32_t workers_max, const Caller& caller,
             Reply<JobInfo> reply) override {
    if (const absl::Status bad = CheckWorkers(workers_min, workers_max); !bad.ok())
      return reply(bad);
    const auto decide = [=](const KnownJobs& jobs) {
      return DecideScale(jobs, id, workers_min, workers_max, caller);
    };
    driver_.Change(decide, [id, reply = std::move(reply)](absl::StatusOr<KnownJobs> jobs) {
      reply(Pick(jobs, id));
    });
  }

  void SetQueue(const std::string& id, const QueueChange& change, const Caller& caller,
                Reply<JobInfo> reply) override {
    const auto decide = [this, id, change,
                         caller](const KnownJobs& jobs) -> absl::StatusOr<std::optional<Input>> {
      MUSTER_ASSIGN_OR_RETURN(const KnownJobPtr known, FindToChange(jobs, id, caller));
      const JobJournal& job = known->status.job;
      MUSTER_ASSIGN_OR_RETURN(const QueueSpec queue, Changed(job.spec.queue, change));
      if (job.deleting)
        return absl::FailedPreconditionError(absl::StrCat("job ", id, " is being deleted"));
      if (queue == job.spec.queue) return std::nullopt;
      MUSTER_ASSIGN_OR_RETURN(const KnownCluster cluster, driver_.KnownWithHosts());
      MUSTER_RETURN_IF_ERROR(CheckPriority(caller, queue, &job.spec.queue, *cluster.quotas));
      JobSpec changed = job.spec;
      changed.queue = queue;
      MUSTER_RETURN_IF_ERROR(CheckRoom(jobs, changed, &job.spec, most_kept_, caller));
      return coordinator::SetQueue{id, queue};
    };
    driver_.Change(decide, [id, reply = std::move(reply)](absl::StatusOr<KnownJobs> jobs) {
      reply(Pick(jobs, id));
    });
  }

  void Watch(const std::string& id, std::optional<EventPlace> after, const Caller& caller,
             Reply<bool> reply, std::shared_ptr<JobWatcher> watcher) override {
    bool is_often = false;
    if (!caller.user.empty()) {
      const MutexLock lock(watching_->mutex);
      size_t& held = watching_->of_user[caller.user];
      is_often = held >= most_watched_;
      if (!is_often) ++held;
    }
    if (is_often)
      return reply(
          absl::UnavailableError(absl::StrCat(caller.user, " watches ", most_watched_,
                                              " jobs already; end some of them, or retry later")));
    if (!caller.user.empty())
      watcher = std::make_shared<CountedWatcher>(watching_, caller.user, std::move(watcher));
    driver_.Watch(
        id, after,
        [reply = std::move(reply)](const absl::Status& found) {
          if (!found.ok()) return reply(found);
          reply(true);
        },
        std::move(watcher),
        [caller](const KnownJob& known) { return CheckOf(known, caller, Need::kSeeJobs); });
  }

  void Fingerprints(const std::string& id, int64_t from, Reply<JobFingerprints> reply) override {
    AnswerLater<JobFingerprints>(
        id, std::move(reply), [this, from](const KnownJob& known, const std::stop_token& stop) {
          return ReadFingerprints(journal_, known.status.job, Step(from), stop);
        });
  }

  void Audit(const std::string& id, Reply<JobAudit> reply) override {
    AnswerLater<JobAudit>(id, std::move(reply),
                          [this](const KnownJob& known, const std::stop_token& stop) {
                            return RunAudit(journal_, known.status, stop);
                          });
  }

  void History(const std::string& id, const HistoryQuery& query,
               Reply<HistoryPage> reply) override {
    if (const absl::Status bad = CheckHistoryQuery(query); !bad.ok()) return reply(bad);
    AnswerLater<HistoryPage>(
        id, std::move(reply), [this, query](const KnownJob& known, const std::stop_token& stop) {
          return ReadHistory(journal_, known.status.job, known.status.step, query, stop);
        });
  }

  void Ledger(const std::string& id, LedgerQuery query, Reply<JobLedger> reply) override {
    if (const absl::Status bad = CheckLedgerQuery(query); !bad.ok()) return reply(bad);
    AnswerLater<JobLedger>(id, std::move(reply),
                           [this, query](const KnownJob& known, const std::stop_token& stop) {
                             return ReadLedger(journal_, known.status, query, stop);
                           });
  }

  void Logs(const std::string& id, LogQuery query, Reply<LogTail> reply) override {
    if (const absl::Status bad = CheckLogQuery(query); !bad.ok()) return reply(bad);
    AnswerLater<LogTail>(id, std::move(reply),
                         [this, query](const KnownJob& known, const std::stop_token&) {
                           return ReadLogs(logs_, known.status.job.id, query);
                         });
  }

  void FollowLogs(const std::string& id, FollowQuery query, const Caller& caller,
                  Reply<LogPage> reply) override {
    if (const absl::Status bad = CheckFollowQuery(query); !bad.ok()) return reply(bad);
    if (const absl::Status unknown = Find(id).status(); !unknown.ok()) return reply(unknown);
    if (followers_ == nullptr)
      return reply(absl::UnavailableError("this coordinator keeps no logs"));
    followers_->Follow(id, std::move(query), caller.user, std::move(reply));
  }

  void ReadFile(const std::string& id, FileQuery query, Reply<FilePart> reply) override {
    if (const absl::Status bad = CheckFileQuery(query); !bad.ok()) return reply(bad);
    AnswerLater<FilePart>(id, std::move(reply),
                          [this, query](const KnownJob& known, const std::stop_token&) {
                            return ReadFilePart(journal_, root_, known.status, query);
                          });
  }

  void Checkpoints(const std::string& id, const std::string& page_token,
                   Reply<SavedCheckpoints> reply) override {
    AnswerLater<SavedCheckpoints>(
        id, std::move(reply),
        [this, page_token](const KnownJob& known, const std::stop_token& stop) {
          return ListCheckpoints(journal_, root_, known.status, page_token, stop);
        });
  }

  void KeepCheckpoint(const std::string& id, const std::string& checkpoint, const std::string& name,
                      const Caller& caller, Reply<SavedCheckpoint> reply) override {
    const absl::StatusOr<CheckpointPlace> place = PlaceOfCheckpoint(checkpoint);
    if (!place.ok()) return reply(place.status());
    AnswerLater<SavedCheckpoint>(
        id, std::move(reply),
        [=, this, place = *place](const KnownJob& known,
                                  const std::stop_token&) -> absl::StatusOr<SavedCheckpoint> {
          MUSTER_RETURN_IF_ERROR(CheckOf(known, caller, Need::kChangeJob));
          MUSTER_RETURN_IF_ERROR(driver_.OurCatalogue().MayChangeNow());
          return coordinator::KeepCheckpoint(journal_, root_, known.status, place, name);
        });
  }

  // Whether there is one, and what it is called, is read before it is decided; what its name is
  // then counts where it is carried out.
  void DeleteCheckpoint(const std::string& id, const std::string& checkpoint, bool force,
                        const Caller& caller, Reply<SavedCheckpoint> reply) override {
    const absl::StatusOr<CheckpointPlace> place = PlaceOfCheckpoint(checkpoint);
    if (!place.ok()) return reply(place.status());
    const absl::StatusOr<KnownJobPtr> known = Find(id);
    if (!known.ok()) return reply(known.status());
    const auto answer = Once(std::move(reply));
    const absl::Status taken =
        driver_.Ask([=, this, known = *known, place = *place](const std::stop_token&) {
          if (const absl::Status refused = CheckOf(*known, caller, Need::kChangeJob); !refused.ok())
            return answer(refused);
          absl::StatusOr<SavedCheckpoint> found = SavedAt(journal_, root_, known->status, place);
          if (!found.ok()) return answer(found.status());
          if (!found->name.empty() && !force)
            return answer(absl::FailedPreconditionError(
                absl::StrCat("the checkpoint of step ", found->step, " is kept as '", found->name,
                             "'; `force` deletes it all the same")));
          Remove(id, place, force, caller, *std::move(found), answer);
        });
    if (!taken.ok()) answer(taken);
  }

  void Digest(const std::string& id, std::optional<int64_t> step, Reply<JobDigest> reply) override {
    const absl::StatusOr<KnownJobPtr> known = Find(id);
    if (!known.ok()) return reply(known.status());
    AskDigest(*known, step, reply);
  }

 private:
  // `found`: of what the specification asks for; null: jobs know it themselves, or there is none.
  void SubmitFound(const std::string& id, JobSpec spec, Accepts accepts, const Caller& caller,
                   const ManifestPtr& found, Reply<SubmittedJob> reply) {
    if (IsFork(spec.training)) return forks_.Submit(id, spec, accepts, caller, found, reply);
    const auto created = std::make_shared<bool>(false);
    const auto decide = [this, id, spec = std::move(spec), accepts, caller, found,
                         created](const KnownJobs& jobs) -> absl::StatusOr<std::optional<Input>> {
      MUSTER_RETURN_IF_ERROR(forks_.CheckFree(id));
      return Decide(jobs, id, spec, accepts, caller, found, *created);
    };
    driver_.Change(decide, [id, created, reply = std::move(reply)](absl::StatusOr<KnownJobs> jobs) {
      absl::StatusOr<JobInfo> info = Pick(jobs, id);
      if (!info.ok()) return reply(info.status());
      reply(SubmittedJob{*std::move(info), *created});
    });
  }

  void Remove(const std::string& id, const CheckpointPlace& place, bool force, const Caller& caller,
              SavedCheckpoint found, const Reply<SavedCheckpoint>& reply) {
    const auto decide = [=](const KnownJobs& jobs) -> absl::StatusOr<std::optional<Input>> {
      MUSTER_ASSIGN_OR_RETURN(const KnownJobPtr known, FindToChange(jobs, id, caller));
      const std::string why_not = WhyNotRemoved(known->status, place.first, place.second, force);
      if (!why_not.empty()) return absl::FailedPreconditionError(why_not);
      return RemoveCheckpoint{id, place.first, place.second, force, caller.user};
    };
    // What a second request finds under way it waits for, too.
    const auto look = [=, this, found = std::move(found)]() -> std::function<void()> {
      const absl::StatusOr<bool> is_there =
          driver_.OurCatalogue().Has(id, place.first, place.second);
      absl::StatusOr<SavedCheckpoint> answer = found;
      if (!is_there.ok()) answer = is_there.status();
      if (is_there.ok() && *is_there)
        answer = absl::UnavailableError(
            absl::StrCat("the checkpoint of step ", place.second.value(), " of job ", id,
                         " could not be deleted: an event of the job says why; delete it again"));
      return [reply, answer = std::move(answer)] { reply(answer); };
    };
    driver_.Change(decide, [this, id, look, reply](const absl::StatusOr<KnownJobs>& jobs) {
      if (!jobs.ok()) return reply(jobs.status());
      driver_.AfterDiskWork(id, look);
    });
  }

  static bool KnowsCheckpoint(const JobStatus& status, Step step) {
    return std::any_of(status.checkpoints.begin(), status.checkpoints.end(), [&](const auto& c) {
      return c.second == step && OnAncestry(status.job.lineages, c.first, step);
    });
  }

  // Else the same is often submitted again, and what it says of the beginning was heeded then.
  static bool IsResumeLookedAt(const JobJournal& job, const TrainingSpec& asked) {
    if (!Ended(job.phase)) return !job.view;
    return CanGoOn(job.phase) ||
           (job.phase == JobPhase::kDone && !TrainingDifferences(job.spec.training, asked).empty());
  }

  // What has to be looked up for it; nothing: all that it asks for is known, or is no affair of
  // this caller, or cannot be, which is said where it is decided.
  static std::optional<AskedCheckpoint> AskedBy(const KnownJobs& jobs, const std::string& id,
                                                const JobSpec& spec, const Caller& caller) {
    const auto known = FindJob(jobs, id);
    if (!known.ok()) {
      if (!IsFork(spec.training)) return std::nullopt;
      const ParentState& asked = *spec.training.initial.parent;
      const auto parent = FindJob(jobs, asked.job);
      if (!parent.ok() || !CheckOf(**parent, caller, Need::kSeeJobs).ok()) return std::nullopt;
      const bool is_known = !asked.step || KnowsCheckpoint((*parent)->status, Step(*asked.step));
      if (asked.name.empty() && is_known) return std::nullopt;
      return AskedCheckpoint{*parent, "initial.parent.step", asked.name,
                             Step(asked.step.value_or(0))};
    }
    const Resume& resume = spec.runtime.resume;
    const JobStatus& status = (*known)->status;
    const bool is_unknown =
        resume.kind == ResumeKind::kStep && !KnowsCheckpoint(status, Step(resume.step));
    if (resume.kind != ResumeKind::kNamed && !is_unknown) return std::nullopt;
    if (!IsResumeLookedAt(status.job, spec.training) ||
        !CheckOf(**known, caller, Need::kChangeJob).ok())
      return std::nullopt;
    return AskedCheckpoint{*known, "resume", resume.name, Step(resume.step)};
  }

  // With the step of what was found, which is journalled: tomorrow the name may be another's.
  static JobSpec WithStep(JobSpec spec, const std::string& id, const ManifestPtr& found) {
    if (found == nullptr) return spec;
    if (found->job != id) {
      ParentState& parent = *spec.training.initial.parent;
      parent.step = found->step.value();
      parent.name.clear();
    } else if (found->step == Step(0)) {
      spec.runtime.resume = {ResumeKind::kNever};  // which is there for a fork alone
    } else {
      spec.runtime.resume = {ResumeKind::kStep, found->step.value()};
    }
    return spec;
  }

  static absl::Status CheckOf(const KnownJob& known, const Caller& caller, Need need) {
    const JobRights rights = RightsOf(known.status.job);
    return CheckRights(caller, need, known.status.job.id, &rights);
  }

  // Where it is decided: the job that had this id when the caller was let in may be gone, and
  // another's in its place.
  static absl::StatusOr<KnownJobPtr> FindToChange(const KnownJobs& jobs, const std::string& id,
                                                  const Caller& caller) {
    MUSTER_ASSIGN_OR_RETURN(KnownJobPtr known, FindJob(jobs, id));
    MUSTER_RETURN_IF_ERROR(CheckOf(*known, caller, Need::kChangeJob));
    return known;
  }

  static absl::StatusOr<JobInfo> Pick(const absl::StatusOr<KnownJobs>& jobs,
                                      const std::string& id) {
    MUSTER_RETURN_IF_ERROR(jobs.status());
    MUSTER_ASSIGN_OR_RETURN(const KnownJobPtr known, FindJob(*jobs, id));
    return DescribeNow(known);
  }

  // Of a job that is not there.
  static absl::Status CheckBeginning(const Resume& resume) {
    if (resume.kind != ResumeKind::kNamed) return CheckResume({}, resume, nullptr);
    return FieldError("", "resume",
                      absl::StrCat("a new job has no checkpoint that is kept as '", resume.name,
                                   "'; allowed: never, latest"));
  }

  // Checked before the job accepts it, so that a typing error costs nothing.
  static absl::Status CheckResume(const JobStatus& status, const Resume& resume,
                                  const ManifestPtr& found) {
    if (resume.kind == ResumeKind::kNamed)
      return absl::UnavailableError(
          absl::StrCat("job ", status.job.id, " has changed just now; submit it again"));
    if (resume.kind != ResumeKind::kStep) return absl::OkStatus();
    if (found && found->step == Step(resume.step) &&
        OnAncestry(status.job.lineages, found->lineage, found->step))
      return absl::OkStatus();
    std::vector<std::string> steps;
    for (const auto& [lineage, step] : status.checkpoints) {
      if (!OnAncestry(status.job.lineages, lineage, step)) continue;
      if (step == Step(resume.step)) return absl::OkStatus();
      steps.push_back(absl::StrCat(step.value()));
    }
    return FieldError(
        "", "resume",
        absl::StrCat("there is no checkpoint of step ", resume.step, "; allowed: ",
                     steps.empty() ? "never" : absl::StrJoin(steps, ", "), ", latest"));
  }

  // `other`: the fields that differ. With these a job that was cut off starts again, also
  // one that was to stop.
  static absl::Status CheckUnderWay(const JobStatus& status,
                                    const std::vector<std::string>& other) {
    const std::string& id = status.job.id;
    // Those that are in no view have nothing of the job.
    const bool has_members =
        std::any_of(status.members.begin(), status.members.end(),
                    [](const MemberStatus& m) { return IsInViews(m.member.role); });
    const bool is_cut_off = !has_members && !status.may_have_members;
    if (status.job.ending.stop_asked && (other.empty() || !is_cut_off))
      return absl::FailedPreconditionError(
          absl::StrCat("job ", id, " is stopping; submit it again when it is stopped"));
    if (other.empty() || is_cut_off) return absl::OkStatus();
    if (!has_members)
      return absl::UnavailableError(absl::StrCat(
          "members of job ", id,
          " may still come back after the restart of the coordinator; retry in a moment"));
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is running with other values (", absl::StrJoin(other, "; "),
                     "); stop it first, then submit it again with these"));
  }

  // True: it is the same made longer.
  static absl::StatusOr<bool> CheckTraining(const JobJournal& job, const TrainingSpec& asked) {
    const TrainingSpec& held = job.spec.training;
    const std::vector<std::string> differences = TrainingDifferences(held, asked);
    if (differences.empty()) return false;
    const Lengthening longer = LengtheningOf(held, asked);
    if (longer.is_possible() && job.phase == JobPhase::kDone && job.ending.enough_at)
      return FieldError("", longer.field,
                        absl::StrCat("job ", job.id, " is done because what it measures was no ",
                                     "better any more: more steps change nothing"));
    if (longer.is_possible()) return true;
    if (!longer.field.empty())
      return FieldError("", longer.field,
                        absl::StrCat("job ", job.id, " cannot be made longer: ", longer.why_not,
                                     "; submit this one under another id"));
    return absl::AlreadyExistsError(
        absl::StrCat("job ", job.id, " exists with another training specification (",
                     absl::StrJoin(differences, "; "), "); submit this one under another id"));
  }

  // Of a submission, on the driver's thread.
  absl::StatusOr<std::optional<Input>> Decide(const KnownJobs& jobs, const std::string& id,
                                              const JobSpec& spec, Accepts accepts,
                                              const Caller& caller, const ManifestPtr& found,
                                              bool& created) const {
    MUSTER_RETURN_IF_ERROR(adoptions_.CheckFree(id));
    MUSTER_ASSIGN_OR_RETURN(const KnownCluster known, driver_.KnownWithHosts());
    const ManifestPtr own = found && found->job == id ? found : nullptr;
    MUSTER_ASSIGN_OR_RETURN(
        std::optional<Input> input,
        DecideSubmit(jobs, *known.quotas, id, spec, accepts, caller, own, created));
    if (!input) return input;
    MUSTER_RETURN_IF_ERROR(CheckQueued(known, id, spec.queue.name_space));
    return input;
  }

  absl::Status CheckAdoption(const KnownJobs& jobs, const std::string& id,
                             const JobSpec& spec) const {
    MUSTER_RETURN_IF_ERROR(forks_.CheckFree(id));
    if (FindJob(jobs, id).ok())
      return absl::AlreadyExistsError(
          absl::StrCat("job ", id, " exists already; adopt this one under another id"));
    MUSTER_RETURN_IF_ERROR(CheckPaths(spec));
    if (const auto too_large = TooLargeForAJob(spec.training))
      return FieldError("", too_large->field, too_large->reason);
    MUSTER_RETURN_IF_ERROR(CheckRoom(jobs, spec, nullptr, most_kept_, Anybody()));
    MUSTER_ASSIGN_OR_RETURN(const KnownCluster known, driver_.KnownWithHosts());
    return CheckQueued(known, id, spec.queue.name_space);
  }

  // `held`: what the job has now; null: it is a new one.
  static absl::Status CheckRoom(const KnownJobs& jobs, const JobSpec& spec, const JobSpec* held,
                                const JobBudget& most_kept, const Caller& caller) {
    const auto kept_of = [&](const std::function<bool(const JobJournal&)>& counts) {
      KeptJobs kept;
      for (const KnownJobPtr& job : jobs) {
        if (!counts(job->status.job)) continue;
        ++kept.jobs;
        kept.spec_bytes += job->status.spec_bytes;
      }
      return kept;
    };
    const auto check = [&](const KeptJobs& kept, size_t shares, const std::string& who) {
      const std::string why_not = WhyNotKept(kept, spec, held, ShareOf(most_kept, shares), who);
      return why_not.empty() ? absl::OkStatus() : absl::ResourceExhaustedError(why_not);
    };
    MUSTER_RETURN_IF_ERROR(
        check(kept_of([](const JobJournal&) { return true; }), 1, "the coordinator"));
    if (caller.user.empty() || caller.role == UserRole::kAdmin) return absl::OkStatus();
    // Ended ones count, too: whoever submits and cancels would leave no room for others.
    const std::string& name_space = spec.queue.name_space;
    MUSTER_RETURN_IF_ERROR(
        check(kept_of([&](const JobJournal& job) { return job.owner == caller.user; }),
              kSharesOfUsers, absl::StrCat("user ", caller.user)));
    return check(
        kept_of([&](const JobJournal& job) { return NamespaceOf(job.spec) == name_space; }),
        kSharesOfNamespaces, absl::StrCat("namespace ", name_space));
  }

  absl::StatusOr<std::optional<Input>> DecideSubmit(const KnownJobs& jobs, const Quotas& quotas,
                                                    const std::string& id, const JobSpec& spec,
                                                    Accepts accepts, const Caller& caller,
                                                    const ManifestPtr& found, bool& created) const {
    const auto known = FindJob(jobs, id);
    created = !known.ok();
    // Here, as two may submit the same id at once.
    const JobRights asked{std::string(NamespaceOf(spec)), caller.user};
    const JobRights held = created ? JobRights() : RightsOf((*known)->status.job);
    MUSTER_RETURN_IF_ERROR(CheckSubmission(caller, id, asked, created ? nullptr : &held));
    if (created) {
      MUSTER_RETURN_IF_ERROR(CheckPriority(caller, spec.queue, nullptr, quotas));
      MUSTER_RETURN_IF_ERROR(CheckBeginning(spec.runtime.resume));
      MUSTER_RETURN_IF_ERROR(CheckRoom(jobs, spec, nullptr, most_kept_, caller));
      return coordinator::Submit{id, spec, caller.user};
    }
    const JobStatus& status = (*known)->status;
    MUSTER_RETURN_IF_ERROR(CheckNamespace(status.job, spec.queue));
    MUSTER_ASSIGN_OR_RETURN(const bool is_longer, CheckTraining(status.job, spec.training));
    if (status.job.deleting)
      return absl::FailedPreconditionError(
          absl::StrCat("job ", id, " is being deleted; submit it again when it is gone"));
    const bool reopens = is_longer && status.job.phase == JobPhase::kDone;
    if (Ended(status.job.phase) && !CanGoOn(status.job.phase) && !reopens) return std::nullopt;
    if (!Ended(status.job.phase)) {
      std::vector<std::string> other = RuntimeDifferences(status.job.spec, spec);
      // While it has members, all of them have the file that they began with, and that binds.
      if (accepts.plugin && !status.job.accepted && status.members.empty())
        other.push_back(absl::StrCat("accept: ", kAcceptsPlugin));
      if (is_longer)
        for (std::string& more : TrainingDifferences(status.job.spec.training, spec.training))
          other.push_back(std::move(more));
      MUSTER_RETURN_IF_ERROR(CheckUnderWay(status, other));
      if (other.empty()) return std::nullopt;
    }
    if (Ended(status.job.phase) || !status.job.view)  // else it is not looked at
      MUSTER_RETURN_IF_ERROR(CheckResume(status, spec.runtime.resume, found));
    if (Ended(status.job.phase)) {
      MUSTER_RETURN_IF_ERROR(CheckPriority(caller, spec.queue, &status.job.spec.queue, quotas));
      MUSTER_RETURN_IF_ERROR(CheckDeadline(status.job, spec.queue));
    }
    MUSTER_RETURN_IF_ERROR(CheckRoom(jobs, spec, &status.job.spec, most_kept_, caller));
    MUSTER_RETURN_IF_ERROR(CheckAccepts(status.job, accepts));
    MUSTER_RETURN_IF_ERROR(CheckNothingGoes(status, found));
    return coordinator::Submit{id, spec, "", accepts, caller.user, found};
  }

  // What it would go on from may be a checkpoint that is being deleted, or was since it was looked
  // up.
  static absl::Status CheckNothingGoes(const JobStatus& status, const ManifestPtr& found) {
    const bool has_changed = found != nullptr && found->removals != status.removals;
    if (status.removing.empty() && !has_changed) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(
        "a checkpoint of job ", status.job.id,
        has_changed ? " was deleted just now" : " is being deleted", "; submit it again"));
  }

  static absl::Status CheckAccepts(const JobJournal& job, Accepts accepts) {
    if (!accepts.plugin || job.plugin_changes.size() < kMostPluginChanges) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("job ", job.id, " has gone on with other plug-ins ", kMostPluginChanges,
                     " times, which is the most: fork it"));
  }

  // Else whoever knows an id could take the job into a namespace of theirs.
  static absl::Status CheckNamespace(const JobJournal& job, const QueueSpec& asked) {
    const std::string& held = job.spec.queue.name_space;
    if (asked.name_space == held) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("job ", job.id, " exists in namespace ", held,
                                                 "; submit this one under another id"));
  }

  // It would be stopped at once.
  static absl::Status CheckDeadline(const JobJournal& job, const QueueSpec& asked) {
    if (asked.deadline <= 0 || Seconds(job.ran) < asked.deadline) return absl::OkStatus();
    return FieldError(
        "", "deadline",
        absl::StrCat(asked.deadline, " s have passed: job ", job.id, " has run ", Seconds(job.ran),
                     " s; give it more (muster queue JOB --deadline), or none (0)"));
  }

  // REST has read them as a specification; gRPC brings any numbers.
  static absl::Status CheckWorkers(int32_t workers_min, int32_t workers_max) {
    for (const auto& [field, count] :
         {std::pair("workers.min", workers_min), std::pair("workers.max", workers_max)})
      if (count < 1 || count > kMaxProcesses)
        return FieldError("", field,
                          absl::StrCat(count, " is out of range; allowed: 1 to ", kMaxProcesses));
    if (workers_min <= workers_max) return absl::OkStatus();
    return FieldError("", "workers.min",
                      absl::StrCat(workers_min, " is more than workers.max (", workers_max, ")"));
  }

  // The same numbers again are nothing new.
  static absl::StatusOr<std::optional<Input>> DecideScale(const KnownJobs& jobs,
                                                          const std::string& id,
                                                          int32_t workers_min, int32_t workers_max,
                                                          const Caller& caller) {
    MUSTER_ASSIGN_OR_RETURN(const KnownJobPtr known, FindToChange(jobs, id, caller));
    const JobJournal& job = known->status.job;
    if (Ended(job.phase))
      return absl::FailedPreconditionError(
          absl::StrCat("job ", id, " is ", std::string(PhaseName(job.phase)),
                       ": a job that has ended has no workers; `workers` of its specification says "
                       "how many it has when it is submitted again"));
    if (job.ending.stop_asked)
      return absl::FailedPreconditionError(
          absl::StrCat("job ", id,
                       " is stopping; submit it again with other `workers` when it is "
                       "stopped"));
    const RuntimeSpec& runtime = job.spec.runtime;
    if (runtime.workers_min == workers_min && runtime.workers_max == workers_max)
      return std::nullopt;
    return coordinator::Scale{id, workers_min, workers_max};
  }

  // Once it has ended, a second time is the same as the first.
  template <class What>
  void End(const std::string& id, const Caller& caller, Reply<JobInfo> reply) {
    const auto decide = [id,
                         caller](const KnownJobs& jobs) -> absl::StatusOr<std::optional<Input>> {
      MUSTER_RETURN_IF_ERROR(FindToChange(jobs, id, caller).status());
      return What{id};
    };
    driver_.Change(decide, [id, reply = std::move(reply)](absl::StatusOr<KnownJobs> jobs) {
      reply(Pick(jobs, id));
    });
  }

  absl::StatusOr<KnownJobPtr> Find(const std::string& id) const {
    MUSTER_ASSIGN_OR_RETURN(const KnownJobsPtr jobs, driver_.Known());
    return FindJob(*jobs, id);
  }

  // Answers with what `work` makes of the job, on the query thread.
  template <class T>
  void AnswerLater(const std::string& id, Reply<T> reply,
                   std::function<absl::StatusOr<T>(const KnownJob&, const std::stop_token&)> work) {
    const absl::StatusOr<KnownJobPtr> known = Find(id);
    if (!known.ok()) return reply(known.status());
    const auto answer = Once(std::move(reply));
    const absl::Status taken =
        driver_.Ask([answer, work = std::move(work), known = *known](const std::stop_token& stop) {
          answer(UnlessStopped(work(*known, stop)));
        });
    if (!taken.ok()) answer(taken);
  }

  // The digest of one checkpoint is computed once for all who ask for it meanwhile.
  void AskDigest(const KnownJobPtr& known, std::optional<int64_t> step,
                 const Reply<JobDigest>& reply) {
    const std::shared_ptr<SharedAnswer<JobDigest>> answer =
        JoinOrAsk(KeyOf(known->status, step), reply);
    if (answer == nullptr) return;
    const absl::Status taken =
        driver_.Ask([this, answer, known, step](const std::stop_token& stop) {
          answer->Give(UnlessStopped(DigestOf(journal_, root_, known, step, stop)));
        });
    if (!taken.ok()) answer->Give(taken);
  }

  // Job, its start, and lineage and step of the checkpoint that is meant; -1: none that is known
  // now.
  using DigestKey = std::tuple<std::string, StartNumber, int64_t, int64_t>;
  static DigestKey KeyOf(const JobStatus& status, std::optional<int64_t> step) {
    for (auto c = status.checkpoints.rbegin(); c != status.checkpoints.rend(); ++c)
      if (!step || c->second.value() == *step)
        return {status.job.id, status.job.start, c->first.value(), c->second.value()};
    return {status.job.id, status.job.start, -1, step.value_or(-1)};
  }

  // Null: somebody has asked already, and the reply will come with theirs.
  std::shared_ptr<SharedAnswer<JobDigest>> JoinOrAsk(const DigestKey& key,
                                                     const Reply<JobDigest>& reply) {
    const MutexLock lock(digests_mutex_);
    std::erase_if(digests_, [](const auto& asked) { return asked.second.expired(); });
    std::weak_ptr<SharedAnswer<JobDigest>>& asked = digests_[key];
    if (const auto answer = asked.lock(); answer != nullptr && answer->Join(reply)) return nullptr;
    auto answer = std::make_shared<SharedAnswer<JobDigest>>();
    answer->Join(reply);
    asked = answer;
    return answer;
  }

  Driver& driver_;
  const Journal& journal_;
  const std::string root_;
  const JobBudget most_kept_;
  const std::string logs_;
  LogFollowers* const followers_;
  const size_t most_watched_;  // by one user
  const std::shared_ptr<Watching> watching_ = std::make_shared<Watching>();
  Adoptions adoptions_;
  Forks forks_;
  Mutex digests_mutex_;
  std::map<DigestKey, std::weak_ptr<SharedAnswer<JobDigest>>> digests_
      ABSL_GUARDED_BY(digests_mutex_);
};

}  // namespace

std::unique_ptr<JobApi> MakeJobApi(Driver& driver, const Journal& journal,
                                   std::string checkpoint_root, JobBudget most_kept,
                                   std::string logs, LogFollowers* followers, size_t watchers) {
  return std::make_unique<Api>(driver, journal, std::move(checkpoint_root), most_kept,
                               std::move(logs), followers, watchers);
}

}  // namespace muster::coordinator
