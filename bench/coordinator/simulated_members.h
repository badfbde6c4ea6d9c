// Many workers of one job, as far as a coordinator can tell: real sessions, each on a connection of
// its own, that ask for their job, join, follow into each view, say that they are alive and record
// steps. They compute nothing. What every member says alike is encoded once, and large frames are
// told apart by their kind alone, so that the load program leaves the cores to the coordinator.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "lib/base/backoff.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"
#include "lib/domain/job.h"
#include "lib/domain/message.h"
#include "lib/transport/grpc/grpc_transport.h"

namespace muster::bench {

struct Simulation {
  int32_t members = 0;
  int32_t chunks = 160;  // of the model; at the default of 256 KiB each, that of row W-T
  Duration lease = std::chrono::milliseconds(1500);
  std::string job = "simulated";
};

// The job that they take part in: a lane for each.
JobSpec SpecOf(const Simulation& simulation);

// Waits are bounded: each returns false when what it waits for has not come in `patience`. One
// thread calls; during each wait it also says Alive for everybody who is due and connects again
// whoever lost the coordinator.
class SimulatedMembers {
 public:
  SimulatedMembers(Simulation simulation, std::string address);
  ~SimulatedMembers();

  // Opens all sessions; returns when each has been told its job.
  bool Connect(Duration patience);
  // All join; returns when each is active in one view of all.
  bool JoinAll(Duration patience);
  // Lets time pass with heartbeats, and with the record of a step from everybody every
  // `step_time` where that is not zero. False: a session broke or somebody was sent away.
  bool Live(Duration time, Duration step_time);
  // Ends the last member's session for good.
  void LoseOne();
  // Returns when the coordinator has begun the view after a loss.
  bool AwaitSeal(Duration patience);
  // Returns when everybody who is left is active.
  bool AwaitActive(Duration patience);
  // From now on sessions break because the coordinator is being killed, and nobody counts as
  // active until told so anew.
  void ExpectRestart();

  // Seconds from sending a step's records to each acknowledgement, since the last call.
  std::vector<double> CollectAckTimes();
  // What went wrong: sessions that broke unasked, members that were sent away; empty: nothing.
  std::string Trouble() const;
  int64_t sent() const { return sent_; }  // frames, by all members

 private:
  struct Member {
    MemberId id;
    std::shared_ptr<Session> session;
    Backoff backoff;
    std::optional<Time> connect_at;
    Time alive_at;
    bool joined = false;   // it has said Join once, and says it first in each new session
    bool asked = false;    // it has been told its job
    bool in_view = false;  // it was told a view since it last sealed
    bool active = false;   // and has been told since it last connected that it stands
    bool gone = false;
    ViewNumber sealed;
    TermNumber term;    // in which it was told of that view
    StartNumber start;  // of the job, as it was told
  };

  enum class Goal { kNone, kAllAsked, kSealed, kAllActive };  // of a wait

  SessionHandler HandlerOf(size_t index);
  void Open(size_t index);
  std::string JoinOf(const Member& member) const;
  void OnFrame(size_t index, const Frame& frame);
  void OnBroken(size_t index, const absl::Status& why);
  // The answer, where one is due.
  std::string Answer(size_t index, const std::string& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string AnswerSeal(Member& member, const Seal& seal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Activated(size_t index, const std::string& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendRecords(Time now);
  void Pump(Time now);
  bool Reached(Goal goal) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Until(Goal goal, Time deadline, Duration step_time = {});

  const Simulation simulation_;
  const std::string address_;
  const JobSpec spec_;
  const NumericEnvironment environment_;
  const std::unique_ptr<GrpcTransport> transport_;
  int64_t sent_ = 0;
  Time step_at_{};

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Member> members_ ABSL_GUARDED_BY(mutex_);
  int32_t asked_ ABSL_GUARDED_BY(mutex_) = 0;
  int32_t active_ ABSL_GUARDED_BY(mutex_) = 0;
  int32_t left_ ABSL_GUARDED_BY(mutex_) = 0;  // members that are not gone
  bool sealed_ ABSL_GUARDED_BY(mutex_) = false;
  bool restarting_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t broken_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t sent_away_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string last_trouble_ ABSL_GUARDED_BY(mutex_);
  View view_ ABSL_GUARDED_BY(mutex_);  // as the first member was told
  Step next_step_ ABSL_GUARDED_BY(mutex_);
  Time records_sent_ ABSL_GUARDED_BY(mutex_){};
  std::vector<double> ack_times_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::bench
