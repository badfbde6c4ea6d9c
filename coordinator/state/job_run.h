// One started job: its members, views, steps and checkpoints (docs/protocol.md sections 2 to 8).
// Lives from when the queue starts the job, or from a restart of the coordinator, until the job has
// ended; made and dropped whole. It knows nothing of other jobs.
//
//   checking ──▶ starting ──▶ running ⇄ recovering ──▶ done
//                                │
//                                └──▶ stopping ──▶ stopped     from anywhere: failed, cancelled
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/state/actions.h"
#include "coordinator/state/checkpoint_rounds.h"
#include "coordinator/state/membership.h"
#include "coordinator/state/placement.h"
#include "coordinator/state/reach.h"
#include "coordinator/state/reattachment.h"
#include "coordinator/state/record_check.h"
#include "coordinator/state/refusals.h"
#include "coordinator/state/settings.h"
#include "coordinator/state/step_ledger.h"
#include "coordinator/state/stored_job.h"
#include "coordinator/state/view_change.h"
#include "lib/base/allowance.h"
#include "lib/base/exit_codes.h"

namespace muster::coordinator {

using Placements = std::map<std::string, Placement>;  // by member's name

struct StartRun {  // the first input, of a job that comes from the queue
  StartNumber start;
  Placements placements;
};
struct Place {  // members that waited for room, and new ones: the job grows
  Placements placements;
};
struct Leavers {  // all workers that are to leave while they live; whoever else was, stays
  std::map<std::string, LeaveCause> causes;
};
struct GiveWay {  // it is stopped with a checkpoint, and goes on when there is room for it
  std::string why;
  bool is_urgent = false;  // a job waits for its place: without that checkpoint after a while
};
struct HostLost {
  std::string host;
  Incarnation agent{};  // that speaks for it now, and knows nothing of earlier places
  std::string why{};    // a person took it away, and its members may still live; empty: nobody did
};
struct ExitTold {
  ProcessExited exited;
  bool may_move = false;  // without that host there are still enough
};
// Its host lacks what the task needs of a plug-in: nothing else speaks against that host, nor
// against the job.
inline bool LacksPlugin(const ProcessExited& exited) {
  return exited.signal == 0 && exited.exit_code == kExitNoPlugin;
}
struct LaunchFailed {  // the hosts that were made for it are given up
  std::string reason;
  int exit_code = 1;
};
using JobInput = std::variant<StartRun, Place, Leavers, GiveWay, HostLost, LaunchFailed, MemberSays,
                              MemberDown, ExitTold, SignatureAsked, Cancel, Stop, Scale, SetQueue,
                              ManifestCommitted, ManifestFailed, DigestDone, SpoolTidied, Tick>;

// Why the next view is to be formed, and what that still waits for. Not within the class: clang
// cannot make one of its default values there before the class is complete.
struct NextView {
  std::string cause{};
  bool after_loss = false;
  std::string waits_for{};
};

// A state that is to be measured, while its checkpoint does not come as it should. Not within the
// class, as above.
struct ToBeSaved {
  LineageNumber lineage;
  Step step;
  LastCheckpoint commits;  // those that failed
  // Since when its parts do not come, though nothing else is waited for.
  std::optional<Time> lacks_parts_since{};
};

// Who was asked what a state of this lineage measures. Not within the class, as above.
struct AskedMeasure {
  MemberId member;
  LineageNumber lineage;
  Step step;
  bool operator==(const AskedMeasure&) const = default;
};

// For people.
inline constexpr char kWaitsForMembers[] = "waits for its members";
// Why a reader leaves.
inline constexpr char kAllIsSpooled[] = "all samples that the job uses are in its spool";

class JobRun {
 public:
  JobRun(Leadership leadership, StoredJob job, Time now);
  std::vector<Action> Handle(const JobInput& input, Time now);

  bool ended() const { return Ended(journal_.phase); }
  // Why it goes back into the queue by itself, now that it has ended, for people; empty: it does
  // not.
  const std::string& goes_back() const { return goes_back_; }
  StoredJob PutToRest() &&;  // once it has ended, or is put back into the queue

  const JobJournal& journal() const { return journal_; }
  // That may have its state: those that are in no view train nothing. After a restart those that it
  // had may still come back.
  bool HasMembers() const;
  // All that have a session are told to leave, and to come again later.
  std::vector<Action> LetGo(const std::string& why);
  bool Has(const MemberId& member) const { return membership_.IsLive(member); }
  PlacedJob Places() const;
  // What is to run on each host; not named: nothing.
  std::map<std::string, JobProcesses> ProcessesByHost() const;
  // Members are placed there that another agent than this one was told of.
  bool HasPlaces(const std::string& host, Incarnation agent) const;
  // One that was placed there by none of these agents lives, as far as is known, or may still come
  // back.
  bool MayLiveOn(const std::string& host, const std::set<Incarnation>& agents) const;
  // Where the members of its active view are; nothing: it has none, or another one is to be formed.
  std::optional<std::set<std::string>> HostsOfView() const;
  JobStatus Status() const;
  // It has given up places of members since it was last asked.
  bool GivesUpPlaces() { return std::exchange(gives_up_places_, false); }

 private:
  void On(const StartRun&);
  void On(const Place&);
  void On(const Leavers&);
  void On(const GiveWay&);
  void On(const Scale&);
  void On(const SetQueue&);
  void On(const HostLost&);
  void On(const LaunchFailed&);
  void On(const MemberSays&);
  void On(const MemberDown&);
  void On(const ExitTold&);
  void On(const SignatureAsked&);
  bool EndsWith(const ExitTold& told);
  bool EndsUnmeasuredWith(const ProcessExited& exited);
  void FailWith(const ProcessExited& exited);
  void LeaveOut(const ProcessExited& exited);
  std::string WhereItIsMissing(const ProcessExited& exited) const;
  void GiveAnotherPlace(const ProcessExited& exited);
  void On(const Cancel&);
  void On(const Stop&);
  void On(const ManifestCommitted&);
  void On(const ManifestFailed&);
  void On(const DigestDone&);
  void On(const SpoolTidied&);
  void On(const Tick& tick);

  void From(const MemberId& member, const AskJob&);
  void From(const MemberId&, const Join&) {}  // OnJoin
  void From(const MemberId& member, const Sealed&);
  void From(const MemberId& member, const HoldsBase&);
  void From(const MemberId& member, const BaseFailed&);
  void From(const MemberId& member, const Records&);
  void From(const MemberId& member, const SegmentWritten&);
  void From(const MemberId& member, const SegmentFailed&);
  void From(const MemberId& member, const Alive&);
  void From(const MemberId& member, const LanesNotFinite&);
  void From(const MemberId& member, const Measured&);
  void From(const MemberId& member, const MeasureFailed&);
  void From(const MemberId& member, const Spooled&);

  template <class A>
  void Do(A action) {
    actions_.emplace_back(std::move(action));
  }
  void DoAll(std::vector<Action> actions);
  void Persist();
  void Say(std::string event, std::string text, std::map<std::string, std::string> fields = {});
  void SetPhase(JobPhase phase, std::string reason);
  void SayPhase(std::string text);
  void End(JobPhase phase, const std::string& reason, int exit_code);
  void Dismiss(const std::string& reason, int exit_code);
  std::string WhyItGoesBack(JobPhase phase, const std::string& reason, int exit_code);
  void LeaveUnusedLineages();
  // A view of this start was formed; else there is none, or one of an earlier start.
  bool HasBegun() const { return journal_.view && !journal_.resumes; }

  // Who may join, and who has to leave (job_members.cc).
  bool HasOtherWorker(const Join& join, bool with_session) const;
  bool KnowsEnvironment(const Join& server) const;
  std::string EnvironmentDifferences(const Join& join) const;
  std::string HowToAccept(const Join& join) const;
  std::string WhyJournalIsOlder(const Join& join) const;  // empty: it is not
  bool IsOlderThan(const Join& join);
  bool IsReplaced(const Join& join) const;
  static std::string WhyNotUnderstoodBy(const LiveMember& other, const Join& join);
  std::string WhyNotUnderstoodByOthers(const Join& join) const;
  std::vector<MemberId> WhoGivesWayTo(const Join& join) const;
  bool IsInView(const MemberId& id) const;
  bool Admit(const Join& join, bool is_proven);
  void OnJoin(const MemberId& member, const Join& join, bool is_proven);
  void SayRefused(const Join& join, const std::string& kind, const std::string& text);
  void LearnEnvironment(const Join& worker);
  void SayWarmup(uint64_t samples);
  void Reattach(const Join& join);
  // Its agent starts it again, unless `exit_code` says otherwise.
  void Evict(const MemberId& member, const std::string& why, int exit_code = kExitFailed);
  void EvictEnded();
  void HeldUp(Duration time);
  void EvictLost();
  std::set<MemberId> LastCopies(const std::set<MemberId>& lost) const;
  bool ViewGivesState(const MemberId& member) const;
  std::optional<Role> RoleOfName(const std::string& name) const;  // none: it is not the job's
  PlacementNumber PlacementNumberOf(const std::string& name) const;
  std::vector<MemberStatus> StatusOfMembers() const;

  // Those that leave while they live (job_leaving.cc).
  bool IsLeaving(const std::string& name) const;
  std::set<std::string> LeavingUnderOtherNames() const;
  bool IsEmptySlot(const std::string& name, const Placement& placement) const;
  std::vector<std::string> WorkersInLeavingOrder() const;
  void LetLeaversGo();
  std::vector<MemberId> WhoMayGo() const;
  bool OthersHoldState() const;
  bool LeaverHasPart() const;
  bool StayerIsIdle() const;
  void EndIfNobodyIsLeftToStop();
  std::string WhoLacksRoom() const;
  void NoteRoom();
  void CountTime();
  void KeepTime();
  std::string WhyItIsLate() const;
  void StopWhenLate();
  void EndIfStopTakesTooLong();
  void NoteFirstStep(const MemberId& member, const StepRecord& record);

  // Views (job_views.cc).
  void Consider();  // does membership ask for a new view?
  bool Reattaches();
  void EndReattachment();
  NextView& Next();
  Duration WithTimeForState(Duration patience) const;
  void EvictSlow();
  bool ViewStillFits() const;
  std::optional<std::string> WhyNotYet() const;
  std::optional<std::string> WhoHasNotJoined() const;
  std::vector<MemberId> MembersOfNextView() const;
  void Form(const std::string& cause, bool after_loss);
  absl::StatusOr<const Layout*> LayoutNow();
  void Plan();
  std::string WhyNoFork(const PlanInput& input) const;
  PlanInput InputOfPlan(const Layout& layout) const;
  void Rewind(Planned& planned, std::optional<Step> lost_measure);
  void Activate();
  std::string TakeAccepted(const View& view);
  void SayView(const std::string& event, const View& view);
  void SayRecovery(const std::string& cause, const Planned& planned, int64_t again);
  View ViewOfThisTerm() const;

  // What a follower measures, and the last state (job_measures.cc).
  bool HasFollower() const;
  const MeasureSums* FactOf(Step measured) const;
  const MeasureSums* FactBroughtBy(const StepRecord& record) const;
  std::optional<Step> LacksMeasure(Step state) const;
  bool IsToBeMeasured(Step state) const;
  const Manifest* CommittedAt(Step state) const;
  const Manifest* ToMeasure() const;
  std::optional<MemberId> WhoMeasures() const;
  void AskToMeasure(bool again);
  bool MayTellMeasures(const MemberId& member) const;
  void TakeMeasure(const MeasureFact& fact);
  void GiveMeasures();
  KeepRule KeepNow() const;
  void PruneCheckpoints();
  std::optional<Step> WhichIsLost(const PlanInput& input, Step base) const;
  bool IsLost(const PlanInput& input, Step measured) const;
  bool KnowsWhoOwesParts() const { return !HasFollower() || promised_; }
  bool OwesPart(const MemberId& member) const;
  std::optional<MemberId> Follower() const { return membership_.OnlyOf(Role::kFollower); }
  std::optional<Step> WaitsForMeasureOf() const;
  std::string WaitsForMeasure() const;
  ToBeSaved& SavingOf(Step measured);
  bool IsSaving(Step measured) const;
  void MeasuredCommitFailed(const ManifestFailed& failed);
  void RetryMeasured();
  bool MeasuredPartFailed(const MemberId& member, const SegmentFailed& failed);
  bool MeasuresItsEnd() const;
  bool AwaitsLastMeasure() const;
  void EndUnmeasured(const std::string& why);
  void EndIfNobodyMeasures();

  // A stream and its reader (job_stream.cc).
  bool HasStream() const;
  StreamSteps StepsOfStream() const;
  uint64_t SampleCount() const;  // of the job's data, as far as it is known: n
  uint64_t PositionOf(Step step) const;
  bool NeedsReader() const;
  std::optional<MemberId> Reader() const { return membership_.OnlyOf(Role::kReader); }
  bool IsEmptyStream() const;
  void EndEmptyStream();
  void SayStreamEnd(uint64_t end);
  void LetReaderGo();
  void NoteReader(const MemberId& reader, const std::string& lacks);
  SpoolFrom SpoolFromNow() const;
  void OnReader();
  void BeginReader();
  void TellReaderWhence(const MemberId& reader);
  void AnswerReader(const MemberId& reader);
  void TellReaderOfRoom();
  void TellStream(const MemberId& member);
  void TellMembersOfStream(std::vector<SpoolSegment> news);
  bool StopsForWantOfData() const;
  bool StandsForWantOfData() const;
  bool LacksSamples() const;
  void EndWithoutSegments();
  void StopHere();
  bool StopsWhereItBegan(Step end) const;
  std::string WaitsForStream() const;
  std::optional<Step> OldestToGoBackTo() const;
  void TrimStream();
  bool IsTrimmed(Step state) const;
  std::string WhyNotResumed() const;

  // Who cannot reach whom (job_reach.cc).
  const View* ViewToJudge() const;
  void JudgeReach();
  bool KeepApart(const std::vector<ViewMember>& members, const Verdict& verdict);
  // For people: the host of the member, or the node where no agent started it.
  std::string WhereIs(const ViewMember& member) const;
  void LeaveOutOfReach(const std::vector<ViewMember>& members,
                       const std::vector<std::string>& places, const Verdict& verdict, bool parts);
  NodePairs KeptApart() const;
  const LiveMember* OutOfReachOf(const Join& join) const;

  // Steps, checkpoints, commands, the end (job_steps.cc).
  Step EndStep() const;
  int64_t TotalSteps() const;
  std::vector<StepRecord> Taken(const MemberId& member, const Records& told, LineageNumber current);
  void SayUntaken(const MemberId& member, const RecordFault& fault);
  void NoteCommands(const StepRecord& record);
  void NoteNotFinite(const StepRecord& record);
  void NoteMeasures(const StepRecord& record);
  void SayMeasured(Step state, const std::vector<Measure>& measures);
  void SaveMeasures();
  int64_t StepsOfEpochs(int64_t epochs) const;  // of a job whose environment is known
  void NoteLeftOut(const StepRecord& record);
  std::string WhyEnough() const;  // for people
  std::string SamplesOf(Step step, LaneId lane) const;
  std::string WhyNotFinite(Step end) const;  // empty: the last step is
  std::string NewestFinite() const;          // for people: the newest finite checkpoint
  std::string StateNotFinite() const;        // empty: the newest checkpoint is finite, or none
  void GiveCommands();
  void CheckpointByTime();
  void Acknowledge(const std::vector<SegmentToAcknowledge>& segments);
  void TryCommit();
  void RetryLast();
  void LastFailed(bool write_again, const std::string& what);
  bool StopsWithoutLast() const;
  void EndWithoutLast();
  bool OnlyTheLastCheckpointIsMissing() const;
  bool SavesItsEnd() const;
  void EndWhenDone();
  bool AwaitsLanesOfLastStep() const;
  void Finish();
  void CannotReadBack(const Manifest& last, const std::string& why);

  const Leadership leadership_;
  const Time started_;
  Time now_{};                   // of the input that is handled
  std::vector<Action> actions_;  // of that input
  Time grown_{};                 // when its number of workers changed last
  Time counted_;                 // until then the journal knows how long it ran
  Time stops_since_;             // it was told to stop, or this coordinator has begun
  // It is to stop, and what it lacks for that has no room.
  std::optional<Time> cannot_stop_since_;
  // It has not gone on since it lacked somebody for whom there was no room.
  std::optional<Time> stands_still_since_;
  std::string goes_back_;
  bool has_leavers_ = false;       // perhaps
  bool looks_for_leavers_ = true;  // something has changed for them since we looked, or time passed
  bool hears_no_other_machine_ = false;  // as the last tick said
  ViewNumber first_step_done_;           // the view of which a worker told the first step
  std::optional<Time> heard_no_copy_;    // at that tick nobody was heard of late who has the state
  // Who may come back, and who is to get ready for a view, is judged by this: only a tick knows a
  // gap of our own.
  Time last_tick_;

  JobJournal journal_;
  // The highest number of a view that the journal had when this coordinator came to the job.
  const ViewNumber inherited_;
  Membership membership_;
  std::optional<Reattachment> reattachment_;
  std::optional<ViewChange> change_;
  std::optional<NextView> next_view_;  // from the first cause for one until it is active
  // A view, forming or active, and the membership that it was looked at for.
  struct Considered {
    ViewNumber view;
    bool forming = false;
    int64_t revision = 0;
    bool operator==(const Considered&) const = default;
  };
  std::optional<Considered> fits_;  // found to fit; what is equal need not be looked at again

  Reach reach_;
  Time parted_;  // when two nodes were kept apart last
  bool gives_up_places_ = false;

  StepLedger ledger_;
  CheckpointRounds checkpoints_;
  StreamFacts stream_;
  std::optional<Incarnation> tidies_for_;  // the reader for which the spool is being swept
  std::optional<Incarnation> tidied_for_;  // or was
  std::optional<uint64_t> told_reader_;    // how far it may go, in its session
  bool is_older_ = false;                  // a member has known more than this journal
  bool lacks_segments_ = false;            // what it said was not taken, until something is trimmed
  std::optional<Time> stands_since_;       // and meanwhile no step is known
  std::string reader_lacks_;               // why it brings no samples; empty: nothing is wrong
  bool told_reader_lacks_ = false;         // there was an event of it
  Allowance reader_news_;                  // for these
  LastCheckpoint last_;
  std::string why_last_failed_;
  Time last_checkpoint_;
  std::optional<ToBeSaved> to_be_saved_;  // the last one of which something went wrong
  std::optional<AskedMeasure> asked_;
  // There is no room for whoever is to measure the last state.
  std::optional<Time> nobody_measures_since_;
  std::optional<LaunchFailed> launch_failed_;  // when all was done but for that measure
  std::optional<ProcessExited> given_up_;      // likewise: the last one that is not started again
  bool looks_at_measured_ = false;  // its checkpoint is damaged: the next view begins before it
  // What members said, when the last view formed, that they still write of one; nothing: none has
  // formed since this coordinator came to the job.
  std::optional<std::map<MemberId, MeasuredPart>> promised_;
  std::optional<JobCommand> command_;  // outstanding
  std::optional<Layout> layout_;       // of the job's numeric environment, once it was needed
  std::optional<std::pair<LineageNumber, Step>> last_measured_;  // of which people were told
  std::optional<std::pair<LineageNumber, Step>> last_left_out_;  // likewise, and
  int64_t left_out_told_ = 0;                                    // how many steps
  std::optional<Manifest> digesting_;   // the last checkpoint, of which the digest was asked for
  std::optional<Time> finishes_since_;  // it only waits for what is still to be told of its end
  Refusals refusals_{"attempt to join", "attempts to join"};
  Refusals untaken_records_{"record", "records"};
};

}  // namespace muster::coordinator
