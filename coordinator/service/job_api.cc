#include "coordinator/service/job_api.h"

#include <algorithm>
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
#include "absl/time/clock.h"
#include "coordinator/runtime/checkpoints.h"
#include "coordinator/runtime/once.h"
#include "coordinator/service/shared_answer.h"
#include "coordinator/state/plan.h"
#include "lib/base/digits.h"
#include "lib/base/mutex.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/checkpoint/load.h"
#include "lib/config/field_error.h"
#include "lib/config/places.h"
#include "lib/domain/job_id.h"
#include "lib/domain/ledger.h"
#include "lib/task/registry.h"
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

absl::Status NoSuchJob(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no job ", Cut(Printable(id)), "; `muster list` shows all jobs"));
}

absl::StatusOr<KnownJobPtr> FindJob(const KnownJobs& jobs, const std::string& id) {
  for (const KnownJobPtr& known : jobs)
    if (known->status.job.id == id) return known;
  return NoSuchJob(id);
}

std::string_view RoleName(Role role) { return role == Role::kWorker ? "worker" : "server"; }

JobMember DescribeMember(const MemberStatus& status) {
  JobMember member{.name = status.member.id.name,
                   .role = std::string(RoleName(status.member.role)),
                   .rank = status.member.rank.value(),
                   .local_rank = status.member.local_rank,
                   .node = status.member.node,
                   .address = status.member.address,
                   .incarnation = ToHex(status.member.id.incarnation),
                   .state = status.state,
                   .phase = status.phase,
                   .step = status.step.value()};
  for (const LaneId lane : status.lanes) member.lanes.push_back(lane.value());
  return member;
}

// Of a job that has not begun, too, where its specification says it; 0: not known yet.
int64_t StepsOf(const JobStatus& status) {
  const TrainingSpec& training = status.job.spec.training;
  if (status.steps > 0 || training.steps > 0) return std::max(status.steps, training.steps);
  const TaskInfo* task = FindTask(training.task);
  if (task == nullptr || task->data_needed) return 0;
  return TotalSteps(training,
                    training.data.samples > 0 ? training.data.samples : task->default_samples);
}

void DescribeProgress(const JobStatus& status, JobInfo& info) {
  const TrainingSpec& training = status.job.spec.training;
  info.step = status.step.value();
  info.steps = StepsOf(status);
  info.epochs = training.epochs;
  if (!status.job.environment || status.job.environment->samples == 0) return;
  const uint64_t n = status.job.environment->samples;
  const int64_t per_epoch = StepsPerEpoch(training, n);
  info.epoch = info.step / per_epoch;
  if (info.epochs == 0) info.epochs = (info.steps + per_epoch - 1) / per_epoch;
  const uint64_t in_epoch =
      static_cast<uint64_t>(info.step % per_epoch) * static_cast<uint64_t>(training.batch);
  info.samples = static_cast<uint64_t>(info.epoch) * n + std::min(in_epoch, n);
}

void DescribeView(const JobJournal& job, JobInfo& info) {
  if (!job.view) return;
  info.view = job.view->number.value();
  info.lineage = job.view->lineage.value();
  for (size_t i = 0; i < job.view->members.size(); ++i) {
    const auto& holders = job.view->lanes.holder_of;
    info.workers += std::count(holders.begin(), holders.end(), static_cast<int32_t>(i)) > 0;
  }
}

}  // namespace

JobInfo Describe(const KnownJob& known, int64_t now_unix_ms) {
  const JobStatus& status = known.status;
  const JobJournal& job = status.job;
  JobInfo info{.id = job.id,
               .name = job.spec.runtime.name,
               .state = std::string(PhaseName(job.phase)),
               .reason = job.reason,
               .waits_for = status.waits_for,
               .deleting = job.deleting,
               .first_start = job.first_start.value(),
               .digest = job.ending.digest,
               .views = job.views,
               .recoveries = job.recoveries,
               .rewinds = job.rewinds,
               .lanes_recomputed = job.lanes.recomputed(),
               .spec = job.spec};
  DescribeProgress(status, info);
  DescribeView(job, info);
  info.loss = known.tail.loss;
  if (known.tail.fingerprint) {
    info.fingerprint = ToHex(known.tail.fingerprint->value);
    info.fingerprint_step = known.tail.fingerprint->step.value();
  }
  for (const MemberStatus& member : status.members) info.members.push_back(DescribeMember(member));
  for (const auto& [lineage, step] : status.checkpoints)
    info.checkpoints.push_back({lineage.value(), step.value()});
  if (!info.checkpoints.empty()) info.checkpoint_step = info.checkpoints.back().step;
  if (Ended(job.phase)) info.exit_code = job.ending.exit_code;
  if (!info.digest.empty()) info.digest_step = info.checkpoint_step.value_or(info.step);
  const JobTimes& times = known.times;
  if (times.started > 0)
    info.seconds =
        static_cast<double>((times.ended > 0 ? times.ended : now_unix_ms) - times.started) / 1000;
  const std::optional<double> per_step = known.tail.pace.SecondsPerStep();
  if (per_step && info.steps > 0 && job.phase == JobPhase::kRunning)
    info.seconds_left =
        *per_step * static_cast<double>(std::max<int64_t>(0, info.steps - info.step));
  return info;
}

namespace {

JobInfo DescribeNow(const KnownJob& known) {
  return Describe(known, absl::ToUnixMillis(absl::Now()));
}

// What a query asks for, checked.
struct PageBounds {
  size_t limit = 0;
  int64_t after = 0;  // in the order of submission
  std::string state;
};

absl::StatusOr<PageBounds> BoundsOf(const JobQuery& query) {
  PageBounds bounds{.state = query.state};
  if (query.limit < 0 || query.limit > kMostJobsPerPage)
    return FieldError("", "limit", absl::StrCat("must be 1 to ", kMostJobsPerPage));
  bounds.limit = static_cast<size_t>(query.limit == 0 ? kJobsPerPage : query.limit);
  if (!query.page_token.empty() && !ParseDigits(query.page_token, &bounds.after))
    return FieldError("", "page_token", "must be the next_page_token of an earlier answer");
  std::vector<std::string> states;
  for (const JobPhase phase : kJobPhases) states.emplace_back(PhaseName(phase));
  if (!query.state.empty() && std::find(states.begin(), states.end(), query.state) == states.end())
    return FieldError("", "state",
                      absl::StrCat("'", query.state, "' is not known; allowed: ",
                                   absl::StrJoin(states, ", "), DidYouMean(query.state, states)));
  return bounds;
}

JobPage PageOf(KnownJobs jobs, const PageBounds& bounds) {
  std::erase_if(jobs, [&](const KnownJobPtr& known) {
    const JobJournal& job = known->status.job;
    return job.submission <= bounds.after ||
           (!bounds.state.empty() && PhaseName(job.phase) != bounds.state);
  });
  std::sort(jobs.begin(), jobs.end(), [](const KnownJobPtr& a, const KnownJobPtr& b) {
    return a->status.job.submission < b->status.job.submission;
  });
  JobPage page;
  if (jobs.size() > bounds.limit) {
    jobs.resize(bounds.limit);
    page.next_page_token = absl::StrCat(jobs.back()->status.job.submission);
  }
  for (const KnownJobPtr& known : jobs) page.jobs.push_back(DescribeNow(*known));
  return page;
}

// Work that was stopped says so in words for people.
template <class T>
absl::StatusOr<T> UnlessStopped(absl::StatusOr<T> answer) {
  return absl::IsCancelled(answer.status()) ? ShuttingDown() : std::move(answer);
}

class Api final : public JobApi {
 public:
  Api(Driver& driver, const Journal& journal, std::string root)
      : driver_(driver), journal_(journal), root_(std::move(root)) {}

  void Submit(std::string id, JobSpec spec, Reply<SubmittedJob> reply) override {
    if (id.empty()) id = MakeId(spec.runtime.name);
    if (const absl::Status bad = CheckId(id); !bad.ok()) return reply(bad);
    if (const absl::Status bad = CheckDataPaths(spec.training.data.paths); !bad.ok())
      return reply(bad);
    const auto created = std::make_shared<bool>(false);
    const auto decide = [id, spec = std::move(spec), created](const KnownJobs& jobs) {
      return DecideSubmit(jobs, id, spec, *created);
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
    reply(DescribeNow(**known));
  }

  void List(const JobQuery& query, Reply<JobPage> reply) override {
    const absl::StatusOr<PageBounds> bounds = BoundsOf(query);
    if (!bounds.ok()) return reply(bounds.status());
    const absl::StatusOr<KnownJobsPtr> jobs = driver_.Known();
    if (!jobs.ok()) return reply(jobs.status());
    reply(PageOf(**jobs, *bounds));
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

  void Watch(const std::string& id, const std::string& after, Reply<bool> reply,
             std::shared_ptr<JobWatcher> watcher) override {
    driver_.Watch(
        id, after,
        [id, reply = std::move(reply)](const absl::Status& found) {
          if (absl::IsNotFound(found)) return reply(NoSuchJob(id));
          if (!found.ok()) return reply(found);
          reply(true);
        },
        std::move(watcher));
  }

  void Fingerprints(const std::string& id, int64_t from, Reply<JobFingerprints> reply) override {
    AnswerLater<JobFingerprints>(id, std::move(reply),
                                 [this, from](const KnownJob& known, const std::stop_token& stop) {
                                   return ReadFingerprints(known.status.job, Step(from), stop);
                                 });
  }

  void Audit(const std::string& id, Reply<JobAudit> reply) override {
    AnswerLater<JobAudit>(id, std::move(reply),
                          [this](const KnownJob& known, const std::stop_token& stop) {
                            return RunAudit(known.status, stop);
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
    return DescribeNow(*known);
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

  // `other`: the runtime fields that differ. With these a job that was cut off starts again, also
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

  static absl::StatusOr<std::optional<Input>> DecideSubmit(const KnownJobs& jobs,
                                                           const std::string& id,
                                                           const JobSpec& spec, bool& created) {
    const auto known = FindJob(jobs, id);
    created = !known.ok();
    if (created) {
      MUSTER_RETURN_IF_ERROR(CheckResume({}, spec.runtime.resume));
      return coordinator::Submit{id, spec};
    }
    const std::vector<std::string> differences =
        TrainingDifferences((*known)->status.job.spec.training, spec.training);
    if (!differences.empty())
      return absl::AlreadyExistsError(
          absl::StrCat("job ", id, " exists with another training specification (",
                       absl::StrJoin(differences, "; "), "); submit this one under another id"));
    const JobStatus& status = (*known)->status;
    if (status.job.deleting)
      return absl::FailedPreconditionError(
          absl::StrCat("job ", id, " is being deleted; submit it again when it is gone"));
    if (Ended(status.job.phase) && !CanGoOn(status.job.phase)) return std::nullopt;
    if (!Ended(status.job.phase)) {
      const std::vector<std::string> other = RuntimeDifferences(status.job.spec, spec);
      MUSTER_RETURN_IF_ERROR(CheckUnderWay(status, other));
      if (other.empty()) return std::nullopt;
    }
    MUSTER_RETURN_IF_ERROR(CheckResume(status, spec.runtime.resume));
    return coordinator::Submit{id, spec};
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
          answer->Give(UnlessStopped(ComputeDigest(*known, step, stop)));
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

  absl::StatusOr<JobFingerprints> ReadFingerprints(const JobJournal& job, Step from,
                                                   const std::stop_token& stop) const {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<FingerprintEntry> entries,
                            journal_.Fingerprints(job.id, stop));
    std::map<Step, JobFingerprint> by_step;  // the last lineage's word on a step counts
    for (const FingerprintEntry& e : entries)
      if (e.step >= from && OnAncestry(job.lineages, e.lineage, e.step))
        by_step[e.step] = {e.step.value(), e.lineage.value(), ToHex(e.value)};
    JobFingerprints part;
    for (auto& [step, fingerprint] : by_step) {
      if (part.fingerprints.size() == kMostFingerprints) {
        part.next = step.value();
        break;
      }
      part.fingerprints.push_back(std::move(fingerprint));
    }
    return part;
  }

  absl::StatusOr<JobAudit> RunAudit(const JobStatus& status, const std::stop_token& stop) const {
    const JobJournal& job = status.job;
    JobAudit audit;
    for (const Lineage& l : job.lineages)
      audit.lineages.push_back({l.number.value(), l.parent.value(), l.fork.value(), l.cause});
    if (job.lineages.empty() || !job.environment) {
      audit.conclusion = "no step has been done yet";
      return audit;
    }
    MUSTER_ASSIGN_OR_RETURN(const std::vector<StepRecord> records, journal_.Records(job.id, stop));
    const auto ancestry = Ancestry(job.lineages, records, job.lineages.back().number, status.step);
    if (!ancestry.ok()) {
      audit.conclusion = std::string(ancestry.status().message());
      return audit;
    }
    const AuditReport report =
        muster::Audit(job.spec.training, job.environment->samples, *ancestry);
    audit.ok = report.ok;
    audit.conclusion = report.conclusion;
    const auto left_out = job.environment->numeric.find(kDataLeftOut);
    if (left_out != job.environment->numeric.end())
      absl::StrAppend(&audit.conclusion, "; the data is without ", left_out->second);
    audit.steps = report.steps;
    audit.full_epochs = report.full_epochs;
    audit.samples = report.samples;
    audit.skipped_steps = report.skipped_steps;
    audit.skipped_samples = report.skipped_samples;
    audit.lanes = report.lanes;
    return audit;
  }

  absl::StatusOr<JobDigest> ComputeDigest(const KnownJob& known, std::optional<int64_t> step,
                                          const std::stop_token& stop) const {
    const JobJournal& job = known.status.job;
    MUSTER_ASSIGN_OR_RETURN(const Catalogue::Listing listing,
                            Catalogue(journal_.kv()).List(job.id));
    for (auto m = listing.manifests.rbegin(); m != listing.manifests.rend(); ++m) {
      if (!OnAncestry(job.lineages, m->lineage, m->step) || (step && m->step != Step(*step)))
        continue;
      JobDigest digest{m->lineage.value(), m->step.value(), job.ending.digest};
      const bool is_final =
          !job.ending.digest.empty() && m->step.value() == Describe(known, 0).digest_step;
      if (is_final) return digest;
      MUSTER_ASSIGN_OR_RETURN(digest.digest,
                              muster::Digest(CheckpointDir(root_, job.id), *m, stop));
      return digest;
    }
    return absl::NotFoundError(
        step ? absl::StrCat("job ", job.id, " has no checkpoint of step ", *step)
             : absl::StrCat("job ", job.id, " has no checkpoint yet"));
  }

  Driver& driver_;
  const Journal& journal_;
  const std::string root_;
  Mutex digests_mutex_;
  std::map<DigestKey, std::weak_ptr<SharedAnswer<JobDigest>>> digests_
      ABSL_GUARDED_BY(digests_mutex_);
};

}  // namespace

std::unique_ptr<JobApi> MakeJobApi(Driver& driver, const Journal& journal,
                                   std::string checkpoint_root) {
  return std::make_unique<Api>(driver, journal, std::move(checkpoint_root));
}

}  // namespace muster::coordinator
