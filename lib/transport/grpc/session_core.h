// What the two kinds of streams (connected, accepted) share: the queue of frames, the one write and
// one read in flight, and the end of a session.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "lib/base/mutex.h"
#include "lib/transport/counters.h"
#include "lib/transport/grpc/completion_thread.h"
#include "lib/transport/transport.h"

namespace muster {

class SessionCore;

// What all sessions of a listener, or all connected sessions of a transport, share. Thread-safe.
class SessionRegistry {
 public:
  SessionRegistry(std::shared_ptr<TransportCounters> session_counters,
                  std::function<void(const std::string&)> refused_hook)
      : counters(std::move(session_counters)), refused(std::move(refused_hook)) {}

  // False once closed; the core must not be started then.
  bool Add(std::shared_ptr<SessionCore> core);
  void Remove(const std::shared_ptr<SessionCore>& core);
  size_t size() const;
  // Refuses further ones, aborts those there are, and waits until their last handler calls have
  // returned.
  void CloseAll(const absl::Status& why);
  void AwaitEmpty();

  const std::shared_ptr<TransportCounters> counters;
  const std::function<void(const std::string&)> refused;  // may be empty

 private:
  mutable Mutex mutex_;
  CondVar empty_;
  std::set<std::shared_ptr<SessionCore>> cores_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// A stream is alive as long as operations of it are outstanding (`pending_`); the last one to be
// done calls on_broken and takes the core out of its registry. As all completions of a core come
// from one queue with one thread, handler calls never overlap.
//
// No gRPC call is made and no handler called with `mutex_` held: both may release payloads, and so
// run the deleters of others.
class SessionCore : public std::enable_shared_from_this<SessionCore> {
 public:
  SessionCore(std::shared_ptr<SessionRegistry> registry, std::string peer);
  virtual ~SessionCore() = default;

  void Send(Frame frame);
  virtual void Admit() { room_->Admit(); }
  // Ends the stream in the way that tells the peer `why`, where that needs no waiting.
  void Close(const absl::Status& why);
  // As Close, at once, also when a polite end is under way.
  void Abort(const absl::Status& why);
  // Close, then return after the last handler call; at once on a completion thread. A peer that
  // does not take our reason in time is not waited for.
  void CloseAndAwaitEnd(const absl::Status& why);
  size_t QueuedBytes() const;
  const std::string& peer() const { return peer_; }
  virtual std::optional<PeerName> ProvenPeer() const = 0;
  virtual std::string ProvenKey() const { return ""; }

 protected:
  // The operations of the stream; each completes once, by `done`, on the core's queue.
  virtual void StartRead(grpc::ByteBuffer* message, Completion* done) = 0;
  virtual void StartWrite(const grpc::ByteBuffer& message, Completion* done) = 0;
  virtual void StartFinish(const absl::Status& why, Completion* done) = 0;
  // Harmless when nothing is outstanding any more.
  virtual void Cancel() = 0;
  // No operation is outstanding nor will be: gives the call back to gRPC, which until then holds
  // the payloads it could not send.
  virtual void Release() = 0;
  // Whether StartFinish carries a reason to the peer and so must be alone with no write in flight.
  virtual bool FinishSpeaks() const = 0;
  // The peer's reason, after the stream has finished.
  virtual absl::Status PeerReason() const = 0;

  // A completion that calls a member and then counts the operation as done.
  class Operation final : public Completion {
   public:
    using Member = std::function<void(bool ok)>;
    Operation(SessionCore* core, Member member) : core_(core), member_(std::move(member)) {}
    void Done(bool ok) override;

   private:
    SessionCore* const core_;
    const Member member_;
  };

  // Before the core is started.
  void SetHandler(SessionHandler handler) {
    room_->Limit(handler.inbound);
    handler_ = std::move(handler);
  }
  // Before an operation is started; the first is counted before the core is shared.
  void CountOperation();
  // The stream stands (or `ok` is false: it does not): frames flow from now on. Called inside an
  // Operation.
  void Opened(bool ok);
  // Breaks a stream that is not open yet; false when it is open or broken.
  bool BreakUnopened(const absl::Status& why);
  // No read is or will be in flight any more. Called inside an Operation.
  void ReadsEnded();

 private:
  enum class Phase { kOpening, kOpen, kBroken };

  void ReadNext();
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void WriteNext();
  void Deliver(const grpc::ByteBuffer& message);
  void BreakLocked(const absl::Status& why, std::deque<Frame>& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OperationDone();
  void End();

  const std::shared_ptr<SessionRegistry> registry_;
  const std::string peer_;
  Operation read_operation_;
  Operation write_operation_;
  Operation finish_operation_;
  SessionHandler handler_;  // the completion thread's, once started
  const std::shared_ptr<InboundRoom> room_;
  grpc::ByteBuffer incoming_;  // the read in flight's

  mutable Mutex mutex_;
  CondVar ended_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kOpening;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);  // not OK: the reason was found at this end
  std::deque<Frame> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of queue_ and of the write in flight
  size_t writing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reads_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  int pending_ ABSL_GUARDED_BY(mutex_) = 0;
  bool end_reached_ ABSL_GUARDED_BY(mutex_) = false;
};

// The Session that users hold; the core outlives it until the stream has ended.
class GrpcSession final : public Session {
 public:
  explicit GrpcSession(std::shared_ptr<SessionCore> core) : core_(std::move(core)) {}
  ~GrpcSession() override { core_->CloseAndAwaitEnd(absl::CancelledError("session destroyed")); }
  void Send(Frame frame) override { core_->Send(std::move(frame)); }
  void Admit() override { core_->Admit(); }
  void Close(absl::Status why) override { core_->Close(why); }
  size_t QueuedBytes() const override { return core_->QueuedBytes(); }
  std::string Peer() const override { return core_->peer(); }
  std::optional<PeerName> ProvenPeer() const override { return core_->ProvenPeer(); }
  std::string ProvenKey() const override { return core_->ProvenKey(); }

 private:
  const std::shared_ptr<SessionCore> core_;
};

}  // namespace muster
