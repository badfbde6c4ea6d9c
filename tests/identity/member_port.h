// The data port of a member as the product has it: its listener and its sessions, on a thread of
// its own. What others say there is kept.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/member/runtime/peer_sessions.h"
#include "tests/lib/transport/recorder.h"

namespace muster::identity {

class MemberPort {
 public:
  MemberPort(std::unique_ptr<Transport> transport, MemberId me,
             Duration waits = std::chrono::milliseconds(200))
      : me_(std::move(me)), transport_(std::move(transport)) {
    {
      const MutexLock lock(mutex_);
      sessions_ = std::make_unique<PeerSessions>(
          *transport_, events_, next_,
          PeerSessions::Options{.job = "demo", .me = me_, .waits = waits});
    }
    listener_ = transport_->Listen("127.0.0.1:0", PeerSessions::AcceptInto(events_, next_)).value();
    thread_ = std::thread([this] { Run(); });
  }
  ~MemberPort() {
    events_->Close();
    thread_.join();
    {
      const MutexLock lock(mutex_);
      sessions_.reset();
    }
    listener_.reset();
  }
  MemberPort(const MemberPort&) = delete;
  MemberPort& operator=(const MemberPort&) = delete;

  const MemberId& id() const { return me_; }
  ViewMember member() const {
    return {me_, Role::kWorker, "host", listener_->Address(), Rank(0), 0};
  }
  void Hold(const std::vector<ViewMember>& view) {
    const MutexLock lock(mutex_);
    sessions_->Hold(view, clock_.Now());
    events_->Post(StopAsked{});  // it may be due earlier now
  }
  void Send(const MemberId& to, Frame frame) {
    const MutexLock lock(mutex_);
    sessions_->Send(to, std::move(frame));
  }
  bool AwaitUp(const MemberId& peer) {
    return Await([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return sessions_->Up(peer); });
  }
  bool AwaitSaid(size_t count) {
    return Await([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return said_ >= count; });
  }
  size_t said() const {
    const MutexLock lock(mutex_);
    return said_;
  }
  // Sessions that went down.
  size_t down() const {
    const MutexLock lock(mutex_);
    return down_;
  }
  size_t bytes() const {
    const MutexLock lock(mutex_);
    return bytes_;
  }

 private:
  template <class F>
  bool Await(F done) {
    const MutexLock lock(mutex_);
    const Time until = PatienceEnds();
    while (!done() && changed_.WaitUntil(mutex_, until)) {
    }
    return done();
  }
  void Run() {
    while (!events_->closed()) {
      Time until;
      {
        const MutexLock lock(mutex_);
        until = sessions_->NextTick();
      }
      std::optional<Event> event = events_->TakeUntil(until);
      const MutexLock lock(mutex_);
      const Time now = clock_.Now();
      PeerSessions::News news;
      if (event && std::holds_alternative<SessionAccepted>(*event)) {
        sessions_->Accept(std::move(std::get<SessionAccepted>(*event)), now);
      } else if (event && std::holds_alternative<FrameCame>(*event)) {
        news = sessions_->Handle(std::move(std::get<FrameCame>(*event)), now);
      } else if (event && std::holds_alternative<SessionBroke>(*event)) {
        news = sessions_->Handle(std::get<SessionBroke>(*event), now);
      }
      sessions_->Tick(now);
      said_ += news.said ? 1 : 0;
      down_ += news.down ? 1 : 0;
      bytes_ += news.payload.size();
      changed_.NotifyAll();
    }
  }

  const MemberId me_;
  RealClock clock_;
  const std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
  const std::shared_ptr<std::atomic<LinkId>> next_ = std::make_shared<std::atomic<LinkId>>(1);
  const std::unique_ptr<Transport> transport_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::unique_ptr<PeerSessions> sessions_ ABSL_GUARDED_BY(mutex_);
  size_t said_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t down_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Listener> listener_;
  std::thread thread_;
};

}  // namespace muster::identity
