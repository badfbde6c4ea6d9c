// The whole protocol in one thread from one seed: coordinator, members, sessions, disk, host agent,
// and faults.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "coordinator/state/coordinator.h"
#include "tests/sim/machine.h"

namespace muster::sim {

struct WorldOptions {
  uint64_t seed = 1;
  Sync sync = Sync::kAllreduce;
  int32_t workers = 3;
  int32_t servers = 2;
  int32_t lanes = 4;
  int32_t chunks = 4;
  int64_t steps = 20;
  int64_t checkpoint_every = 5;
  double clip_norm = 0;
  int faults = 8;       // how many, at random; 0: none
  bool smooth = false;  // no random delays: for scenarios
};

// What was reached, summed over seeds.
struct Counts {
  int64_t heals = 0;
  int64_t catch_ups = 0;
  int64_t rewinds = 0;
  int64_t torn = 0;
  int64_t restarts_in_forming = 0;
  int64_t second_failures = 0;
  int64_t steps = 0;
  int64_t events = 0;
  int64_t stops = 0;  // after which the job was submitted again
  int64_t failed_checkpoints = 0;
  int64_t lanes_checked = 0;     // runs whose lanes were counted exactly
  int64_t lanes_recomputed = 0;  // in those
};

class World {
 public:
  explicit World(WorldOptions options);
  // Runs until the job has ended or an invariant is broken. True: done and everything held.
  bool Run();
  // For scenarios: until the condition holds; false when it does not within a minute of simulated
  // time.
  bool RunUntil(const std::function<bool()>& condition);

  void KillWorker(const std::string& name);
  void KillCoordinator(int64_t down_ms);
  void Pause(const std::string& name, int64_t ms);
  void BreakSession(const std::string& a, const std::string& b);
  void KillAll();  // every member; the coordinator lives
  void Start(const std::string& name);
  void HoldBack(const std::string& name) { held_back_.insert(name); }  // not restarted by the agent

  const std::vector<std::string>& trace() const { return trace_; }
  const std::string& violation() const { return violation_; }
  const Counts& counts() const { return counts_; }
  Step recorded() const;
  Step furthest() const;  // state that the member furthest on is at
  const std::optional<coordinator::JobJournal>& journal() const { return journal_; }
  int64_t active_view() const;
  std::string phase() const;
  bool ended() const { return ended_; }
  int64_t now() const { return now_; }

 private:
  struct Process {
    MemberId id;
    Role role = Role::kWorker;
    std::unique_ptr<Machine> machine;
    int64_t paused_until = 0;
    std::vector<ViewMember> peers;  // its Connect list
    std::optional<int64_t> coordinator_session;
    bool leaving = false;
  };
  struct Direction {
    int64_t last = 0;  // no frame arrives before this
    int64_t sent = 0;
    int64_t delivered = 0;
    int64_t cut = std::numeric_limits<int64_t>::max();
  };
  struct Session {
    MemberId a, b;  // b empty name: the coordinator
    Direction to_a, to_b;
    bool broken = false;
    bool up_a = false, up_b = false;
  };
  struct Event {
    int64_t at;
    int64_t order;
    std::function<void()> run;
    bool operator<(const Event& o) const { return std::tie(at, order) > std::tie(o.at, o.order); }
  };

  void At(int64_t delay, std::function<void()> run);
  void OnProcess(MemberId id, int64_t delay, std::function<void(Process&)> run);
  int64_t Random(int64_t low, int64_t high);
  void Violate(const std::string& what);
  void Note(const std::string& what);
  Process* Find(const MemberId& id);
  Process* FindByName(const std::string& name);

  MemberConfig ConfigFor(const std::string& name, Role role);
  void Kill(MemberId id, const std::string& cause, int exit_code);
  void ConnectPeers(const MemberId& id);
  void OpenSession(const MemberId& a, const MemberId& b);
  int64_t FindSession(const MemberId& a, const MemberId& b) const;
  void Break(int64_t session);
  void SendFrame(int64_t session, const MemberId& from, std::function<void()> deliver);
  void JoinCoordinator(const MemberId& id);
  void FromMember(const MemberId& id, ToCoordinator message);

  void StartCoordinator();
  void TickCoordinator(int64_t life);
  void Feed(const coordinator::Input& input);
  void Carry(const coordinator::Action& action);
  void Crash();
  void Prune(const coordinator::PruneManifests& prune);
  void CheckView(const View& view);
  void CheckManifest(const Manifest& manifest);
  void CheckEnd();
  void CheckLanes();
  void FailWhileForming();
  void AmbushRewind(const MemberId& member, const Heal& heal);
  void Inject();
  void BreakAny();
  bool AnyForming() const;

  WorldOptions options_;
  std::mt19937_64 random_;
  int64_t now_ = 0;
  int64_t command_ = 0;
  std::priority_queue<Event> events_;
  Reference reference_;
  JobSpec spec_;
  NumericEnvironment environment_;

  std::map<MemberId, Process> processes_;
  std::map<std::string, int64_t> incarnations_;
  std::set<std::string> held_back_;
  std::map<int64_t, Session> sessions_;
  int64_t next_session_ = 1;
  Disk disk_;

  std::unique_ptr<coordinator::Coordinator> coordinator_;
  int64_t coordinator_life_ = 0;
  int64_t down_until_ = 0;
  int64_t term_ = 0;
  std::optional<coordinator::JobJournal> journal_;  // durable
  std::map<std::pair<LineageNumber, Step>, StepRecord> ledger_;
  std::vector<Manifest> catalogue_;
  std::vector<ProcessExited> exits_;
  int64_t exits_to_tell_ = 0;  // processes whose end the coordinator has not heard of yet
  int64_t lanes_of_dead_ = 0;  // run by incarnations that are gone

  bool ended_ = false;
  int faults_left_ = 0;
  bool ambush_ = false;  // the next forming view is met by a second fault
  std::string violation_;
  std::vector<std::string> trace_;
  Counts counts_;
};

}  // namespace muster::sim
