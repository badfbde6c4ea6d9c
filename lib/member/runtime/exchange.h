// The exchange thread of a member: takes events from one mailbox, feeds the state machine and
// carries out what it says. The machine decides about views, steps and healing; this decides
// nothing. One per process (or, in tests, per member).
//
// Before there is a machine, the process asks the coordinator for its job; the train thread then
// makes the task and finds out the numeric environment (a server learns it from the coordinator).
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/failpoint.h"
#include "lib/base/lease.h"
#include "lib/member/runtime/coordinator_link.h"
#include "lib/member/runtime/data_path.h"
#include "lib/member/runtime/early_frames.h"
#include "lib/member/runtime/events.h"
#include "lib/member/runtime/life_signs.h"
#include "lib/member/runtime/member_metrics.h"
#include "lib/member/runtime/peer_sessions.h"
#include "lib/member/runtime/reporter.h"
#include "lib/member/runtime/segment_writer.h"
#include "lib/member/runtime/told_stream.h"
#include "lib/member/state/job_asker.h"
#include "lib/member/state/member.h"
#include "lib/transport/counters.h"
#include "lib/transport/transport.h"

namespace muster {

struct ExchangeOptions {
  std::string job;
  StartNumber start;  // of the job, that the process was started for; 0: whichever is under way
  MemberPlace place;  // address: what our listener says
  std::string coordinator;         // an address, or a list of them
  std::string cluster;             // of the coordinator; empty: of the first that answers
  Duration lease = kDefaultLease;  // we say three times per lease that we live
  Duration thread_patience = kDefaultThreadPatience;
  size_t held_bytes = kMaxHeldBytes;  // of a session that we make, not dealt with yet
  // One of our threads has stood still for a lease longer than that, and we are still here; may be
  // empty. On a thread of its own.
  std::function<void(const ThreadAge&)> hangs;
  // Without a session with a coordinator, and with nothing to do (no active view, or halted in it),
  // for so long: the process ends.
  Duration coordinator_timeout = std::chrono::minutes(10);
};

// What is shared with other threads of the process; outlives the exchange.
struct ExchangeParts {
  Transport* transport = nullptr;
  std::shared_ptr<EventBox> events;
  std::shared_ptr<std::atomic<LinkId>> next_link;
  TrainPort* train = nullptr;  // null: a server; it has no train thread
  CopyCounter* copied = nullptr;
  Metrics* metrics = nullptr;
  Failpoints* failpoints = nullptr;
  const Reporter* reporter = nullptr;
  const TransportCounters* moved = nullptr;  // by the transport; may be null
};

// What the exchange of a member of no view has in common (lone_exchange.h).

// Of pauses between attempts, so that members do not all come at once.
uint64_t SeedOf(const MemberId& id);
// Why the process ends instead of taking part in this job; nothing: it may.
std::optional<Quit> WhyNotThisJob(const JobIs& job, const ExchangeOptions& options);
// The end that it makes of the process.
Quit EndAfter(const TrainFailed& failed);
// The end of a process that had no coordinator for too long.
Quit WithoutCoordinator(const ExchangeOptions& options);
// For the log: an error where the process has failed, which its agent then tells as the cause.
void LogLeaving(const Quit& quit);
// Nothing: what came is refused, which the log and the counter know.
std::optional<FromCoordinator> Understood(absl::StatusOr<FromCoordinator> message,
                                          MemberMetrics& metrics);
// Lets the counters grow by what the totals have since they were last told.
struct MovedTold {
  uint64_t copied = 0, sent = 0, received = 0, no_frames = 0;
};
void TellMoved(MemberMetrics& metrics, const ExchangeParts& parts, MovedTold& told);

class Exchange {
 public:
  Exchange(ExchangeOptions options, ExchangeParts parts);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Runs until the job or the process ends, then closes the train thread's mailbox. Returns the
  // process's exit code.
  int Run();

 private:
  // ---- events
  void Handle(SessionAccepted event);
  void Handle(FrameCame event);
  void Handle(SessionBroke event);
  void Handle(AddressesFound event);
  void Handle(StillPrepares event) { asker_.IsAt(std::move(event.how_far)); }
  void Handle(Prepared event);
  void Handle(GradientsReady event);
  void Handle(StateApplied event);
  void Handle(LanesAbandoned event);
  void Handle(StepBoundaryTaken event);
  void Handle(StateMade event);
  void Handle(Generated event);
  void Handle(StateMeasured event);
  void Handle(StreamSpooled) {}  // of a reader
  void Handle(ReadingLacks) {}   // likewise
  void Handle(ReadingEnded) {}   // likewise
  void Handle(TrainFailed event);
  void Handle(SegmentWritten written);
  void Handle(SegmentFailed failed);
  void Handle(StopAsked event);
  void Tick();
  void NoteWhatWeDo();                             // for the life signs to say
  void GoOn() { progress_.GoesOn(clock_.Now()); }  // between the parts of long work
  Time NextTick() const;
  void HandleNews(PeerSessions::News news);
  void FeedAndTell(const Input& about_peer);
  void FromPeer(const MemberId& peer, PeerMessage message, Payload payload, Receipt receipt);
  void FromCoordinatorSide(FromCoordinator message);
  void LearnStream(const StreamIs& told);
  void LearnJob(JobIs job);
  void BecomeMember(SetupPtr setup);
  void Introduce();

  // ---- the state machine
  void Feed(const Input& input);
  void Deliver(Incoming incoming);
  void Carry(std::vector<Action> actions, const Incoming* incoming);
  void RedeliverHeld();
  void NoteChanges();
  void ShowWhatWasLearned();

  // ---- actions; those that have an answer give it
  using Answer = std::optional<Input>;
  Answer Do(const Connect& action, const Incoming*);
  Answer Do(const TellCoordinator& action, const Incoming*);
  Answer Do(Send action, const Incoming*);
  Answer Do(const Compute& action, const Incoming*);
  Answer Do(const GiveTotals& action, const Incoming*);
  Answer Do(const Abandon& action, const Incoming*);
  Answer Do(const WriteFact& action, const Incoming*);
  Answer Do(const KeepParts& action, const Incoming*);
  Answer Do(const FoldIn& action, const Incoming* incoming);
  Answer Do(const ForgetSums& action, const Incoming*);
  Answer Do(const StoreResults& action, const Incoming* incoming);
  Answer Do(const StorePieces& action, const Incoming* incoming);
  Answer Do(const ApplyChunks& action, const Incoming*);
  Answer Do(const Apply& action, const Incoming*);
  Answer Do(const StepBoundary& action, const Incoming*);
  Answer Do(const Make& action, const Incoming*);
  Answer Do(const MeasureHeld& action, const Incoming*);
  Answer Do(const GiveUpMeasure& action, const Incoming*);
  Answer Do(const PrepareCopy& action, const Incoming*);
  Answer Do(const DropState& action, const Incoming*);
  Answer Do(const Completed& action, const Incoming*);
  Answer Do(const Quit& action, const Incoming*);

  void PassHalfSent(const Partials& partials);
  void PassHalfReceived(const StoreResults& store);
  std::vector<ChunkId> OwnChunks() const;
  Rank OurRank() const;

  const ExchangeOptions options_;
  const ExchangeParts parts_;
  RealClock clock_;
  MemberMetrics metrics_;
  std::optional<StepMetrics> steps_;  // of a worker
  PeerSessions sessions_;
  CoordinatorLink coordinator_;
  JobAsker asker_;
  std::optional<JobIs> job_;
  std::unique_ptr<ToldStream> stream_;  // of a worker whose job has one, from the job on
  bool preparing_ = false;
  SetupPtr setup_;
  std::unique_ptr<Member> member_;
  std::unique_ptr<DataPath> data_;
  ThreadProgress writer_progress_{kCheckpointThread};
  std::unique_ptr<SegmentWriter> writer_;
  std::optional<EarlyFrames> early_;  // once there is a machine
  bool redelivering_ = false;

  int64_t edition_ = 0;     // the machine's, when held frames were last delivered
  ViewNumber active_view_;  // that was last reported
  bool trains_ = true;      // as the segment writer was told
  int64_t compute_id_ = 0;  // of the last Compute or Abandon
  Time next_note_{};
  Time last_completed_{};
  MovedTold moved_told_;
  int64_t refused_told_ = 0;
  Step sending_step_, receive_buffer_step_;  // of the two counts below, for failpoints
  size_t chunks_sent_ = 0, chunks_stored_ = 0;
  std::optional<Quit> leaving_;  // once the text sample is made
  bool shows_ = false;           // it is being made
  std::optional<Quit> quit_;

  ThreadProgress progress_{"exchange"};
  LifeSigns life_signs_;
};

}  // namespace muster
