// The coordinator's state machine (docs/protocol.md sections 2 and 4 to 8): members, ranks, lanes,
// owners, views, lineage, the life of jobs, checkpoint rounds. It decides; coordinator/runtime
// persists and publishes, in the order of the actions: a Persist… must be on disk before a later
// action is carried out. Deterministic, single-threaded; time comes with each input.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/state/job_state.h"
#include "coordinator/state/plan.h"
#include "coordinator/state/recent_steps.h"
#include "lib/base/exit_codes.h"
#include "lib/base/lease.h"
#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

// ---- inputs

// The same id and law twice is one job; another `runtime` is taken while nobody has joined. The
// driver has validated the spec and answers the caller.
struct Submit {
  std::string id;
  JobSpec spec;
};
struct Cancel {
  std::string id;
};
struct Stop {  // after a checkpoint; the job can go on later
  std::string id;
};
struct MemberSays {
  MemberId member;
  ToCoordinator message;  // not AskJob: the driver answers it with JobOf
};
struct MemberDown {  // its session broke
  MemberId member;
};
struct AgentUp {
  std::string node;
};
struct AgentSays {
  FromAgent message;
};
struct ManifestCommitted {
  Manifest manifest;
};
struct ManifestFailed {
  std::string job;
  LineageNumber lineage;
  Step step;
  std::string reason;
};
struct DigestDone {
  std::string job;
  std::string digest;  // empty: it failed
  std::string reason;
};
struct Tick {};
using Input = std::variant<Submit, Cancel, Stop, MemberSays, MemberDown, AgentUp, AgentSays,
                           ManifestCommitted, ManifestFailed, DigestDone, Tick>;

// ---- actions, carried out in order

struct PersistJob {
  JobJournal job;
};
struct PersistRecords {
  std::string job;
  std::vector<StepRecord> records;
};
struct PersistFingerprint {
  std::string job;
  LineageNumber lineage;
  Step step;
  FingerprintPart value;
};
struct ToMember {
  MemberId member;
  FromCoordinator message;
};
struct ToAgents {
  Wanted wanted;
};
// Off the driver's thread; answered by ManifestCommitted or ManifestFailed.
struct CommitManifest {
  Manifest manifest;  // time and total are filled in by the driver
};
// Off the driver's thread, in order with commits: all but the newest `keep` go, and what aborted
// rounds left.
struct PruneManifests {
  Manifest newest;
  std::vector<Lineage> lineages;
  int32_t keep = 1;
};
struct ComputeDigest {
  std::string job;
  Manifest manifest;
};
struct Tell {  // an event for people and programs
  std::string job;
  std::string event;  // state, view, recovery, checkpoint, step, fingerprint, process, done
  std::string text;   // a human sentence; may be empty for "step"
  std::map<std::string, std::string> fields;
};
using Action = std::variant<PersistJob, PersistRecords, PersistFingerprint, ToMember, ToAgents,
                            CommitManifest, PruneManifests, ComputeDigest, Tell>;

struct CoordinatorBugs {
  bool publish_before_persist = false;
  PlanBugs plan;
};

struct Settings {
  Duration lease = kDefaultLease;
  Duration start_patience = std::chrono::seconds(10);  // for more than the least number of workers
  // For a member to get ready, and for the last checkpoint to come; besides, a second for each 10
  // MB of state.
  Duration forming_patience = std::chrono::seconds(120);
  Duration checkpoint_patience = std::chrono::seconds(60);
  Duration first_retry = std::chrono::seconds(1);  // of the last checkpoint; doubled up to …
  Duration longest_retry = std::chrono::seconds(60);
  int retries = 100;
  CoordinatorBugs bugs;
};

// What a restart finds: the journal's jobs, each with the records of its current lineage that are
// in the ledger (contiguous from the fork: the driver gives the step after the last), and its
// committed manifests.
struct RecoveredState {
  std::vector<JobJournal> jobs;
  std::map<std::string, Step> recorded;
  std::map<std::string, RecentSteps> recent;
  std::map<std::string, std::vector<Manifest>> manifests;
};

// For the status page.
struct MemberStatus {
  ViewMember member;
  bool up = false;
  std::string state;  // joined, forming, active, spare
  std::string phase;
  Step step;
  std::vector<LaneId> lanes;
};
struct JobStatus {
  JobJournal job;
  Step step;          // steps recorded
  int64_t steps = 0;  // in all; 0: not known yet
  double loss = 0;    // mean of the last record
  std::optional<std::pair<Step, FingerprintPart>> fingerprint;
  std::vector<MemberStatus> members;
  std::vector<std::pair<LineageNumber, Step>> checkpoints;
  std::string waits_for;  // the reason of the last decision
};

class Coordinator {
 public:
  Coordinator(std::string cluster, TermNumber term, Settings settings, RecoveredState found,
              Time now);
  std::vector<Action> Take(const Input& input, Time now);

  const std::map<std::string, JobJournal>& jobs() const { return jobs_; }
  JobStatus StatusOf(const std::string& id) const;  // of one of them
  std::vector<JobStatus> Status() const;
  // What a process that asks for its job is told; nothing: no such job, or it has ended.
  std::optional<JobIs> JobOf(const std::string& id) const;
  TermNumber term() const { return term_; }

 private:
  struct Live {
    ViewMember member;
    bool up = false;
    Time heard;
    ViewNumber sealed;  // as it said when it joined
    bool active = false;
    Step step;
    std::string phase;
    bool exited = false;  // the agent said so; the session may not have broken yet
  };
  struct Forming {
    ViewNumber number;
    Time since;
    std::string cause;
    std::vector<MemberId> members;
    std::map<MemberId, LocalState> answers;
    std::optional<Planned> planned;          // all answered
    std::map<MemberId, int64_t> holds_base;  // with the lanes it has run
    bool after_loss = false;
  };
  struct Round {  // of a checkpoint
    std::map<std::pair<int32_t, ChunkId>, bool> covered;
    std::vector<std::pair<MemberId, SegmentWritten>> segments;
    bool committing = false;
    bool failed = false;  // could not be committed: waits for LastCheckpoint::retry_at
  };
  struct LastCheckpoint {  // of the job, without which it does not end
    int failures = 0;
    std::optional<Time> retry_at;     // it failed: then it is tried again …
    bool rewrite = false;             // … and must be written again, not only committed
    std::optional<Time> waits_since;  // in this view; only it is still to come
  };
  void On(const Submit&);
  void On(const Cancel&);
  void On(const Stop&);
  void On(const MemberSays&);
  void On(const MemberDown&);
  void On(const AgentUp&);
  void On(const AgentSays&);
  void On(const ManifestCommitted&);
  void On(const ManifestFailed&);
  void On(const DigestDone&);
  void On(const Tick&);

  void From(const MemberId& member, const AskJob&);
  void From(const MemberId& member, const Join&);
  void From(const MemberId& member, const Sealed&);
  void From(const MemberId& member, const HoldsBase&);
  void From(const MemberId& member, const BaseFailed&);
  void From(const MemberId& member, const Records&);
  void From(const MemberId& member, const SegmentWritten&);
  void From(const MemberId& member, const SegmentFailed&);
  void From(const MemberId& member, const Alive&);
  void FromHost(const AgentHello&);
  void FromHost(const ProcessExited&);

  template <class A>
  void Do(A action) {
    out_->emplace_back(std::move(action));
  }
  JobJournal* job();
  const JobJournal* job() const;
  void Persist();
  void Say(std::string event, std::string text, std::map<std::string, std::string> fields = {});
  void SetPhase(JobPhase phase, std::string reason);
  void SayPhase(std::string text);

  void GoOnLater(JobJournal& job);
  void TakeRuntime(JobJournal& job, const RuntimeSpec& runtime);
  void StartNext();
  void Want();
  std::vector<ProcessWanted> ProcessesOf(const JobJournal& job) const;
  std::string EnvironmentDifferences(const Join& join) const;
  bool Admit(const Join& join);
  void Evict(const MemberId& member, const std::string& why, bool tell);
  void LoseExpired();
  void Reattach(const Join& join);
  void Consider();  // does membership ask for a new view?
  bool EveryoneIsBack();
  bool AllLive(const std::vector<MemberId>& members) const;
  Duration WithTimeForState(Duration patience) const;
  void EvictSlow();
  bool ViewStillFits() const;
  size_t CountLive(Role role) const;
  std::optional<std::string> WhyNotYet() const;
  void Form(const std::string& cause, bool after_loss);
  absl::StatusOr<const Layout*> LayoutNow();
  void PlanForming();
  PlanInput InputOfPlan(const Layout& layout) const;
  void Rewind(Planned& planned);
  void FinishForming();
  std::map<std::string, std::string> FieldsOf(const View& view) const;
  void SayView(const std::string& event, const View& view);
  void SayRecovery(const std::string& cause, const Planned& planned, int64_t again);
  void PublishView(const MemberId& member);
  std::optional<Manifest> CheckpointFor() const;
  Step End() const;
  int64_t TotalSteps() const;
  void GiveCommands();
  void OfferRound(const MemberId& member, const SegmentWritten& written);
  void TryCommit();
  bool Committing() const;
  void RetryLast();
  void FailWhenOverdue();
  void CheckpointFailed(const std::string& what);
  bool EverythingDone();
  void DropRound(Step step);
  Manifest ManifestOf(Step step, const Round& round, int32_t slots) const;
  void DropRounds(Step below);
  void TakeRecord(const MemberId& member, const StepRecord& record, std::vector<StepRecord>& fresh);
  void TakeCommands(const StepRecord& record);
  void TakeFingerprint(const MemberId& member, const StepRecord& record);
  void CheckFinished();
  void MarkEnded(JobJournal& job, JobPhase phase, const std::string& reason, int exit_code);
  void LeaveUnusedLineages();
  void EndJob(JobPhase phase, const std::string& reason, int exit_code);
  MemberStatus StatusOfMember(const MemberId& id, const Live& live) const;

  const std::string cluster_;
  const TermNumber term_;
  const Settings settings_;
  std::vector<Action>* out_ = nullptr;  // of the Take that runs
  Time now_{};

  std::map<std::string, JobJournal> jobs_;
  std::string current_;       // the job that has processes; empty: none
  Time started_{};            // of the current job, or of this coordinator
  bool reattaching_ = false;  // after a restart: members of the persisted view may still come
  int64_t next_sequence_ = 1;

  std::map<MemberId, Live> live_;  // of the current job
  std::set<Incarnation> evicted_;
  // By name: the agent told the end of a process whose session may still seem up.
  std::map<std::string, Time> ended_at_;
  std::optional<Forming> forming_;
  std::string waits_for_;
  std::string cause_;  // of the next view
  bool loss_ = false;  // the next view comes after a loss
  Time last_tick_{};

  Step recorded_;  // records below are in the ledger, on the current lineage
  RecentSteps recent_;
  // Of servers, until they are all there.
  std::map<Step, std::map<std::string, FingerprintPart>> parts_;
  bool told_not_finite_ = false;
  double loss_value_ = 0;

  std::map<Step, Round> rounds_;     // of the current lineage
  std::vector<Manifest> manifests_;  // committed ones of the current job, oldest first
  std::set<std::pair<LineageNumber, Step>> bad_manifests_;
  Time last_checkpoint_{};
  LastCheckpoint last_;
  std::optional<JobCommand> command_;  // outstanding
  std::optional<Layout> layout_;  // of the current job's numeric environment, once it was needed
  std::map<std::string, Step> found_recorded_;
  std::map<std::string, RecentSteps> found_recent_;
  std::map<std::string, std::vector<Manifest>> found_manifests_;
  bool digesting_ = false;
};

}  // namespace muster::coordinator
