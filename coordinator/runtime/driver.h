// Runs the coordinator's state machine: one thread takes what comes (frames, requests, ticks,
// results of work on disk), each job in its turn, lets the machine decide, writes what it decided,
// and only then carries it out. What several inputs decided is written at once. While the journal
// cannot be written because its disk is full, readers see the last written state, each tick tries
// again, and to members and agents it is as if the coordinator were away: they go on, nothing of
// what they say is kept, and afterwards their sessions end, so that they come back and say it
// again. Any other failure of its disk ends the program: RocksDB takes no more writes after it.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/runtime/background.h"
#include "coordinator/runtime/checkpoint_times.h"
#include "coordinator/runtime/claim_watch.h"
#include "coordinator/runtime/event_log.h"
#include "coordinator/runtime/fair_mailbox.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/runtime/known_job.h"
#include "coordinator/runtime/log_marks.h"
#include "coordinator/runtime/log_places.h"
#include "coordinator/runtime/log_store.h"
#include "coordinator/runtime/member_sessions.h"
#include "coordinator/runtime/signer.h"
#include "coordinator/runtime/waiting_joins.h"
#include "coordinator/state/coordinator.h"
#include "lib/base/clock.h"
#include "lib/base/descriptors.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/metrics/metrics.h"
#include "lib/transport/transport.h"

namespace muster::coordinator {

struct DriverOptions {
  Settings settings;
  std::string checkpoint_root;  // absolute
  // By what metrics call them, the folders on disks of which the free space is told.
  std::map<std::string, std::string> disks;
  int connections = kMostSessions;  // that the port of members may have
  // Frames of one job's members that wait for the driver; sessions that bring more are broken.
  TurnLimits most_waiting_of_job{.items = 400'000, .bytes = int64_t{512} << 20};
  Duration tick = std::chrono::milliseconds(50);
  // What members print goes there; outlives the driver. Null: it is not kept.
  LogStore* logs = nullptr;
  // Of certificates for members; null: this coordinator has no authority, and signs nothing.
  Signer sign = nullptr;
  // HashOfTrust of what goes with these; null, or empty: likewise.
  std::function<std::string()> trust = nullptr;
  // Called when the program passes a point at which tests kill it: persisted_unpublished, forming,
  // before_commit.
  std::function<void(absl::string_view point)> pass = [](absl::string_view) {};
  // Asked before each commit and each deletion of checkpoints, and each `look_at_claim` on a thread
  // of its own; it may take long, and the driver's thread never asks. kAborted: another coordinator
  // has taken this one's place, which so does none of them any more, writes no journal and is
  // broken. Others: nobody knows now.
  std::function<absl::Status()> check_claim = [] { return absl::OkStatus(); };
  Duration look_at_claim = std::chrono::seconds(1);
  // Called once, on the driver's thread: the journal cannot be written any more unless it is opened
  // anew, or another coordinator has taken this one's place (kAborted).
  std::function<void(const absl::Status& why)> on_broken = [](const absl::Status&) {};
};

class Driver {
 public:
  // Decides, from what is known, which input a request becomes; nothing: none is needed.
  using Decide = std::function<absl::StatusOr<std::optional<Input>>(const KnownJobs&)>;
  // Called once, on the driver's thread or, when it ends without an answer or too many wait already
  // (kUnavailable), on another.
  using Done = std::function<void(absl::StatusOr<KnownJobs>)>;

  // `journal`, `clock` and `metrics` outlive the driver. Every thread that reads or decides asks
  // `clock`, and the events thread at least once a tick, so that it may tell whether we are awake.
  Driver(Journal& journal, RecoveredState recovered, const Clock& clock, Metrics& metrics,
         DriverOptions options);
  ~Driver();  // listeners that use MakeAcceptor are gone by then
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Ends the threads; what waits for an answer, and whoever asks from now on, gets kUnavailable.
  // Once, before listeners that wait for their requests are destroyed.
  void Stop();

  // All thread-safe; none blocks.
  Acceptor MakeAcceptor();
  // `done` gets what is known once the input's decisions are on disk. kUnavailable: the journal
  // cannot be written; who finds that out first is told so, and what it asks for is done later.
  void Change(Decide decide, Done done);
  // What the launcher of hosts says. False: the journal cannot be written now, and it is to say it
  // again.
  bool Tell(const LaunchTold& told);
  bool HasLauncher() const { return options_.settings.launches; }
  // What was known when it was last published: at each write, and four times a second. Nothing that
  // is decided waits for whoever reads it. kUnavailable: the driver was stopped.
  absl::StatusOr<KnownJobsPtr> Known() const;
  absl::StatusOr<KnownCluster> KnownWithHosts() const;
  // What options.trust says has changed: all agents are told. `fewer`: some whose sessions are open
  // may be nobody by now, so all sessions are made anew.
  void TrustChanged(bool fewer);
  // `found` tells, at once, whether there is such a job; then the events follow, until it is over.
  // Nothing that is decided waits for it, either. `check`: whether that job may be watched; null:
  // any may.
  void Watch(const std::string& job, std::optional<EventPlace> after,
             std::function<void(absl::Status)> found, std::shared_ptr<JobWatcher> watcher,
             const std::function<absl::Status(const KnownJob&)>& check = nullptr);
  // For queries that take long and change nothing: one runs at a time, behind nothing that a job
  // waits for. kUnavailable, and `call` is dropped: too many wait already, or the driver ends.
  absl::Status Ask(Background::Call call);
  // For what is to see the work on disk as done that was decided for that job: `look` runs on the
  // thread of its commits, and what it returns on the driver's, once what became of the work is
  // among what is known. Dropped where the driver ends.
  void AfterDiskWork(const std::string& job, std::function<std::function<void()>()> look);
  // For what may take hours: one runs at a time, behind nothing but its like, for which the caller
  // has a bound. False, and `call` is dropped: the driver ends.
  bool RunLong(Background::Call call) { return long_thread_.Run(std::move(call)); }
  // It changes nothing once another coordinator has taken this one's place. Thread-safe.
  Catalogue OurCatalogue() const;
  // OK once members that this start found in the journal had time to come back, and while the
  // journal can be written.
  absl::Status Ready() const;
  // OK unless only another start can help (`on_broken`).
  absl::Status Healthy() const;

 private:
  SessionHandler Accept(std::shared_ptr<Session> session);
  bool Post(const std::string& key, std::function<void()> call);
  absl::Status Request(std::function<void()> call);
  void Loop();
  void GiveEvents();
  void OnTick();
  std::shared_ptr<const std::map<MemberId, Time>> WhenMembersWereHeard() const;
  void Feed(Input input);
  void Handle(const Input& input);
  void TimeCheckpoint(const Input& input);
  void Sort(Action action);
  void NoteForWebhooks(const Announce& action);
  void AfterWrite(std::function<void()> call);
  void AfterPublishing(const std::function<void()>& call);
  void Flush();
  void OnWritten();
  void OnWriteFailed(const absl::Status& why);
  void TellFailure(const std::string& text);
  void TellEndsOfBefore();
  KnownJobs Look();
  void LookAt(const std::string& id);
  void LookAtWritten(const std::vector<Persisted>& changes);
  void Publish();
  void ForgetJob(const std::string& id);
  Background& CommitThread(const std::string& job);
  void DropIdleCommitThreads();

  void CarryOut(const ToMember& action);
  void CarryOut(const ToMembers& action);
  void CarryOut(const EndSession& action);
  void CarryOut(const ToHost& action);
  void CarryOut(const Sign& action);
  void CarryOut(const RefuseToSign& action);
  void CarryOut(const EndAgentSession& action);
  void CarryOut(const CommitManifest& action);
  void Commit(const ManifestFile& file, bool replaces);
  bool TakesNoWrite(const std::string& job, const absl::Status& failed);
  void OnReplaced(const absl::Status& why);
  void CarryOut(const PruneManifests& action);
  void CarryOut(const RemoveManifest& action);
  void CarryOut(const SaveMeasure& action);
  void CarryOut(const TrimSpool& action);
  void CarryOut(const TidySpool& action);
  void CarryOut(const ComputeDigest& action);
  std::unique_ptr<CheckpointFiles> FilesOf(const std::string& job) const;
  std::string SpoolOf(const std::string& job) const;
  void MakeCheckpointDir(const std::string& job);
  void CarryOut(const DeleteJob& action);
  void CarryOut(const Announce& action);
  void OnOtherVersion(SessionId id, bool asks, const absl::Status& why);
  void AnswerAsk(SessionId id, const AskJob& ask, const std::optional<ProcessName>& proven);
  // What stands against telling that process what its job is; nothing: nothing does.
  std::optional<Leave> WhyItLeaves(const ProcessName& process) const;
  void Keep(const AgentId& agent, const LogLines& lines);
  void OnAskedToSign(const AgentId& agent, const SignMember& ask);
  void TellTrust(const AgentId& agent);
  std::optional<JobIs> JobFor(const std::string& job) const;
  void Measure();
  void MeasureView();
  void MeasureJobs();
  void MeasureHosts();

  Journal& journal_;
  const Clock& clock_;
  Metrics& metrics_;
  const DriverOptions options_;

  FairMailbox<std::function<void()>> mailbox_;  // by job
  WaitingJoins waiting_joins_;                  // in the mailbox
  std::atomic<SessionId> next_session_{1};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> failing_{false};
  std::atomic<bool> broken_{false};  // failing for good
  std::atomic<bool> reattaching_{false};
  mutable Mutex known_mutex_;
  KnownCluster known_ ABSL_GUARDED_BY(known_mutex_);
  EventLog events_;

  // The driver's thread only, from here on.
  Coordinator coordinator_;
  const Time started_;
  MemberSessions sessions_;
  LogPlaces log_places_;
  LogMarks log_marks_;
  std::vector<Persisted> unsaved_;
  FailedCheckpoints failed_checkpoints_;           // that webhooks are told of
  std::deque<std::function<void()>> after_write_;  // of `unsaved_`
  struct Unanswered {
    Done answer;
    absl::Status decided;  // not OK: nothing was, and this is the answer
  };
  std::vector<Unanswered> unanswered_;  // until `unsaved_` is written, or cannot be
  // While the journal cannot be written: who went down, once each, and what became of work on disk.
  std::deque<Input> held_back_;
  absl::Status failure_;  // of the last write
  bool sealed_ = false;   // a Seal was sent since the last look
  // By id. A job may be large, and jobs may be many: only what has changed is looked at again.
  using Jobs = std::map<std::string, KnownJobPtr>;
  Jobs looked_at_;
  Jobs last_written_;  // what is published
  std::shared_ptr<const KnownHosts> hosts_ = std::make_shared<const KnownHosts>();
  std::shared_ptr<const Quotas> quotas_;  // what is published
  std::shared_ptr<const std::vector<Token>> tokens_ = std::make_shared<const std::vector<Token>>();
  std::shared_ptr<const HostRecords> host_records_ = std::make_shared<const HostRecords>();
  LaunchesPtr launches_;             // what is published; null: nobody has decided yet
  bool settled_ = false;             // at least once
  std::set<std::string> unwritten_;  // jobs in which these two may differ
  CheckpointTimes checkpoint_times_;
  std::map<std::string, double> counted_;  // what counters have been given so far, by metric
  struct Counted {
    int64_t recoveries = 0;
    int64_t rewinds = 0;
  };
  std::map<std::string, Counted> measured_jobs_;  // that have series; what these have been given

  // What jobs wait for, commits and final digests: a thread for each, so that no job waits for
  // another's disk. Made when it is needed; dropped when the job is over and all is done.
  std::map<std::string, std::unique_ptr<Background>> commit_threads_;
  Background query_thread_;
  Background long_thread_;
  std::thread events_thread_;  // gives watchers their events
  std::thread thread_;
  std::optional<ClaimWatch> claim_watch_;
};

}  // namespace muster::coordinator
