#include "coordinator/service/folder_answers.h"

#include <algorithm>
#include <stop_token>
#include <vector>

#include "coordinator/runtime/history.h"
#include "coordinator/runtime/known_job.h"
#include "coordinator/runtime/log_store.h"
#include "coordinator/service/job_questions.h"
#include "coordinator/service/rest.h"
#include "coordinator/state/stored_job.h"
#include "lib/base/status.h"
#include "lib/http/in_process.h"
#include "lib/storage/kv.h"

namespace muster::coordinator {
namespace {

constexpr char kNothingRuns[] =
    "nothing runs in this folder; muster train or muster up with it as --dir goes on";

// It has stood still since then.
std::optional<int64_t> TimeOfLastRecord(const Journal& journal, const JobStatus& status) {
  if (status.step == Step(0)) return std::nullopt;
  const auto last = journal.RecordsIn(status.job.id, HistoryOf(status.job.lineages),
                                      status.step - 1, status.step, 1);
  if (!last.ok() || last->empty() || last->front().unix_ms == 0) return std::nullopt;
  return last->front().unix_ms;
}

// As the journal has it: nobody has decided anything since.
KnownJobPtr AtRest(const Journal& journal, StoredJob job) {
  const std::string id = job.journal.id;
  KnownJob known{StatusOf(job), journal.TimesOf(id), journal.TailOf(id)};
  if (Ended(job.journal.phase)) return std::make_shared<const KnownJob>(std::move(known));
  known.status.waits_for = kNothingRuns;
  known.times.ended = TimeOfLastRecord(journal, known.status).value_or(known.times.started);
  known.tail.pace = {};
  return std::make_shared<const KnownJob>(std::move(known));
}

KnownJobs JobsIn(const Journal& journal, RecoveredState recovered) {
  KnownJobs jobs;
  for (JobJournal& job : recovered.jobs) {
    const std::string id = job.id;
    jobs.push_back(AtRest(journal, {.journal = std::move(job),
                                    .recorded = recovered.recorded[id],
                                    .recent = std::move(recovered.recent[id]),
                                    .manifests = std::move(recovered.manifests[id]),
                                    .stream = std::move(recovered.streams[id])}));
  }
  std::sort(jobs.begin(), jobs.end(), [](const KnownJobPtr& a, const KnownJobPtr& b) {
    return a->status.job.id < b->status.job.id;
  });
  return jobs;
}

// Answers before it returns.
class FolderApi final : public JobApi {
 public:
  FolderApi(const Journal& journal, KnownJobs jobs, std::string root, std::string logs)
      : journal_(journal), jobs_(std::move(jobs)), root_(std::move(root)), logs_(std::move(logs)) {}

  void Submit(std::string, JobSpec, Accepts, const Caller&, Reply<SubmittedJob> reply) override {
    reply(NothingRuns());
  }
  void Adopt(std::string, std::string, Accepts, const Caller&, Reply<AdoptionInfo> reply) override {
    reply(NothingRuns());
  }
  void FindAdoption(const std::string&, Reply<AdoptionInfo> reply) override {
    reply(NothingRuns());
  }
  void Cancel(const std::string&, const Caller&, Reply<JobInfo> reply) override {
    reply(NothingRuns());
  }
  void Stop(const std::string&, const Caller&, Reply<JobInfo> reply) override {
    reply(NothingRuns());
  }
  void Delete(const std::string&, const Caller&, Reply<JobInfo> reply) override {
    reply(NothingRuns());
  }
  void Scale(const std::string&, int32_t, int32_t, const Caller&, Reply<JobInfo> reply) override {
    reply(NothingRuns());
  }
  void SetQueue(const std::string&, const QueueChange&, const Caller&,
                Reply<JobInfo> reply) override {
    reply(NothingRuns());
  }
  void Watch(const std::string&, std::optional<EventPlace>, const Caller&, Reply<bool> reply,
             std::shared_ptr<JobWatcher>) override {
    reply(NothingRuns());
  }

  void Get(const std::string& id, Reply<JobInfo> reply) override {
    Answer<JobInfo>(id, reply, [](const KnownJobPtr& known) { return DescribeNow(known); });
  }
  void List(const JobQuery& query, Reply<JobPage> reply) override { reply(PageOf(jobs_, query)); }
  void Fingerprints(const std::string& id, int64_t from, Reply<JobFingerprints> reply) override {
    Answer<JobFingerprints>(id, reply, [&](const KnownJobPtr& known) {
      return ReadFingerprints(journal_, known->status.job, Step(from), {});
    });
  }
  void Audit(const std::string& id, Reply<JobAudit> reply) override {
    Answer<JobAudit>(
        id, reply, [&](const KnownJobPtr& known) { return RunAudit(journal_, known->status, {}); });
  }
  void History(const std::string& id, const HistoryQuery& query,
               Reply<HistoryPage> reply) override {
    if (const absl::Status bad = CheckHistoryQuery(query); !bad.ok()) return reply(bad);
    Answer<HistoryPage>(id, reply, [&](const KnownJobPtr& known) {
      return ReadHistory(journal_, known->status.job, known->status.step, query, {});
    });
  }
  void Ledger(const std::string& id, LedgerQuery query, Reply<JobLedger> reply) override {
    if (const absl::Status bad = CheckLedgerQuery(query); !bad.ok()) return reply(bad);
    Answer<JobLedger>(id, reply, [&](const KnownJobPtr& known) {
      return ReadLedger(journal_, known->status, query, {});
    });
  }
  void Logs(const std::string& id, LogQuery query, Reply<LogTail> reply) override {
    if (const absl::Status bad = CheckLogQuery(query); !bad.ok()) return reply(bad);
    Answer<LogTail>(id, reply, [&](const KnownJobPtr&) { return ReadLogs(logs_, id, query); });
  }
  void FollowLogs(const std::string& id, FollowQuery query, const Caller&,
                  Reply<LogPage> reply) override {
    if (const absl::Status bad = CheckFollowQuery(query); !bad.ok()) return reply(bad);
    Answer<LogPage>(id, reply, [&](const KnownJobPtr&) {
      return ReadLogPage(logs_, id, query, /*ends=*/true);
    });
  }
  void ReadFile(const std::string& id, FileQuery query, Reply<FilePart> reply) override {
    if (const absl::Status bad = CheckFileQuery(query); !bad.ok()) return reply(bad);
    Answer<FilePart>(id, reply, [&](const KnownJobPtr& known) {
      return ReadFilePart(journal_, root_, known->status, query);
    });
  }
  void Checkpoints(const std::string& id, const std::string& page_token,
                   Reply<SavedCheckpoints> reply) override {
    Answer<SavedCheckpoints>(id, reply, [&](const KnownJobPtr& known) {
      return ListCheckpoints(journal_, root_, known->status, page_token, {});
    });
  }
  void KeepCheckpoint(const std::string&, const std::string&, const std::string&, const Caller&,
                      Reply<SavedCheckpoint> reply) override {
    reply(NothingRuns());
  }
  void DeleteCheckpoint(const std::string&, const std::string&, bool, const Caller&,
                        Reply<SavedCheckpoint> reply) override {
    reply(NothingRuns());
  }
  void Digest(const std::string& id, std::optional<int64_t> step, Reply<JobDigest> reply) override {
    Answer<JobDigest>(id, reply, [&](const KnownJobPtr& known) {
      return DigestOf(journal_, root_, known, step, {});
    });
  }

 private:
  static absl::Status NothingRuns() { return absl::FailedPreconditionError(kNothingRuns); }

  template <class T, class Work>
  void Answer(const std::string& id, const Reply<T>& reply, const Work& work) const {
    const absl::StatusOr<KnownJobPtr> known = FindJob(jobs_, id);
    if (!known.ok()) return reply(known.status());
    reply(work(*known));
  }

  const Journal& journal_;
  const KnownJobs jobs_;
  const std::string root_;
  const std::string logs_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FolderAnswers>> FolderAnswers::Open(const std::string& dir,
                                                                   std::string checkpoint_root) {
  const std::string store = JournalOf(dir);
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Kv> kv, OpenRocksToRead(store, JournalFamilies()));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Journal> journal,
                          Journal::OpenToRead(std::move(kv), TermFileOf(dir)));
  std::vector<std::string> damaged;  // checkpoints that nothing can be read from
  MUSTER_ASSIGN_OR_RETURN(RecoveredState recovered, journal->Load(damaged));
  auto api = std::make_unique<FolderApi>(*journal, JobsIn(*journal, std::move(recovered)),
                                         std::move(checkpoint_root), LogsOf(dir));
  MUSTER_ASSIGN_OR_RETURN(http::Router router,
                          http::Router::Make(RestRoutes(
                              *api, [] { return std::string(); }, [] { return absl::OkStatus(); },
                              [] { return absl::OkStatus(); })));
  return std::unique_ptr<FolderAnswers>(
      new FolderAnswers(std::move(journal), std::move(api), std::move(router)));
}

http::Response FolderAnswers::Ask(const std::string& method, absl::string_view target,
                                  const std::string& body) const {
  return http::AnswerInProcess(router_, method, target, body);
}

}  // namespace muster::coordinator
