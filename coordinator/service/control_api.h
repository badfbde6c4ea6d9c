// What people and programs ask of a coordinator, in plain values: REST and gRPC are two doors to
// one implementation (coordinator/service/job_api.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/runtime/job_events.h"
#include "coordinator/runtime/job_history.h"
#include "lib/domain/job.h"

namespace muster {

struct JobMember {
  std::string name;
  std::string role;  // worker, server
  int32_t rank = 0;
  int32_t local_rank = 0;  // among those of its role on its node
  std::string node;
  std::string address;
  std::string incarnation;
  std::vector<int32_t> lanes;
  std::string state;  // joined, forming, active, spare
  std::string phase;
  int64_t step = 0;
};

struct CheckpointRef {
  int64_t lineage = 0;
  int64_t step = 0;
};

struct JobInfo {
  std::string id;
  std::string name;
  std::string
      state;  // queued, starting, running, recovering, stopping, done, stopped, failed, cancelled
  std::string reason;
  std::string waits_for;
  bool deleting = false;  // what is kept of it is being removed
  // Which job of that id it is, once the id was used again after a deletion; 0: it never started.
  int64_t first_start = 0;
  int64_t step = 0;   // steps recorded
  int64_t steps = 0;  // in all; 0: not known yet
  int64_t epoch = 0;
  int64_t epochs = 0;
  uint64_t samples = 0;  // used in the recorded steps
  std::optional<double> loss;
  std::string digest;
  int64_t digest_step = 0;
  // Once the job is over: the exit code of a program that waited for its end. 0 done, 67 a person
  // stopped or cancelled it, 64 bad configuration, 65 bad data, 78 a worker's numeric environment
  // differed from the job's, 1 otherwise.
  std::optional<int32_t> exit_code;
  std::string sample;       // text that the trained model made, fit for a terminal; empty: none
  std::string fingerprint;  // 32 hexadecimal digits; empty: none yet
  int64_t fingerprint_step = 0;
  int64_t view = 0;
  int64_t lineage = 0;
  int32_t workers = 0;  // that hold lanes in the view
  std::vector<JobMember> members;
  int64_t views = 0;
  int64_t recoveries = 0;
  int64_t rewinds = 0;
  int64_t lanes_recomputed = 0;
  double seconds = 0;                  // since it started
  std::optional<double> seconds_left;  // at its pace of late; nothing: not known
  std::optional<int64_t> checkpoint_step;
  std::vector<CheckpointRef> checkpoints;
  // Of many megabytes at times, so it is shared with what is known of the job. Never null.
  std::shared_ptr<const JobSpec> spec = std::make_shared<const JobSpec>();
};

// Which jobs a list shows.
struct JobQuery {
  int64_t limit = 0;       // most jobs of one page, up to kMostJobsPerPage; 0: kJobsPerPage
  std::string page_token;  // next_page_token of the page before; empty: the first page
  std::string state;       // "running", …; empty: any
};
inline constexpr int64_t kJobsPerPage = 100;
inline constexpr int64_t kMostJobsPerPage = 1000;
// A page ends earlier where its jobs are large, though never before the first: gRPC clients take
// answers of up to 4 MiB.
inline constexpr size_t kMostPageBytes = size_t{2} << 20;

struct JobPage {
  std::vector<JobInfo> jobs;    // in order of submission
  std::string next_page_token;  // empty: this is the last page
};

struct SubmittedJob {
  JobInfo job;
  bool created = false;  // false: it was there already
};

struct JobFingerprint {
  int64_t step = 0;
  int64_t lineage = 0;
  std::string value;
};

// As many as one answer holds.
struct JobFingerprints {
  std::vector<JobFingerprint> fingerprints;  // by step, of the last lineage
  std::optional<int64_t> next;  // the step from which to ask for those that follow; nothing: none
};
inline constexpr size_t kMostFingerprints = 10'000;

struct JobAudit {
  bool ok = false;
  std::string conclusion;
  int64_t steps = 0;
  int64_t full_epochs = 0;
  uint64_t samples = 0;
  int64_t skipped_steps = 0;
  uint64_t skipped_samples = 0;
  int64_t lanes = 0;
  struct Fork {
    int64_t number = 0;
    int64_t parent = 0;
    int64_t fork = 0;
    std::string cause;
  };
  std::vector<Fork> lineages;
};

// Which steps of the ledger are asked for.
struct LedgerQuery {
  int64_t from = 0;                // this step and later ones
  std::optional<uint64_t> sample;  // only those that used it, with the lane that had it
  int64_t limit = 0;               // most steps, up to kMostLedgerSteps; 0: kLedgerStepsPerPage
};
inline constexpr int64_t kLedgerStepsPerPage = 100;
inline constexpr int64_t kMostLedgerSteps = 1000;
// Samples and lanes of all steps of one answer; a step with more comes alone and names no samples.
inline constexpr size_t kMostLedgerEntries = 100'000;

struct LedgerLane {
  int32_t lane = 0;
  std::string worker;  // who computed it
  std::string incarnation;
  uint64_t count = 0;                            // of samples
  std::optional<std::vector<uint64_t>> samples;  // their ids
};

struct LedgerStep {
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t lineage = 0;
  int64_t view = 0;
  int64_t weight = 0;
  std::optional<double> loss;  // mean
  bool skipped = false;        // it was not finite, and its samples are not in the final state
  std::vector<LedgerLane> lanes;
};

struct JobLedger {
  std::vector<LedgerStep> steps;  // of the history of the last lineage, by step
  std::optional<int64_t> next;    // the step from which to ask for those that follow; nothing: none
  std::string data_left_out{};    // for people: what of the data could not be read; empty: nothing
};

struct JobDigest {
  int64_t lineage = 0;
  int64_t step = 0;
  std::string digest;
};

// Which of the lines that members printed are asked for.
struct LogQuery {
  std::string member;  // empty: of all
  int64_t tail = 0;    // the last so many lines of each, up to kMostLogLines; 0: kLogLines
};
inline constexpr int64_t kLogLines = 100;
inline constexpr int64_t kMostLogLines = 10'000;
// Of one answer. Of several members each has an equal part.
inline constexpr size_t kMostLogAnswerBytes = size_t{1} << 20;

struct LogTail {
  // Fit for a terminal. Of all members: one after the other by name, each line after "NAME: ".
  std::string text;
};

// All methods thread-safe; none blocks; every reply is called once, on any thread, and is quick.
// Errors: kNotFound (no such job), kInvalidArgument (FieldOf names the field), kUnavailable
// (shutting down, or the journal cannot be written).
class JobApi {
 public:
  template <class T>
  using Reply = std::function<void(absl::StatusOr<T>)>;

  virtual ~JobApi() = default;
  // `id` empty: made of the name and random bits. The same id with the same training specification
  // is the same job; one that was stopped goes on. kAlreadyExists: the id has another training
  // specification; the message names the fields. kFailedPrecondition: it is stopping, is being
  // deleted, or runs with other fields of the runtime specification. kResourceExhausted: with it,
  // all jobs that are kept would be more than may be.
  virtual void Submit(std::string id, JobSpec spec, Reply<SubmittedJob> reply) = 0;
  virtual void Get(const std::string& id, Reply<JobInfo> reply) = 0;
  virtual void List(const JobQuery& query, Reply<JobPage> reply) = 0;
  // For good, also a job that was stopped or failed and could go on. One that is done or cancelled
  // stays as it is.
  virtual void Cancel(const std::string& id, Reply<JobInfo> reply) = 0;
  virtual void Stop(const std::string& id, Reply<JobInfo> reply) = 0;
  // What is kept of it is removed, which takes a while; then there is no such job.
  // kFailedPrecondition: it has not ended.
  virtual void Delete(const std::string& id, Reply<JobInfo> reply) = 0;
  // From now on it may have so many workers. kInvalidArgument: 1 to 4,096, the least no more than
  // the most. kFailedPrecondition: it has ended, or is stopping.
  virtual void Scale(const std::string& id, int32_t workers_min, int32_t workers_max,
                     Reply<JobInfo> reply) = 0;
  // Events after `after` (nothing: all that are kept), then those to come until the job is over.
  // `reply` comes before the first event.
  virtual void Watch(const std::string& id, std::optional<EventPlace> after, Reply<bool> reply,
                     std::shared_ptr<JobWatcher> watcher) = 0;
  // Those of the step `from` and later ones.
  virtual void Fingerprints(const std::string& id, int64_t from, Reply<JobFingerprints> reply) = 0;
  virtual void Audit(const std::string& id, Reply<JobAudit> reply) = 0;
  virtual void History(const std::string& id, const HistoryQuery& query,
                       Reply<HistoryPage> reply) = 0;
  virtual void Ledger(const std::string& id, LedgerQuery query, Reply<JobLedger> reply) = 0;
  // What members of host agents printed, as far as it is kept. kNotFound, too: the job has no log
  // of that member; the message names those that there are.
  virtual void Logs(const std::string& id, LogQuery query, Reply<LogTail> reply) = 0;
  // Of the checkpoint of `step`; without one, of the final state, else of the newest checkpoint.
  virtual void Digest(const std::string& id, std::optional<int64_t> step,
                      Reply<JobDigest> reply) = 0;
};

// A member that is placed on a host.
struct HostMember {
  std::string job;
  std::string member;
  std::string role;       // worker, server
  int64_t placement = 0;  // its number
  std::string state;      // as of JobMember; absent: it has no session now
};

struct HostInfo {
  std::string name;
  std::string node;
  int32_t slots = 0;
  int32_t used = 0;  // members that are placed there
  int32_t free = 0;
  bool up = false;                         // its agent has a session
  double away_for_seconds = 0;             // where it has none
  bool draining = false;                   // nothing new is placed there, and its members leave
  std::vector<std::string> left_out_by{};  // jobs that could not run there
  std::string left_out{};                  // why it is left out for all jobs; empty: it is not
  std::vector<HostMember> members{};       // by job and name
};

// By name. Pages end as those of jobs do.
struct HostQuery {
  int64_t limit = 0;       // as of JobQuery
  std::string page_token;  // the same
};
struct HostPage {
  std::vector<HostInfo> hosts;
  std::string next_page_token;  // empty: this is the last page
};

// As JobApi.
class HostApi {
 public:
  template <class T>
  using Reply = JobApi::Reply<T>;

  virtual ~HostApi() = default;
  virtual void List(const HostQuery& query, Reply<HostPage> reply) = 0;
  virtual void Get(const std::string& name, Reply<HostInfo> reply) = 0;
  // `on`: nothing new is placed there, and its members leave; else it takes members again.
  virtual void Drain(const std::string& name, bool on, Reply<HostInfo> reply) = 0;
};

}  // namespace muster
