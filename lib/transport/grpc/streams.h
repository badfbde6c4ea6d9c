// The two ends of a session's gRPC stream.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/resource_quota.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/mutex.h"
#include "lib/transport/grpc/given_sockets.h"
#include "lib/transport/grpc/hand_over.h"
#include "lib/transport/grpc/session_core.h"
#include "lib/transport/grpc/tls.h"

namespace muster {

// A gRPC call that may be cancelled by any thread while its owner lets go of it.
template <class Context, class Stream>
class CallHolder {
 public:
  struct Call {
    std::unique_ptr<Context> context;
    std::unique_ptr<Stream> stream;  // destroyed before its context
  };

  void Set(std::unique_ptr<Context> context, std::unique_ptr<Stream> stream) {
    MutexLock lock(mutex_);
    call_ = std::make_shared<Call>(Call{std::move(context), std::move(stream)});
  }
  // To start an operation of the call that ends in `done`. All of them end before Reset.
  Stream* ForOperation(Completion* done) const {
    MutexLock lock(mutex_);
    Stream* const stream = call_->stream.get();
    GiveToGrpc(done);
    return stream;
  }
  void Cancel() {
    std::shared_ptr<Call> call;
    {
      MutexLock lock(mutex_);
      call = call_;
    }
    if (call) call->context->TryCancel();
  }
  void Reset() {
    std::shared_ptr<Call> call;
    MutexLock lock(mutex_);
    call.swap(call_);
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
};

class ClientStream final : public SessionCore {
 public:
  ClientStream(std::shared_ptr<SessionRegistry> registry, std::string peer,
               grpc::CompletionQueue* queue, SessionHandler handler);

  // Over TLS with our identity; without one in plain text.
  struct Way {
    std::string target;
    std::shared_ptr<IdentitySource> own;         // may be null
    const grpc::ResourceQuota* quota = nullptr;  // may be null
  };
  // One of both, once, after the registry has taken the core. Fail: broken before it began.
  void Connect(const Way& way, Duration timeout);
  void Fail(const absl::Status& why);
  std::optional<PeerName> ProvenPeer() const override;

 protected:
  void StartRead(grpc::ByteBuffer* message, Completion* done) override;
  void StartWrite(const grpc::ByteBuffer& message, Completion* done) override;
  void StartFinish(const absl::Status& why, Completion* done) override;
  void Cancel() override { call_.Cancel(); }
  void Release() override { call_.Reset(); }
  bool FinishSpeaks() const override { return false; }
  absl::Status PeerReason() const override;

 private:
  void OnTimer(bool expired);
  void OnStarted(bool ok);
  void OnAnswered(bool ok);

  grpc::CompletionQueue* const queue_;
  const std::optional<ExpectedPeer> expected_;
  const std::shared_ptr<FoundPeer> found_ = std::make_shared<FoundPeer>();
  std::shared_ptr<IdentitySource> own_;  // null over plain text, and until Connect
  absl::Status late_;                    // what a fired timer means
  Operation timer_operation_;
  Operation start_operation_;
  Operation answer_operation_;
  grpc::Alarm timer_;
  CallHolder<grpc::ClientContext, grpc::GenericClientAsyncReaderWriter> call_;
  grpc::Status status_;  // valid once finished
};

class ServerStream final : public SessionCore {
 public:
  ServerStream(std::shared_ptr<SessionRegistry> registry,
               std::unique_ptr<grpc::GenericServerContext> context,
               std::unique_ptr<grpc::GenericServerAsyncReaderWriter> stream);

  void Admit() override;
  // Before Accept or Reject: what it comes on. That it is no session is answered as a call is.
  void ComesOn(std::shared_ptr<GivenSocket> connection, bool is_session) {
    connection_ = std::move(connection);
    is_session_ = is_session;
  }
  // Before Accept.
  void Proved(PeerName peer, std::string key) {
    proven_ = std::move(peer);
    proven_key_ = std::move(key);
  }
  std::optional<PeerName> ProvenPeer() const override { return proven_; }
  std::string ProvenKey() const override { return proven_key_; }
  // One of both, once, after the registry has taken the core.
  void Accept(SessionHandler handler);
  void Reject(const grpc::Status& why);

 protected:
  void StartRead(grpc::ByteBuffer* message, Completion* done) override;
  void StartWrite(const grpc::ByteBuffer& message, Completion* done) override;
  void StartFinish(const absl::Status& why, Completion* done) override;
  void Cancel() override { call_.Cancel(); }
  void Release() override;
  bool FinishSpeaks() const override { return true; }
  absl::Status PeerReason() const override;

 private:
  CallHolder<grpc::GenericServerContext, grpc::GenericServerAsyncReaderWriter> call_;
  std::shared_ptr<GivenSocket> connection_;  // null: it was closed by then
  bool is_session_ = true;
  std::optional<PeerName> proven_;
  std::string proven_key_;
  Operation answer_operation_;
  Operation reject_operation_;
};

}  // namespace muster
