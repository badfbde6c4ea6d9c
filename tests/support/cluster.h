// A job in one process, over the in-memory transport: the real state machine of the coordinator
// with a small driver that persists nothing, and members with all their threads. For tests.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/state/coordinator.h"
#include "lib/base/failpoint.h"
#include "lib/base/mailbox.h"
#include "lib/base/mutex.h"
#include "lib/member/runtime/exchange.h"
#include "lib/member/runtime/lone_exchange.h"
#include "lib/metrics/metrics.h"
#include "lib/transport/loop/loop_network.h"
#include "worker/runtime/trainer.h"

namespace muster {

// The driver of a coordinator: one thread, one listener.
class TestCoordinator {
 public:
  TestCoordinator(LoopNetwork& network, std::string checkpoint_dir);
  ~TestCoordinator();

  std::string address() const { return listener_->Address(); }
  void Submit(const std::string& id, const JobSpec& spec);
  // What a host agent would tell of a process that ended by SIGKILL.
  void Killed(const std::string& job, const MemberId& member);
  // Waits until the job has ended; its journal entry.
  coordinator::JobJournal AwaitEnd(const std::string& id);
  // Waits until a record of a step at or after this is in the ledger.
  void AwaitStep(Step step);
  // Waits until the one job says that it waits for this.
  void AwaitWaits(const std::string& wanted);
  // Waits until something was told whose text holds this.
  void AwaitTold(const std::string& part);

  std::vector<StepRecord> records() const;  // as persisted, in order
  std::vector<Manifest> manifests() const;  // committed
  std::vector<std::string> told() const;    // "event: text", of all but steps

 private:
  struct Came {
    uint64_t session = 0;
    std::shared_ptr<Session> opened;
    std::optional<Frame> frame;
    bool broke = false;
    std::function<void()> call;
  };
  void Run();
  void Handle(Came came);
  void FromMember(uint64_t session, ToCoordinator message);
  void Handle(const coordinator::Input& input);
  void Send(const MemberId& to, const FromCoordinator& message);
  void Do(const coordinator::Action& action);
  void TellEnvironment();
  void NoteWhatIsAwaited();
  void Explain();
  // `done` is called with mutex_ held, which the analysis cannot see here.
  template <class F>
  void Await(F done) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  const std::string dir_;
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<Mailbox<Came>> box_ = std::make_shared<Mailbox<Came>>();
  std::unique_ptr<Listener> listener_;
  coordinator::Coordinator machine_;
  RealClock clock_;
  std::map<uint64_t, std::shared_ptr<Session>> sessions_;
  struct Asked {
    std::string job;
    bool told = false;  // without numeric environment
  };
  std::map<uint64_t, Asked> waiting_;  // sessions that asked and have no numeric environment
  std::map<MemberId, uint64_t> members_;
  std::vector<coordinator::Input> inputs_;  // that actions lead to

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, coordinator::JobJournal> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<StepRecord> records_ ABSL_GUARDED_BY(mutex_);
  std::vector<Manifest> manifests_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
  std::string waits_for_ ABSL_GUARDED_BY(mutex_);  // the last job
  std::thread thread_;
};

struct TestMemberOptions {
  std::string job = "job";
  std::string name = "worker-0";
  Role role = Role::kWorker;
  std::string fail_at;  // a failpoint: the member is then cut off, as if killed
  worker::MakeTrained make_task;
  std::function<void(Frame&)> spoil;  // changes frames that this member sends to others
  size_t held_bytes = kMaxHeldBytes;  // of what another sent, and was not dealt with yet
};

// A worker, a server, a follower or a reader: its threads run until the job ends or it is cut off.
class TestMember {
 public:
  TestMember(LoopNetwork& network, const std::string& coordinator, TestMemberOptions options);
  ~TestMember();

  const MemberId& id() const { return id_; }
  const std::string& host() const { return host_; }  // its name in the network
  // As a SIGKILL looks from outside: every session breaks, nothing more is said. Waits for the
  // threads.
  void Kill();
  int AwaitExit();                       // the exit code
  bool fired() const { return fired_; }  // the failpoint
  void AwaitFired();
  uint64_t copied() const { return copied_; }
  // The most that a session's frames held when another frame of it was handed over.
  size_t held_at_most() const { return *held_at_most_; }
  std::string MetricsText() const { return metrics_.Text(); }
  EventBox& events() { return *events_; }

 private:
  const MemberId id_;
  const std::string host_;
  const std::shared_ptr<std::atomic<size_t>> held_at_most_ =
      std::make_shared<std::atomic<size_t>>(0);
  std::unique_ptr<Transport> transport_;
  Metrics metrics_;
  CopyCounter copied_{0};
  std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
  std::shared_ptr<std::atomic<LinkId>> next_link_ = std::make_shared<std::atomic<LinkId>>(1);
  TrainPort port_;
  Reporter reporter_;
  std::atomic<bool> fired_{false};
  Failpoints failpoints_;
  std::unique_ptr<Listener> listener_;  // of members of views
  ThreadProgress reads_{"stream"};      // of a reader
  std::unique_ptr<Exchange> exchange_;  // or
  std::unique_ptr<LoneExchange> lone_;
  std::unique_ptr<worker::Trainer> trainer_;
  std::atomic<int> exit_code_{-1};
  std::thread exchange_thread_, train_thread_;
};

}  // namespace muster
