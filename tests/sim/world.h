// The whole protocol in one thread from one seed: a coordinator, the members of one or more jobs,
// the agents of one or more hosts, the network and the disk between them, and faults.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/agent_process.h"
#include "tests/sim/client.h"
#include "tests/sim/coordinator_process.h"
#include "tests/sim/faults.h"
#include "tests/sim/invariants.h"
#include "tests/sim/launcher.h"
#include "tests/sim/member_process.h"
#include "tests/sim/pods.h"

namespace muster::sim {

struct WorldOptions {
  uint64_t seed = 1;
  std::vector<JobOptions> jobs = {JobOptions()};
  std::vector<int32_t> hosts = {64};  // their slots
  std::vector<int32_t> devices{};     // of each of them; left out: none
  int faults = 8;                     // how many, at random; 0: none
  bool smooth = false;                // no random delays: for scenarios
  int32_t quota = 0;                  // slots that all jobs may hold for some time; 0: none
  int64_t quota_at = 0;
  int64_t quota_ms = 0;
  // A second coordinator is started then, by mistake, on a copy of the journal that is so old; the
  // first one, if it lives, looks at the claims so much later. 0: none is.
  int64_t mistake_at = 0;
  int64_t copy_age = 0;
  int64_t looks_ms = 0;
  bool signs = false;     // members need certificates
  bool launches = false;  // each job has hosts that are made for it; `hosts` are of no job
};

class World {
 public:
  explicit World(WorldOptions options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Runs until all jobs have ended or an invariant is broken. True: everything held.
  bool Run();
  // Scenarios run until the condition holds. False: it does not within a minute of simulated time.
  bool RunUntil(const std::function<bool()>& condition);

  // `name`: "worker-0" of the only job, or "JOB/worker-0".
  void Kill(const std::string& name);
  void KillAll();  // every member; the coordinator lives
  void KillCoordinator(int64_t down_ms);
  // Also "coordinator", "agent" (of the first host; "agent-1" of the second), and "decisions": only
  // the coordinator's thread that decides.
  void Stall(const std::string& name, int64_t ms);
  void BreakSession(const std::string& a, const std::string& b);
  // Nothing comes through from one to the other.
  void Cut(const std::string& from, const std::string& to, int64_t ms);
  // Between members of two hosts, also those that start meanwhile.
  void CutHosts(size_t a, size_t b, int64_t ms);
  // Its agent dies with all its processes, and starts again later.
  void KillHost(size_t host, int64_t down_ms);
  // Its agent says that it ends, waits so long for its members to leave, and dies.
  void EndHost(size_t host, int64_t waits_ms, int64_t down_ms);
  void DrainHost(size_t host, int64_t ms);  // and takes members again after that
  void HoldBack(const std::string& name);   // the agent does not start it again …
  void Start(const std::string& name);      // … until now
  void StopJob(const std::string& id);
  void DamageCheckpoint(const std::string& id);  // the newest one

  const std::vector<std::string>& trace() const { return trace_.lines(); }
  const std::string& violation() const { return trace_.violation(); }
  const Coverage& coverage() const { return coverage_; }
  const SimJob& job(const std::string& id) const { return *jobs_.at(id); }
  const SimJob& first_job() const { return *first_job_; }
  Step recorded() const { return first_job_->store.Recorded(); }
  Step furthest() const;  // state that the member furthest on is at
  bool ended() const;
  int64_t now() const { return schedule_.now(); }

 private:
  friend class Faults;
  using Members = std::map<NodeId, std::unique_ptr<MemberProcess>>;

  MemberProcess* Find(const MemberId& id);
  MemberProcess* FindByName(const std::string& name);
  agent::ProcessKey KeyOf(const std::string& name) const;
  NodeId NodeOf(const std::string& name);
  Runner* RunnerOf(const std::string& name);
  void HoldUpDecisions(int64_t ms);
  std::vector<MemberProcess*> AllMembers();
  std::string NameOf(const MemberProcess& member) const;
  Invariants::Sight SightOfAll();

  struct Host {
    std::string name;
    size_t index = 0;
    int32_t slots = 0;
    int32_t devices = 0;
    bool is_pod = false;                    // it was made for a launch
    uint64_t lives = 0;                     // of its agent
    agent::KnownTerms known{};              // on its disk
    TermNumber obeyed{};                    // the highest that an agent with that disk has obeyed
    std::unique_ptr<AgentProcess> agent{};  // null: it is down
  };
  struct HostCut {
    std::string a, b;  // their names
    int64_t until = 0;
  };
  void Cut(const HostCut& hosts, const MemberProcess& member);
  Host* HostOf(const std::string& agent);  // "agent", "agent-1"; null: another name
  Host& HostOf(const MemberProcess& member);
  void StartAgent(Host& host);
  Host& PodNamed(const std::string& name);
  void NoteObeyed(Host& host, TermNumber term);
  Incarnation Draw(const agent::ProcessKey& key);
  void Spawn(Host& host, const agent::Spawn& spawn, std::optional<Incarnation> drawn);
  void Signal(const Host& host, const agent::ProcessKey& key, int signal);
  void End(NodeId node, const std::string& cause, int exit_code, int signal);
  void Crash(NodeId node, const std::string& cause);  // a fault kills it
  void StartCoordinator();
  void CrashCoordinator(int64_t down_ms);
  CoordinatorProcess::Events CoordinatorEvents();
  void OnPersisted(SimJob& job);
  void StopWhileItsSourceStandsStill(SimJob& job);
  static bool MayDamage(const SimJob& job);
  void OnDeleted(const std::string& id);
  bool Ask(const coordinator::Input& input);
  void SetQuota();
  void LiftQuota(int64_t until);
  void AskUntilDrained(const std::string& host, bool on, const std::function<void()>& then);
  // What a person copies of the coordinator's folder.
  struct JournalCopy {
    std::map<std::string, std::pair<const SimJob*, JobStore>> jobs;
    std::set<std::string> drained;
    coordinator::Quotas quotas;
    std::string claim;
  };
  void CopyJournal();
  bool CopyIsOfTheseJobs() const;
  void StartOnCopy();
  void CutFromReplaced();
  void LeaveWithReplaced(size_t host);
  void CutFromOneOfTwo(NodeId node, NodeId coordinator, int64_t ms);
  void NoteSentAway(const MemberId& member, const std::string& why);
  void EndIfSentAway(const MemberId& member);
  NodeId coordinator_node() const { return coordinator_node_; }
  CoordinatorAddresses Addresses() const { return CoordinatorAddresses(options_.mistake_at > 0); }
  CoordinatorProcess* CoordinatorAt(NodeId node);
  void NoteWhereItStands();
  void CheckItGoesOn();
  void CheckRest();
  void CheckNoPodsAreLeft();
  std::string WhoHoldsDevices() const;

  const WorldOptions options_;
  Schedule schedule_;
  Trace trace_;
  Coverage coverage_;
  Network network_;
  const Around around_;
  Invariants invariants_;
  Client client_;
  SimJobs jobs_;
  std::vector<std::unique_ptr<SimJob>> deleted_;  // processes of theirs may still run
  SimJob* first_job_ = nullptr;
  Members members_;
  std::map<MemberId, SimJob*> job_of_;  // all that ever started
  std::map<agent::ProcessKey, int64_t> starts_;
  NodeId next_node_ = kFirstMemberNode;
  std::deque<Host> hosts_;                       // grows, and none moves
  coordinator::Quotas quotas_;                   // as persisted
  std::set<std::string> drained_;                // hosts, as persisted
  std::map<std::string, int64_t> drain_wishes_;  // how often a person began to drain each
  std::vector<HostCut> cut_hosts_;
  Pods pods_;
  std::unique_ptr<CoordinatorProcess> coordinator_;
  std::unique_ptr<SimLauncher> launcher_;  // of that coordinator; null: it has none
  int64_t term_ = 0;
  NodeId coordinator_node_ = kCoordinatorNode;
  std::string claim_;          // the latest in the folder of checkpoints
  std::string journal_claim_;  // the one that the journal knows
  std::optional<JournalCopy> copy_;
  std::unique_ptr<CoordinatorProcess> replaced_;  // it lives, and may not know of the other one
  std::unique_ptr<SimLauncher> launcher_of_replaced_;
  std::map<MemberId, int64_t> sent_away_;  // when they were last
  std::set<const SimJob*> ended_;          // for good
  std::set<std::string> over_;             // ids under which nothing more will happen
  Faults faults_;
  int64_t calm_since_ = -1;
};

}  // namespace muster::sim
