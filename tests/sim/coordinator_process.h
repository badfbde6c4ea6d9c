// One life of the coordinator's process: the real state machine, its sessions (as
// coordinator/runtime/member_sessions.h has them), its ticks, and the thread that keeps
// checkpoints. What it persists outlives it. Lives from its start to its death.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/awake_clock.h"
#include "tests/sim/around.h"
#include "tests/sim/invariants.h"
#include "tests/sim/job.h"
#include "tests/sim/member_process.h"

namespace muster::sim {

class CoordinatorProcess {
 public:
  struct Events {
    std::function<MemberProcess*(NodeId)> member;
    // Over that session comes what a host agent is to run, or an answer about a certificate.
    std::function<void(const AgentId&, SimSessionId, const ToAgent&)> to_agent;
    std::function<void(SimJob&)> persisted;           // after each change of a job's journal
    std::function<void(const std::string&)> deleted;  // nothing of the job is left
    std::function<void(const MemberId&, const FromCoordinator&)> says;
    std::function<bool()> dies_now;  // between two actions
    std::function<void()> died;
    // The term that was claimed last in the folder of checkpoints.
    std::function<TermNumber()> claimed;
    std::function<void()> ends;  // because of that
    // A member that knows more than the journal.
    std::function<void(const MemberId&, const std::string& why)> sent_away;
  };
  struct Ways {
    bool signs = false;     // sessions have proven peers
    bool launches = false;  // each job has hosts that are made for it
  };
  // `drained`: hosts, as persisted; and quotas.
  CoordinatorProcess(Around around, NodeId node, int64_t term, const SimJobs& jobs,
                     std::set<std::string>& drained, coordinator::Quotas& quotas,
                     Invariants& invariants, Ways ways, Events events);
  ~CoordinatorProcess();

  // A process calls; this says what our end of the session does.
  SimSessionEvents Accept(NodeId from);
  void Said(SimSessionId session, const ToCoordinator& message);
  void Said(SimSessionId session, const FromAgent& message);
  // A client asks for this.
  void Feed(const coordinator::Input& input);
  // Another one has claimed the folder of checkpoints, on a copy of the journal, which is the
  // cluster's from now on. This one lives on with the journal that it has until it looks at the
  // claims, in so many milliseconds at the latest.
  void IsReplaced(int64_t looks_in_ms);
  // Whoever is about to change the folder of checkpoints, or to end what was made for a job, looks
  // first. False: it ends.
  bool MayChangeFolder();
  // The thread that decides waits for its disk; the others run.
  void HoldUp(int64_t ms);

  NodeId node() const { return node_; }
  int64_t term() const { return term_; }
  Runner& runner() { return runner_; }
  int64_t held_until() const { return held_until_; }  // its decisions, the last time
  const coordinator::Coordinator& state() const { return *state_; }
  bool dead() const { return dead_; }

 private:
  struct Asker {
    std::string waits_for_environment;  // the job; empty: no
  };
  struct Peer {
    NodeId node = 0;
    std::variant<std::monostate, Asker, MemberId, AgentId> who;
    Time came{};                      // the newest of its words, whether it was handled or not
    bool broke = false;               // which was not handled yet
    std::optional<MemberId> joins{};  // its Join waits
  };
  class SimClock final : public Clock {
   public:
    explicit SimClock(const Schedule& schedule) : schedule_(schedule) {}
    Time Now() const override { return TimeOf(schedule_.now()); }

   private:
    const Schedule& schedule_;
  };
  coordinator::RecoveredState Recovered() const;
  void Tick();
  coordinator::Tick WhatTickSays() const;
  bool HeldUp() const { return around_.schedule.now() < held_until_; }
  void InTurn(std::function<void()> run);
  void GoOn();
  void Handle(const coordinator::Input& input);
  void Hear(SimSessionId session, const ToCoordinator& message, Time came);
  void Hear(SimSessionId session, const FromAgent& message);
  void Die();
  void Broken(SimSessionId session);
  void Bind(SimSessionId session, const MemberId& member);
  void Answer(SimSessionId session, const AskJob& ask);
  void TellEnvironment(const coordinator::JobJournal& job);
  void Send(SimSessionId session, const FromCoordinator& message);
  void Tell(const AgentId& agent, const ToAgent& message);
  SimJob& JobOf(const std::string& id) { return *jobs_.at(id); }
  JobStore& StoreOf(SimJob& job) { return own_ ? own_->stores[job.options.id] : job.store; }

  void Do(const coordinator::PersistJob& a);
  void Do(const coordinator::PersistRecords& a);
  void Do(const coordinator::PersistFingerprint& a);
  void Do(const coordinator::PersistMeasure& a);
  void Do(const coordinator::PersistStream& a);
  void Do(const coordinator::PersistDrained& a) {
    std::set<std::string>& drained = own_ ? own_->drained : drained_;
    drained = {a.hosts.begin(), a.hosts.end()};
  }
  void Do(const coordinator::PersistLeftOut&) {}  // no process fails because of its host here
  void Do(const coordinator::PersistQuotas& a) { (own_ ? own_->quotas : quotas_) = a.quotas; }
  void Do(const coordinator::PersistTokens&) {}  // nobody is asked who he is
  void Do(const coordinator::PersistHost&) {}    // the same
  void Do(const coordinator::ForgetHost&) {}     // the same
  void Do(const coordinator::ToMember& a);
  void Do(const coordinator::ToMembers&) {}  // told one by one
  void Do(const coordinator::EndSession& a);
  void Do(const coordinator::ToHost& a);
  void Do(const coordinator::Sign& a);
  void Do(const coordinator::RefuseToSign& a);
  void Do(const coordinator::EndAgentSession& a);
  void Do(const coordinator::DeleteJob& a);
  void Do(const coordinator::CommitManifest& a);
  void Do(const coordinator::PruneManifests& a);
  void Do(const coordinator::RemoveManifest& a);
  void Do(const coordinator::SaveMeasure& a);
  void Do(const coordinator::TrimSpool& a);
  void Do(const coordinator::TidySpool& a);
  void Do(const coordinator::ComputeDigest& a);
  void Do(const coordinator::Announce& a);
  void OnCommitThread(int64_t most, std::function<void()> run);
  std::string DigestOfFiles(const SimJob& job, const Manifest& manifest) const;

  // What one that was replaced goes on to write, which is nobody's journal any more.
  struct OwnJournal {
    std::map<std::string, JobStore> stores;  // of jobs, by id
    std::set<std::string> drained;
    coordinator::Quotas quotas;
  };

  Around around_;
  const NodeId node_;
  const int64_t term_;
  const SimJobs& jobs_;
  std::set<std::string>& drained_;
  coordinator::Quotas& quotas_;
  Invariants& invariants_;
  const Ways ways_;
  const Events events_;
  Runner runner_;
  const SimClock real_clock_;
  const AwakeClock clock_;
  std::unique_ptr<coordinator::Coordinator> state_;
  int64_t held_until_ = 0;
  std::deque<std::function<void()>> waiting_;  // for the thread that decides
  std::map<SimSessionId, Peer> peers_;
  std::map<MemberId, SimSessionId> by_member_;
  OrderedQueue commit_thread_;  // commits, prunes and digests, one after the other
  std::map<AgentId, SimSessionId> by_agent_;
  std::string last_recorded_;      // id of the job whose records were persisted last
  std::optional<OwnJournal> own_;  // none: it is the coordinator
  bool dead_ = false;
};

}  // namespace muster::sim
