// The coordinator's REST interface as the commands use it (docs/rest.md). Blocking;
// thread-safe: each call is an exchange of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/time.h"
#include "lib/domain/history.h"
#include "lib/domain/plugin_use.h"
#include "lib/http/message.h"
#include "lib/identity/tls_context.h"

namespace muster::cli {

struct MemberAnswer {
  std::string name;
  std::string role;
  int64_t rank = -1;
  std::string node;
  std::string host;  // empty: no agent started it
  std::string state;
  std::string phase;
  int64_t lanes = 0;
};

// Of a job with a stream.
struct StreamAnswer {
  int64_t samples = 0;      // that came
  int64_t end = -1;         // how many there are in all; -1: that is not known yet
  int64_t trimmed = 0;      // those below it are not kept any more
  int64_t spool_bytes = 0;  // of those that are
  std::string file;         // of a folder, the last that was begun; empty: none
};

struct CheckpointAnswer {
  int64_t lineage = 0;
  int64_t step = 0;
};

struct JobAnswer {
  std::string id;
  std::string name;
  std::string state;
  std::string reason;
  std::string waits_for;  // empty: nothing
  bool deleting = false;
  int64_t first_start = 0;  // which job of that id it is; 0: it never started
  int64_t step = 0;
  int64_t steps = 0;
  int64_t epoch = 0;
  int64_t epochs = 0;
  int64_t samples = 0;
  double loss = 0;  // not a number before the first step
  // Each metric that it measures, as it was last; without a value: not yet, or it is not finite.
  std::vector<MetricValue> validation{};
  int64_t validation_step = -1;  // of whose first state that is
  std::string digest;
  std::string sample;  // text that the trained model made; empty: none
  int64_t digest_step = -1;
  double seconds_left = -1;  // negative: not known
  int64_t exit_code = 1;     // of a program that waited for its end; set once it is over
  std::string fingerprint;
  int64_t fingerprint_step = -1;
  int64_t workers = 0;
  int64_t view = 0;
  int64_t lineage = 0;
  int64_t views = 0;
  int64_t recoveries = 0;
  int64_t rewinds = 0;
  int64_t lanes_recomputed = 0;
  double seconds = 0;
  int64_t checkpoint_step = -1;         // of the newest; -1: none
  int64_t checkpoints = 0;              // how many there are
  std::vector<CheckpointAnswer> saved;  // these, oldest first
  std::vector<MemberAnswer> members;
  int64_t most_workers = 0;  // that the job asks for; their names are worker-0, worker-1, …
  int64_t servers = 0;
  bool has_follower = false;  // follower-0
  bool has_reader = false;    // reader-0
  std::optional<StreamAnswer> stream{};
  std::string spec;    // as JSON
  std::string parent;  // of a fork, for people: what it began with; empty: it is none
  std::string json;    // as it came
};

// done, stopped, failed, cancelled: nothing more happens by itself.
bool IsOver(const JobAnswer& job);

// For people: the digest, or why a job that is done has none; empty before.
std::string DigestOf(const JobAnswer& job);

// How far the adoption of a job is.
struct AdoptionAnswer {
  std::string adoption;  // its name
  std::string job;       // empty: not known yet
  std::string state;     // waiting, copying, done, failed
  double bytes = 0;      // copied
  double of_bytes = 0;   // 0: not known yet
  double bytes_per_second = 0;
  double seconds_left = -1;              // negative: not known
  int64_t step = -1;                     // of the checkpoint, once it is done
  std::vector<std::string> passed_over;  // newer checkpoints that could not be used, and why
  absl::Status error;                    // once it has failed
};

// One page: as many as the coordinator gives at once.
struct JobList {
  std::vector<JobAnswer> jobs;  // in order of submission
  std::string next_page_token;  // for those that follow; empty: there are none
};

struct NamespaceAnswer {
  std::string name;
  int64_t slots = -1;    // that its running jobs may hold; -1: without a bound
  int64_t queued = -1;   // jobs that may wait; -1: without a bound
  int64_t priority = 0;  // the highest that its submitters may give
  int64_t slots_held = 0;
  int64_t jobs_running = 0;
  int64_t jobs_queued = 0;
  std::string json;  // as it came
};

struct TokenAnswer {
  std::string id;
  std::string user;
  std::string role;
  std::string name_space;
  std::string made;     // as of EventAnswer::time
  std::string expires;  // the same; empty: never
  std::string token;    // of one that was made just now
  std::string json;
};

struct CertificateAnswer {
  std::string certificate_pem;
  std::string authority_pem;
  std::string now;  // as of EventAnswer::time, by the coordinator's clock
};

struct AuthorityCertificateAnswer {
  std::string sha256;
  std::string begins, ends;  // as of EventAnswer::time
};
struct HostTrustAnswer {
  std::string name;
  std::string state;  // renewed, not yet, away
};
struct AuthorityAnswer {
  AuthorityCertificateAnswer signs;
  std::vector<AuthorityCertificateAnswer> trusted_on;
  std::string change_ends;  // empty: no change is under way
  std::vector<HostTrustAnswer> hosts;
  std::string json;
};

struct HostTokenAnswer {
  std::string host;
  std::string token;  // empty: it has none
  std::string json;
};

struct StepFingerprint {
  int64_t step = 0;
  std::string value;
  bool operator==(const StepFingerprint&) const = default;
};

// One page: as many as the coordinator gives at once.
struct FingerprintPage {
  std::vector<StepFingerprint> fingerprints;  // by step
  int64_t next = -1;                          // from where those follow; -1: there are none
};

struct EventAnswer {
  std::string id;  // for following on from it
  // One of "state", "view", "recovery", "verdict", "checkpoint", "step", "fingerprint", "process",
  // "done".
  std::string name;
  std::string text;   // a sentence for people; may be empty
  int64_t step = -1;  // where the event has one
  int64_t epoch = 0;  // of a step, as the four below
  int64_t samples = 0;
  double loss = 0;  // not a number: it has none
  std::optional<double> gradient_norm;
  std::optional<double> validation_loss;  // where that was measured
  std::optional<bool> saves;  // false: no checkpoint is made for now; true: they are made (again)
  std::string time;           // "2026-11-21T10:11:20.096Z"
  std::string value;          // of a fingerprint
  std::string json;
};

// The last lines of a process' log, with which a job fails.
bool IsLog(const EventAnswer& event);
// A sentence that people are told as it comes. How and why a job ended is told with the job.
bool IsSaidAtOnce(const EventAnswer& event);

struct DigestAnswer {
  int64_t lineage = 0;
  int64_t step = 0;  // the state before it
  std::string digest;
  std::string json;
};

// A committed checkpoint of a job.
struct SavedCheckpointAnswer {
  std::string checkpoint;  // its name in requests
  int64_t lineage = 0;
  int64_t step = 0;
  int64_t epoch = -1;  // -1: not known
  int64_t bytes = 0;
  std::string time;  // as of EventAnswer::time
  bool complete = false;
  std::string why;  // it is not complete
  bool finite = false;
  std::string name;             // that it is kept by; empty: none
  std::string measure;          // as "validation.loss"; empty: it was not measured
  std::optional<double> value;  // of that
  bool best = false;
  bool left_out = false;  // nothing goes on from it
  bool deleting = false;
};

struct FilePartAnswer {
  std::string bytes;
  int64_t of = 0;  // so large is the file
};

struct LineageAnswer {
  int64_t number = 0;
  int64_t parent = 0;  // 0: none
  int64_t fork = 0;
  std::string cause;
};

struct AuditAnswer {
  bool ok = false;
  std::string conclusion;
  int64_t steps = 0;
  int64_t samples = 0;
  int64_t lanes = 0;
  std::vector<LineageAnswer> lineages;
  std::string json;
};

struct LedgerLaneAnswer {
  int64_t lane = 0;
  std::string worker;
  int64_t count = 0;             // of samples
  bool names_samples = false;    // false: they were too many for one answer
  std::vector<int64_t> samples;  // their ids
};

struct LedgerStepAnswer {
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t lineage = 0;
  int64_t view = 0;
  double loss = 0;                // not a number: it has none
  bool skipped = false;           // it was not finite, and nothing of it was applied
  std::vector<int64_t> left_out;  // ids of those that could not be read
  std::vector<LedgerLaneAnswer> lanes;
  std::string json;
};

struct LedgerPage {
  std::vector<LedgerStepAnswer> steps;
  int64_t next = -1;               // from where those follow; -1: there are none
  std::string data_left_out;       // what of the data could not be read; empty: nothing
  std::string parent;              // as JobAnswer's
  std::vector<PluginUse> plugins;  // which file computed
};

struct HistoryPageAnswer {
  std::vector<HistoryStep> steps;
  int64_t next = -1;               // from where those follow; -1: there are none
  std::vector<PluginUse> plugins;  // which file computed
};

struct HostMemberAnswer {
  std::string job;
  std::string member;
  std::string state;
};

struct HostAnswer {
  std::string name;
  std::string node;
  int64_t slots = 0;
  int64_t used = 0;
  int64_t devices = 0;
  int64_t devices_used = 0;
  bool up = false;
  double away_for_seconds = 0;  // where it is not up
  bool draining = false;
  std::string left_out{};    // why, for all jobs; empty: it is not
  std::string name_space{};  // jobs of which it takes; empty: nobody has said
  std::vector<HostMemberAnswer> members;
  std::string json;
};

// One page: as many as the coordinator gives at once.
struct HostList {
  std::vector<HostAnswer> hosts;       // by name
  std::string next_page_token;         // for those that follow; empty: there are none
  std::vector<std::string> revoked{};  // on the first page: that were taken out of the cluster
  // Of Kubernetes, in which the coordinator makes pods for each job; empty: hosts come by
  // themselves.
  std::string launch_namespace{};
  std::string launch_trouble{};  // what keeps it from that; empty: nothing does
};

absl::StatusOr<HostList> ParseHostList(const std::string& json);
absl::StatusOr<HostAnswer> ParseHost(const std::string& json);
absl::StatusOr<JobList> ParseJobList(const std::string& json);
absl::StatusOr<AdoptionAnswer> ParseAdoption(const std::string& json);
struct LogPageAnswer {
  std::vector<std::pair<std::string, std::string>> lines;  // member and line
  std::string next;
  bool over = false;  // the job is over, and all was given
};

absl::StatusOr<LogPageAnswer> ParseLogPage(const std::string& json);
absl::StatusOr<JobAnswer> ParseJobAnswer(const std::string& json);
absl::StatusOr<EventAnswer> ParseEventAnswer(const std::string& name, const std::string& json);
absl::StatusOr<FingerprintPage> ParseFingerprints(const std::string& json);
absl::StatusOr<DigestAnswer> ParseDigest(const std::string& json);
absl::StatusOr<AuditAnswer> ParseAudit(const std::string& json);
struct SavedCheckpointPage {
  std::vector<SavedCheckpointAnswer> checkpoints;
  std::string next_page_token;  // empty: this is the last page
};

absl::StatusOr<SavedCheckpointPage> ParseSavedCheckpoints(const std::string& json);
absl::StatusOr<HistoryPageAnswer> ParseHistory(const std::string& json);
absl::StatusOr<LedgerPage> ParseLedger(const std::string& json);

// The error is one that a coordinator gives which is slow or being started again: ask again.
bool IsPassing(const absl::Status& error);

// How requests are answered where no coordinator listens: the response to a method, a target
// ("/v1/jobs/a/audit") and a body.
using Exchange = std::function<absl::StatusOr<http::Response>(
    const std::string& method, const std::string& target, const std::string& body)>;

// Asked before each request. An error: there is none, and the request ends with that.
using TokenSource = std::function<absl::StatusOr<std::string>()>;

// Errors are those of the server (their message names the field) or of lib/http/client.h.
class RestClient {
 public:
  // `token` tells it who asks; empty: it does not ask. `trust`: who it must be, at https://.
  explicit RestClient(std::string url, std::string token = "", Trust trust = {})
      : RestClient(
            std::move(url), [token = std::move(token)] { return token; }, std::move(trust)) {}
  RestClient(std::string url, TokenSource token, Trust trust)
      : url_(std::move(url)), token_(std::move(token)), trust_(std::move(trust)) {}
  // Without a coordinator; there are no events then.
  explicit RestClient(Exchange exchange) : exchange_(std::move(exchange)) {}

  // `accept`: what of a job that goes on may be another than it was ("plugin").
  absl::StatusOr<JobAnswer> Submit(const std::string& id, const std::string& spec_json,
                                   const std::vector<std::string>& accept = {}) const;
  // The job of the newest whole checkpoint in a folder, an absolute path on the coordinator's
  // machine, which copies it meanwhile; `id` empty: as it was called.
  absl::StatusOr<AdoptionAnswer> Adopt(const std::string& folder, const std::string& id,
                                       const std::vector<std::string>& accept = {}) const;
  absl::StatusOr<AdoptionAnswer> Adoption(const std::string& adoption) const;
  // One page of the jobs in that state and namespace (empty: in any) with these labels
  // ("key=value,key=value").
  absl::StatusOr<JobList> List(const std::string& state, const std::string& page_token,
                               const std::string& name_space = "",
                               const std::string& labels = "") const;
  absl::StatusOr<JobAnswer> Job(const std::string& id) const;
  // After a checkpoint. The job as it is now; one that was over before stays as it was.
  absl::StatusOr<JobAnswer> Stop(const std::string& id) const;
  // The job that is being deleted.
  absl::StatusOr<JobAnswer> Delete(const std::string& id) const;
  // The job as it is now; one that was over before stays as it was.
  absl::StatusOr<JobAnswer> Cancel(const std::string& id) const;
  // The job, which is to have so many workers from now on.
  absl::StatusOr<JobAnswer> Scale(const std::string& id, int64_t workers_min,
                                  int64_t workers_max) const;
  // The job, of which the queue and people know this from now on: fields as in its specification.
  absl::StatusOr<JobAnswer> SetQueue(const std::string& id, const std::string& change_json) const;
  absl::StatusOr<std::vector<NamespaceAnswer>> Namespaces() const;
  absl::StatusOr<NamespaceAnswer> Namespace(const std::string& name) const;
  // -1: slots, or jobs, without a bound.
  absl::StatusOr<NamespaceAnswer> SetQuota(const std::string& name, int64_t slots, int64_t queued,
                                           int64_t priority) const;
  absl::StatusOr<HostList> Hosts(const std::string& page_token) const;
  absl::StatusOr<HostAnswer> Host(const std::string& name) const;
  // The host as it is now; its members leave later. `on` false: it takes members again.
  absl::StatusOr<HostAnswer> Drain(const std::string& name, bool on) const;
  // `expires_in`: seconds; nothing: it does not expire.
  absl::StatusOr<TokenAnswer> MakeToken(const std::string& user, const std::string& role,
                                        const std::string& name_space,
                                        std::optional<int64_t> expires_in = std::nullopt) const;
  absl::StatusOr<std::vector<TokenAnswer>> Tokens() const;
  // What it was.
  absl::StatusOr<TokenAnswer> RevokeToken(const std::string& id) const;
  absl::StatusOr<HostTokenAnswer> AdmitHost(const std::string& host, const std::string& name_space,
                                            bool certified) const;
  absl::StatusOr<HostTokenAnswer> RevokeHost(const std::string& host) const;
  // For that public half of a key, of whoever has the token.
  absl::StatusOr<CertificateAnswer> SignUser(const std::string& public_key) const;
  absl::StatusOr<AuthorityAnswer> Authority() const;
  absl::StatusOr<AuthorityAnswer> ChangeAuthority() const;
  absl::StatusOr<AuthorityAnswer> FinishAuthority(bool force) const;
  // The same, asked by whoever has that token.
  RestClient As(std::string token) const {
    RestClient other = *this;
    other.token_ = [token = std::move(token)] { return token; };
    return other;
  }
  // Of the step `from` and later ones.
  absl::StatusOr<FingerprintPage> Fingerprints(const std::string& id, int64_t from) const;
  absl::StatusOr<DigestAnswer> Digest(const std::string& id) const;
  // All pages, by lineage and step.
  absl::StatusOr<std::vector<SavedCheckpointAnswer>> Checkpoints(const std::string& id) const;
  // `name` empty: it is kept by none any more.
  absl::StatusOr<SavedCheckpointAnswer> KeepCheckpoint(const std::string& id,
                                                       const std::string& checkpoint,
                                                       const std::string& name) const;
  // As it was: it is gone. `force`: also one with a name, or the newest of a job that has ended.
  absl::StatusOr<SavedCheckpointAnswer> DeleteCheckpoint(const std::string& id,
                                                         const std::string& checkpoint,
                                                         bool force) const;
  // At most so many bytes of a file of a checkpoint, LINEAGE-AND-STEP/FILE.
  absl::StatusOr<FilePartAnswer> ReadCheckpoint(const std::string& id, const std::string& file,
                                                int64_t offset, int64_t bytes) const;
  absl::StatusOr<AuditAnswer> Audit(const std::string& id) const;
  // One page, of the step `from` and later ones. `lineage` is that of the step before, as the
  // caller has it (0: it has none): where a rewind has left out some of its steps since, the page
  // begins with the first of them.
  absl::StatusOr<HistoryPageAnswer> History(const std::string& id, int64_t from,
                                            int64_t lineage) const;
  // Steps from `from` on, at most `limit` (0: as many as the coordinator gives at once); with
  // `sample` only those that used it.
  absl::StatusOr<LedgerPage> Ledger(const std::string& id, int64_t from,
                                    std::optional<int64_t> sample, int64_t limit) const;

  // The newest lines that the coordinator keeps of that member; of all (empty) each after "NAME: ".
  // `tail`: at most so many of each; 0: as many as it gives.
  absl::StatusOr<std::string> Logs(const std::string& id, const std::string& member,
                                   int64_t tail = 0) const;
  // What comes after `after` (empty: from the beginning, or, with `tail`, from the last so many
  // lines of each); it waits for some seconds until there is something.
  absl::StatusOr<LogPageAnswer> FollowLogs(const std::string& id, const std::string& member,
                                           int64_t tail, const std::string& after) const;

  // Events after `last_id` (empty: all) until `on_event` returns false (OK) or the stream ends
  // (kUnavailable).
  absl::Status Follow(const std::string& id, const std::string& last_id,
                      const std::function<bool(const EventAnswer&)>& on_event) const;

 private:
  absl::StatusOr<std::string> Get(const std::string& path) const;
  absl::StatusOr<std::string> Post(const std::string& path, const std::string& body) const;
  absl::StatusOr<std::string> Send(const std::string& method, const std::string& path,
                                   const std::string& body) const;
  // Of any status. `timeout`: of the whole exchange.
  absl::StatusOr<http::Response> Ask(const std::string& method, const std::string& path,
                                     const std::string& body, Duration timeout) const;

  std::string url_;
  Exchange exchange_;  // in place of `url_`, where it is there
  TokenSource token_;
  Trust trust_;
};

}  // namespace muster::cli
