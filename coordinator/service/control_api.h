// What people and programs ask of a coordinator, in plain values: REST and gRPC are two doors to
// one implementation (coordinator/service/job_api.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/runtime/job_events.h"
#include "coordinator/runtime/job_history.h"
#include "coordinator/state/rights.h"
#include "lib/domain/history.h"
#include "lib/domain/job.h"
#include "lib/domain/plugin_use.h"

namespace muster {

struct JobMember {
  std::string name;
  std::string role;  // worker, server, follower, reader
  int32_t rank = 0;
  int32_t local_rank = 0;  // among those of its role on its node
  std::string node;
  std::string host;  // on which it is placed; empty: no agent started it
  std::string address;
  std::string incarnation;
  std::vector<int32_t> lanes;
  std::string state;  // joined, forming, active, spare, follows, reads
  std::string phase;
  int64_t step = 0;
};

struct CheckpointRef {
  int64_t lineage = 0;
  int64_t step = 0;
};

// The state of another job that one began with.
struct ParentInfo {
  std::string job;
  int64_t step = 0;
  std::string digest;
};

// Of a job whose data comes while it trains.
struct StreamInfo {
  uint64_t samples = 0;         // that came
  std::optional<uint64_t> end;  // how many there are in all; nothing: that is not known yet
  uint64_t trimmed = 0;         // the first so many are not kept any more
  uint64_t spool_bytes = 0;     // of what is kept
  std::string file{};           // of a folder, the last that was begun; empty: none
};

struct JobInfo {
  std::string id;
  std::string name;
  std::string state;  // queued, checking, starting, running, recovering, stopping, done, stopped,
                      // failed, cancelled
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
  // The metrics that it measures on validation data, and what each was last; without a value: it is
  // not measured yet, or is not finite. Empty: it measures none, or nobody knows them yet.
  std::vector<MetricValue> validation{};
  std::optional<int64_t> validation_step{};  // of whose first state that is; nothing: of none yet
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
  std::string owner{};                 // the user who submitted it first; empty: nobody was asked
  std::optional<ParentInfo> parent{};  // of a fork
  std::optional<StreamInfo> stream{};  // nothing: its data is all there
  // Of many megabytes at times, so it is shared with what is known of the job. Never null.
  std::shared_ptr<const JobSpec> spec = std::make_shared<const JobSpec>();
};

// Which jobs a list shows.
struct JobQuery {
  int64_t limit = 0;         // most jobs of one page, up to kMostJobsPerPage; 0: kJobsPerPage
  std::string page_token;    // next_page_token of the page before; empty: the first page
  std::string state;         // "running", …; empty: any
  std::string name_space{};  // empty: any
  std::map<std::string, std::string> labels{};     // that it has, with these values
  std::string scope{coordinator::kAllNamespaces};  // only jobs of that namespace
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

// States of an adoption.
inline constexpr char kAdoptionWaits[] = "waiting";  // for its turn, or until the job is known
inline constexpr char kAdoptionCopies[] = "copying";
inline constexpr char kAdoptionDone[] = "done";
inline constexpr char kAdoptionFailed[] = "failed";

struct SubmittedJob {
  JobInfo job;
  bool created = false;  // false: it was there already
};

// How far the adoption of a job is.
struct AdoptionInfo {
  std::string adoption;  // its name, for FindAdoption
  std::string folder;
  std::string job;  // the id that the job gets; empty: it was not asked for, and not read yet
  std::string state = kAdoptionWaits;
  uint64_t bytes = 0;     // copied
  uint64_t of_bytes = 0;  // 0: not known yet
  double seconds = 0;     // that it copies, or did
  double bytes_per_second = 0;
  std::optional<double> seconds_left;      // nothing: not known
  int64_t step = 0;                        // of the checkpoint, once it is done
  std::vector<std::string> passed_over{};  // newer checkpoints, and what is wrong with each
  absl::Status error;                      // once it has failed
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
  uint64_t left_out_samples = 0;  // uses of samples that could not be read
  int64_t lanes = 0;
  struct Fork {
    int64_t number = 0;
    int64_t parent = 0;
    int64_t fork = 0;
    std::string cause;
  };
  std::vector<Fork> lineages;
  std::optional<ParentInfo> parent{};  // of a fork: its account begins with that state
  std::vector<PluginUse> plugins{};    // which file computed; empty: a task that is part of Muster
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
  // Ids of those of its samples that could not be read; of a sample that was asked for, only that.
  std::vector<uint64_t> left_out{};
  std::vector<LedgerLane> lanes;
};

struct JobLedger {
  std::vector<LedgerStep> steps;  // of the history of the last lineage, by step
  std::optional<int64_t> next;    // the step from which to ask for those that follow; nothing: none
  std::string data_left_out{};    // for people: what of the data could not be read; empty: nothing
  std::optional<ParentInfo> parent{};  // of a fork: its steps begin at 0, with that state
  std::vector<PluginUse> plugins{};    // as JobAudit's
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

// Which lines a follower has not had yet.
struct FollowQuery {
  std::string member;  // as of LogQuery
  int64_t tail = 0;    // only where `after` is empty: the last so many lines of each; 0: all
  std::string after;   // `next` of the page before; empty: this is the first
};
// Of members that are followed at once, and of `after`, which is a part of a URL.
inline constexpr size_t kMostFollowedMembers = 256;
inline constexpr size_t kMostFollowedBytes = size_t{12} << 10;
// Of the lines of one page, as members printed them. Of several members each has an equal part.
inline constexpr size_t kMostLogPageBytes = size_t{256} << 10;
inline constexpr size_t kLeastBytesOfLine = 32;  // a shorter one counts as so many
struct LogLine {
  std::string member;
  std::string line;  // fit for a terminal
  bool operator==(const LogLine&) const = default;
};
struct LogPage {
  std::vector<LogLine> lines;  // of one member after the other, by name
  std::string next;            // ask for what comes after it
  bool over = false;           // the job is over, and all was given
};

struct LogTail {
  // Fit for a terminal. Of all members: one after the other by name, each line after "NAME: ".
  std::string text;
};

// A committed checkpoint, as it lies there.
struct SavedCheckpoint {
  std::string checkpoint;  // by which it is named: its folder, "lineage-1-step-40"
  int64_t lineage = 0;
  int64_t step = 0;
  std::optional<int64_t> epoch{};  // counted from 0; nothing: nobody knows how long one is
  uint64_t bytes = 0;              // of its files
  int64_t unix_ms = 0;             // when it was committed
  bool complete = false;           // its files are there, in full length
  std::string why{};               // of one that is not, for people
  bool finite = false;             // every value in it is
  std::string name{};              // that it is kept by; empty: none
  std::string measure{};           // as "validation.loss"; empty: it was not measured
  std::optional<double> value{};   // of that
  bool best = false;               // by what checkpoint.keep of the job says
  bool left_out = false;           // the job has gone back behind it, and nothing goes on from it
  bool deleting = false;
};
// By lineage and step. `after`: `next_page_token` of the page before; empty: the first.
struct SavedCheckpoints {
  std::vector<SavedCheckpoint> checkpoints;
  std::string next_page_token;  // empty: this is the last page
};
inline constexpr size_t kSavedCheckpointsPerPage = 200;

// Which bytes of a file of a committed checkpoint are asked for.
struct FileQuery {
  std::string file;  // FOLDER/FILE in the job's folder of checkpoints
  int64_t offset = 0;
  int64_t bytes = 0;  // the most, up to kMostFileBytes; 0: so many
};
inline constexpr int64_t kMostFileBytes = int64_t{4} << 20;

struct FilePart {
  std::string bytes;  // fewer than the query says: the file ends there
  uint64_t of = 0;    // so large is the file
};
// The header of REST that says how large it is.
inline constexpr char kFileBytesHeader[] = "Muster-File-Bytes";

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
  // specification; the message names the fields; or it is being adopted. kFailedPrecondition: it is
  // stopping, is being deleted, or runs with other fields of the runtime specification.
  // kResourceExhausted: with it, all jobs that are kept would be more than may be.
  // kPermissionDenied: `caller` may not, or the job of that id is another's.
  // `accepts` is of a job that goes on with this, and of no other.
  virtual void Submit(std::string id, JobSpec spec, Accepts accepts,
                      const coordinator::Caller& caller, Reply<SubmittedJob> reply) = 0;
  // A job of another cluster, from the newest whole checkpoint in `folder`, which the coordinator
  // can read; `id` empty: as it was called there. It is copied, and goes on from there. The answer
  // comes at once; the same folder and id while that is under way is the same adoption.
  // It is `caller`'s then. kAlreadyExists: there is a job of that id, or one is being adopted;
  // kUnavailable: too many adoptions are under way, too.
  virtual void Adopt(std::string folder, std::string id, Accepts accepts,
                     const coordinator::Caller& caller, Reply<AdoptionInfo> reply) = 0;
  // Those under way, and the last that ended, since the coordinator started. What it failed with:
  // kNotFound: no checkpoint lies there; kDataLoss: none that can be used; kFailedPrecondition: its
  // cluster lives, or the folder is where the job would lie here; kPermissionDenied: it may not be
  // read; kResourceExhausted: the disk is full, or as Submit; others as Submit and Adopt.
  virtual void FindAdoption(const std::string& adoption, Reply<AdoptionInfo> reply) = 0;
  virtual void Get(const std::string& id, Reply<JobInfo> reply) = 0;
  virtual void List(const JobQuery& query, Reply<JobPage> reply) = 0;
  // What changes a job is refused by what is known when it is decided (kPermissionDenied,
  // kNotFound): since `caller` was let in, its id may have become another's. For good, also a job
  // that was stopped or failed and could go on. One that is done or cancelled stays as it is.
  virtual void Cancel(const std::string& id, const coordinator::Caller& caller,
                      Reply<JobInfo> reply) = 0;
  virtual void Stop(const std::string& id, const coordinator::Caller& caller,
                    Reply<JobInfo> reply) = 0;
  // What is kept of it is removed, which takes a while; then there is no such job.
  // kFailedPrecondition: it has not ended.
  virtual void Delete(const std::string& id, const coordinator::Caller& caller,
                      Reply<JobInfo> reply) = 0;
  // From now on it may have so many workers. kInvalidArgument: 1 to 4,096, the least no more than
  // the most. kFailedPrecondition: it has ended, or is stopping.
  virtual void Scale(const std::string& id, int32_t workers_min, int32_t workers_max,
                     const coordinator::Caller& caller, Reply<JobInfo> reply) = 0;
  // What the queue and people know of it, from now on, whatever its state is. kInvalidArgument: it
  // is not allowed. kFailedPrecondition: it is being deleted. kResourceExhausted: as Submit.
  // kPermissionDenied, too: a priority that the caller may not ask for.
  virtual void SetQueue(const std::string& id, const QueueChange& change,
                        const coordinator::Caller& caller, Reply<JobInfo> reply) = 0;
  // Events after `after` (nothing: all that are kept), then those to come until the job is over.
  // `reply` comes before the first event. kUnavailable, too: the caller watches enough already.
  virtual void Watch(const std::string& id, std::optional<EventPlace> after,
                     const coordinator::Caller& caller, Reply<bool> reply,
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
  // The reply comes once there are lines after those that were given, or the job is over, or, with
  // none, after some seconds. kUnavailable, too: too many wait, or the caller does so often enough.
  // kNotFound, too: the job is over, and has no log of that member.
  virtual void FollowLogs(const std::string& id, FollowQuery query,
                          const coordinator::Caller& caller, Reply<LogPage> reply) = 0;
  // Of a manifest, a segment or the name that a checkpoint is kept by, byte for byte. kNotFound,
  // too: the job has no such checkpoint any more, or that no such file.
  virtual void ReadFile(const std::string& id, FileQuery query, Reply<FilePart> reply) = 0;
  // One page of what is committed of the job. kInvalidArgument: `page_token` is none.
  virtual void Checkpoints(const std::string& id, const std::string& page_token,
                           Reply<SavedCheckpoints> reply) = 0;
  // It is kept by that name from now on, whatever the job says; empty: by none. As it is then.
  // kNotFound, too: there is no such checkpoint, or it is being removed. kAlreadyExists: another
  // one of the job has the name. kFailedPrecondition: it is not complete.
  virtual void KeepCheckpoint(const std::string& id, const std::string& checkpoint,
                              const std::string& name, const coordinator::Caller& caller,
                              Reply<SavedCheckpoint> reply) = 0;
  // As it was; it is gone then. kNotFound, too: there is no such checkpoint. kFailedPrecondition:
  // the job may go back to it by itself, or, without `force`, it has a name or is the newest one.
  virtual void DeleteCheckpoint(const std::string& id, const std::string& checkpoint, bool force,
                                const coordinator::Caller& caller,
                                Reply<SavedCheckpoint> reply) = 0;
  // Of the checkpoint of `step`; without one, of the final state, else of the newest checkpoint.
  virtual void Digest(const std::string& id, std::optional<int64_t> step,
                      Reply<JobDigest> reply) = 0;
};

// Nothing: no bound.
struct NamespaceInfo {
  std::string name;
  std::optional<int32_t> slots;   // that its running jobs may hold
  std::optional<int32_t> queued;  // jobs that may wait
  int32_t priority = 0;           // the highest that its submitters may give
  int32_t slots_held = 0;
  int32_t jobs_running = 0;
  int32_t jobs_queued = 0;
};
struct NamespaceList {
  std::vector<NamespaceInfo> namespaces;  // by name; as many as have a quota or a job
};

// As JobApi. Every name is a namespace: it needs not be made.
class NamespaceApi {
 public:
  template <class T>
  using Reply = JobApi::Reply<T>;

  virtual ~NamespaceApi() = default;
  // Of `scope`, or of all (coordinator::kAllNamespaces).
  virtual void List(const std::string& scope, Reply<NamespaceList> reply) = 0;
  virtual void Get(const std::string& name, Reply<NamespaceInfo> reply) = 0;
  // All of it, from now on. What runs is not stopped, but shrinks where it can. kResourceExhausted:
  // too many namespaces have quotas.
  virtual void SetQuota(const std::string& name, const coordinator::Quota& quota,
                        Reply<NamespaceInfo> reply) = 0;
};

// A member that is placed on a host.
struct HostMember {
  std::string job;
  std::string member;
  std::string role;                    // worker, server
  int64_t placement = 0;               // its number
  std::string state;                   // as of JobMember; absent: it has no session now
  std::vector<std::string> devices{};  // ids
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
  std::string name_space{};                // jobs of which it takes; empty: nobody has said
  std::vector<HostMember> members{};       // by job and name
  std::vector<std::string> devices{};      // ids
  std::set<std::string> devices_used{};    // those that members have, or processes that end
};

// By name. Pages end as those of jobs do.
struct HostQuery {
  int64_t limit = 0;                               // as of JobQuery
  std::string page_token;                          // the same
  std::string scope{coordinator::kAllNamespaces};  // jobs of that namespace alone are told of
};
struct HostPage {
  std::vector<HostInfo> hosts;
  std::string next_page_token;  // empty: this is the last page
  // On the first page: names of those that were taken out of the cluster and are not let in; the
  // first kMostRevokedTold.
  std::vector<std::string> revoked{};
  // Of the coordinator that makes hosts for jobs: where in Kubernetes, and what keeps it from that.
  std::string launch_namespace{};  // empty: hosts come by themselves
  std::string launch_trouble{};    // for people; empty: nothing does
};
inline constexpr size_t kMostRevokedTold = 100;

// As JobApi.
class HostApi {
 public:
  template <class T>
  using Reply = JobApi::Reply<T>;

  virtual ~HostApi() = default;
  virtual void List(const HostQuery& query, Reply<HostPage> reply) = 0;
  // `scope` as in HostQuery.
  virtual void Get(const std::string& name, const std::string& scope, Reply<HostInfo> reply) = 0;
  // `on`: nothing new is placed there, and its members leave; else it takes members again.
  virtual void Drain(const std::string& name, bool on, Reply<HostInfo> reply) = 0;
};

struct TokenInfo {
  std::string id;
  std::string user;
  std::string role;
  std::string name_space;
  int64_t made_unix_ms = 0;
  int64_t expires_unix_ms = 0;  // 0: never
};
// What is to be made.
struct TokenRequest {
  coordinator::Caller grant;
  int64_t expires_in_seconds = 0;  // 0: it does not expire
};
inline constexpr int64_t kLongestTokenSeconds = int64_t{3650} * 86400;
struct MadeToken {
  TokenInfo info;
  std::string token;  // told this once, and kept nowhere
};
struct TokenList {
  std::vector<TokenInfo> tokens;  // in the order in which they were made
};

// Of people. As JobApi.
class TokenApi {
 public:
  template <class T>
  using Reply = JobApi::Reply<T>;

  virtual ~TokenApi() = default;
  // kResourceExhausted: there are as many as may be.
  virtual void Make(const TokenRequest& request, Reply<MadeToken> reply) = 0;
  virtual void List(Reply<TokenList> reply) = 0;
  // What it was. kFailedPrecondition: without it nobody could make tokens any more.
  virtual void Revoke(const std::string& id, Reply<TokenInfo> reply) = 0;
};

// A host that may join.
struct AdmittedHost {
  std::string host;
  std::string name_space;  // empty: it joined with the secret of a run
  bool certified = false;  // by an authority from outside
  bool revoked = false;
  std::string token;  // told this once; empty: there is none
};

// As JobApi.
class HostTokenApi {
 public:
  template <class T>
  using Reply = JobApi::Reply<T>;

  virtual ~HostTokenApi() = default;
  // The host is known by this token from now on, and by none before. kResourceExhausted: too many
  // hosts are known.
  virtual void Admit(const std::string& host, const std::string& name_space, bool certified,
                     Reply<AdmittedHost> reply) = 0;
  // Its session and its members' end, and nothing is signed for it any more. kNotFound: nobody
  // knows it.
  virtual void Revoke(const std::string& host, Reply<AdmittedHost> reply) = 0;
};

struct SignedCertificate {
  std::string cluster;
  std::string certificate_pem;
  std::string authority_pem;
  int64_t now_unix_ms = 0;
};

// As JobApi.
class CertificateApi {
 public:
  template <class T>
  using Reply = JobApi::Reply<T>;

  virtual ~CertificateApi() = default;
  // For the key of a user, who asks with the token of that id: the certificate counts as long as it
  // does. kFailedPrecondition: this coordinator signs nothing.
  virtual void SignUser(const std::string& user, const std::string& token_id,
                        const std::string& public_key, Reply<SignedCertificate> reply) = 0;
};

struct CertificateOfAuthority {
  std::string hash;  // SHA-256 of its DER, in hexadecimal digits
  int64_t begins_unix_ms = 0;
  int64_t ends_unix_ms = 0;
  std::string pem;
};
// Of a host: it and its members have certificates that came with whom the coordinator trusts now;
// it has not said so; its agent has no session.
inline constexpr char kTrustRenewed[] = "renewed", kTrustNotYet[] = "not yet",
                      kTrustAway[] = "away";
struct HostTrust {
  std::string name;
  std::string state;
};
struct AuthorityInfo {
  CertificateOfAuthority signs;
  std::vector<CertificateOfAuthority> trusted_on{};  // those before, while they still count
  std::optional<int64_t> change_ends_unix_ms{};      // from when on they do not; nothing: no change
  std::vector<HostTrust> hosts{};                    // by name
};

// As JobApi; all answers wait for a disk. kFailedPrecondition: nobody signs here. `now`: by the
// clock of whoever asks; where that is far from ours nothing is changed.
class AuthorityApi {
 public:
  template <class T>
  using Reply = JobApi::Reply<T>;

  virtual ~AuthorityApi() = default;
  virtual void Get(Reply<AuthorityInfo> reply) = 0;
  // Another one signs from now on. kFailedPrecondition, too: a change is under way, or the
  // authority is kept elsewhere.
  virtual void Change(std::optional<absl::Time> now, Reply<AuthorityInfo> reply) = 0;
  // The one before counts no more. kFailedPrecondition, too: no change is under way; or, where it
  // is not forced, hosts that are here have no certificates yet.
  virtual void Finish(bool force, std::optional<absl::Time> now, Reply<AuthorityInfo> reply) = 0;
};

}  // namespace muster
