#include "coordinator/service/job_api.h"

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stop_token>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/runtime/history.h"
#include "coordinator/runtime/once.h"
#include "coordinator/service/job_questions.h"
#include "coordinator/service/shared_answer.h"
#include "coordinator/state/plan.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/config/field_error.h"
#include "lib/config/places.h"
#include "lib/domain/job_id.h"
#include "lib/task/model_size.h"
#include "lib/wire/job_codec.h"

namespace muster::coordinator {
namespace {

constexpr size_t kLongestNameInId = 60;

absl::Status CheckId(const std::string& id) {
  if (IsJobId(id)) return absl::OkStatus();
  return FieldError("", "id", absl::StrCat("must be ", JobIdRule()));
}

// Workers would look for a relative path in directories of their own.
absl::Status CheckDataPaths(const std::vector<std::string>& paths) {
  for (size_t i = 0; i < paths.size(); ++i)
    if (paths[i][0] != '/')
      return FieldError("", FieldPath("data.paths", i),
                        absl::StrCat("'", paths[i], "' is relative; write the whole path"));
  return absl::OkStatus();
}

std::string MakeId(const std::string& name) {
  std::string id = name.substr(0, kLongestNameInId);
  for (char& c : id)
    if (!IsJobIdCharacter(c)) c = '-';
  if (id.empty() || IsBadStartOfJobId(id[0])) id.insert(0, "job");
  std::random_device random;
  return absl::StrCat(id, "-", absl::Hex(uint32_t{random()}, absl::kZeroPad8));
}

// Work that was stopped says so in words for people.
template <class T>
absl::StatusOr<T> UnlessStopped(absl::StatusOr<T> answer) {
  return absl::IsCancelled(answer.status()) ? ShuttingDown() : std::move(answer);
}

class Api final : public JobApi {
 public:
  Api(Driver& driver, const Journal& journal, std::string root, JobBudget most_kept,
      std::string logs)
      : driver_(driver),
        journal_(journal),
        root_(std::move(root)),
        most_kept_(most_kept),
        logs_(std::move(logs)) {}

  void Submit(std::string id, JobSpec spec, Reply<SubmittedJob> reply) override {
    if (id.empty()) id = MakeId(spec.runtime.name);
    if (const absl::Status bad = CheckId(id); !bad.ok()) return reply(bad);
    if (const absl::Status bad = CheckDataPaths(spec.training.data.paths); !bad.ok())
      return reply(bad);
    if (const auto too_large = TooLargeForAJob(spec.training))
      return reply(FieldError("", too_large->field, too_large->reason));
    const auto created = std::make_shared<bool>(false);
    const auto decide = [id, spec = std::move(spec), created,
                         most_kept = most_kept_](const KnownJobs& jobs) {
      return DecideSubmit(jobs, id, spec, most_kept, *created);
    };
    driver_.Change(decide, [id, created, reply = std::move(reply)](absl::StatusOr<KnownJobs> jobs) {
      absl::StatusOr<JobInfo> info = Pick(jobs, id);
      if (!info.ok()) return reply(info.status());
      reply(SubmittedJob{*std::move(info), *created});
    });
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

  void Cancel(const std::string& id, Reply<JobInfo> reply) override {
    End<coordinator::Cancel>(id, std::move(reply));
  }
  void Stop(const std::string& id, Reply<JobInfo> reply) override {
    End<coordinator::Stop>(id, std::move(reply));
  }

  // A second time is the same as the first; after a failure it is tried again.
  void Delete(const std::string& id, Reply<JobInfo> reply) override {
    const auto decide = [id](const KnownJobs& jobs) -> absl::StatusOr<std::optional<Input>> {
      MUSTER_ASSIGN_OR_RETURN(const KnownJobPtr known, FindJob(jobs, id));
      const std::string why_not = WhyNotDeleted(known->status.job);
      if (!why_not.empty()) return absl::FailedPreconditionError(why_not);
      return coordinator::Delete{id};
    };
    driver_.Change(decide, [id, reply = std::move(reply)](absl::StatusOr<KnownJobs> jobs) {
      reply(Pick(jobs, id));
    });
  }

  void Scale(const std::string& id, int32_t workers_min, int32_t workers_max,
             Reply<JobInfo> reply) override {
    if (const absl::Status bad = CheckWorkers(workers_min, workers_max); !bad.ok())
      return reply(bad);
    const auto decide = [=](const KnownJobs& jobs) {
      return DecideScale(jobs, id, workers_min, workers_max);
    };
    driver_.Change(decide, [id, reply = std::move(reply)](absl::StatusOr<KnownJobs> jobs) {
      reply(Pick(jobs, id));
    });
  }

  void Watch(const std::string& id, std::optional<EventPlace> after, Reply<bool> reply,
             std::shared_ptr<JobWatcher> watcher) override {
    driver_.Watch(
        id, after,
        [reply = std::move(reply)](const absl::Status& found) {
          if (!found.ok()) return reply(found);
          reply(true);
        },
        std::move(watcher));
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

  void Digest(const std::string& id, std::optional<int64_t> step, Reply<JobDigest> reply) override {
    const absl::StatusOr<KnownJobPtr> known = Find(id);
    if (!known.ok()) return reply(known.status());
    AskDigest(*known, step, reply);
  }

 private:
  static absl::StatusOr<JobInfo> Pick(const absl::StatusOr<KnownJobs>& jobs,
                                      const std::string& id) {
    MUSTER_RETURN_IF_ERROR(jobs.status());
    MUSTER_ASSIGN_OR_RETURN(const KnownJobPtr known, FindJob(*jobs, id));
    return DescribeNow(known);
  }

  // Checked before the job accepts it, so that a typing error costs nothing.
  static absl::Status CheckResume(const JobStatus& status, const Resume& resume) {
    if (resume.kind != ResumeKind::kStep) return absl::OkStatus();
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
    const bool is_cut_off = status.members.empty() && !status.may_have_members;
    if (status.job.ending.stop_asked && (other.empty() || !is_cut_off))
      return absl::FailedPreconditionError(
          absl::StrCat("job ", id, " is stopping; submit it again when it is stopped"));
    if (other.empty() || is_cut_off) return absl::OkStatus();
    if (status.members.empty())
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
    if (longer.is_possible()) return true;
    if (!longer.field.empty())
      return FieldError("", longer.field,
                        absl::StrCat("job ", job.id, " cannot be made longer: ", longer.why_not,
                                     "; submit this one under another id"));
    return absl::AlreadyExistsError(
        absl::StrCat("job ", job.id, " exists with another training specification (",
                     absl::StrJoin(differences, "; "), "); submit this one under another id"));
  }

  // `held`: what the job has now; null: it is a new one.
  static absl::Status CheckRoom(const KnownJobs& jobs, const JobSpec& spec, const JobSpec* held,
                                const JobBudget& most_kept) {
    KeptJobs kept{.jobs = jobs.size()};
    for (const KnownJobPtr& job : jobs) kept.spec_bytes += job->status.spec_bytes;
    const std::string why_not = WhyNotKept(kept, spec, held, most_kept);
    return why_not.empty() ? absl::OkStatus() : absl::ResourceExhaustedError(why_not);
  }

  static absl::StatusOr<std::optional<Input>> DecideSubmit(const KnownJobs& jobs,
                                                           const std::string& id,
                                                           const JobSpec& spec,
                                                           const JobBudget& most_kept,
                                                           bool& created) {
    const auto known = FindJob(jobs, id);
    created = !known.ok();
    if (created) {
      MUSTER_RETURN_IF_ERROR(CheckResume({}, spec.runtime.resume));
      MUSTER_RETURN_IF_ERROR(CheckRoom(jobs, spec, nullptr, most_kept));
      return coordinator::Submit{id, spec};
    }
    const JobStatus& status = (*known)->status;
    MUSTER_ASSIGN_OR_RETURN(const bool is_longer, CheckTraining(status.job, spec.training));
    if (status.job.deleting)
      return absl::FailedPreconditionError(
          absl::StrCat("job ", id, " is being deleted; submit it again when it is gone"));
    const bool reopens = is_longer && status.job.phase == JobPhase::kDone;
    if (Ended(status.job.phase) && !CanGoOn(status.job.phase) && !reopens) return std::nullopt;
    if (!Ended(status.job.phase)) {
      std::vector<std::string> other = RuntimeDifferences(status.job.spec, spec);
      if (is_longer)
        for (std::string& more : TrainingDifferences(status.job.spec.training, spec.training))
          other.push_back(std::move(more));
      MUSTER_RETURN_IF_ERROR(CheckUnderWay(status, other));
      if (other.empty()) return std::nullopt;
    }
    MUSTER_RETURN_IF_ERROR(CheckResume(status, spec.runtime.resume));
    MUSTER_RETURN_IF_ERROR(CheckRoom(jobs, spec, &status.job.spec, most_kept));
    return coordinator::Submit{id, spec};
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
                                                          int32_t workers_min,
                                                          int32_t workers_max) {
    MUSTER_ASSIGN_OR_RETURN(const KnownJobPtr known, FindJob(jobs, id));
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
  void End(const std::string& id, Reply<JobInfo> reply) {
    const auto decide = [id](const KnownJobs& jobs) -> absl::StatusOr<std::optional<Input>> {
      MUSTER_RETURN_IF_ERROR(FindJob(jobs, id).status());
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
  Mutex digests_mutex_;
  std::map<DigestKey, std::weak_ptr<SharedAnswer<JobDigest>>> digests_
      ABSL_GUARDED_BY(digests_mutex_);
};

}  // namespace

std::unique_ptr<JobApi> MakeJobApi(Driver& driver, const Journal& journal,
                                   std::string checkpoint_root, JobBudget most_kept,
                                   std::string logs) {
  return std::make_unique<Api>(driver, journal, std::move(checkpoint_root), most_kept,
                               std::move(logs));
}

}  // namespace muster::coordinator
