#include "lib/transport/grpc/streams.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lib/base/loopback.h"
#include "lib/base/status.h"
#include "lib/transport/grpc/settings.h"

namespace muster {
namespace {

gpr_timespec FromNow(Duration delay) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(delay.count(), GPR_TIMESPAN));
}

}  // namespace

ClientStream::ClientStream(std::shared_ptr<SessionRegistry> registry, std::string peer_address,
                           grpc::CompletionQueue* queue, SessionHandler handler)
    : SessionCore(std::move(registry), std::move(peer_address)),
      queue_(queue),
      expected_(handler.expected),
      timer_operation_(this, [this](bool expired) { OnTimer(expired); }),
      start_operation_(this, [this](bool ok) { OnStarted(ok); }),
      answer_operation_(this, [this](bool ok) { OnAnswered(ok); }) {
  SetHandler(std::move(handler));
}

void ClientStream::Connect(const Way& way, Duration timeout) {
  late_ = absl::DeadlineExceededError(absl::StrCat(
      "not connected to ", peer(), " within ", absl::FormatDuration(absl::FromChrono(timeout))));
  own_ = way.own;
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_wait_for_ready(false);
  grpc::ChannelArguments settings = ChannelSettings();
  if (way.quota != nullptr) settings.SetResourceQuota(*way.quota);
  const auto credentials =
      way.own ? TlsOfConnection(way.own, expected_, found_) : grpc::InsecureChannelCredentials();
  grpc::GenericStub stub(grpc::CreateCustomChannel(way.target, credentials, settings));
  auto stream = stub.PrepareCall(context.get(), kSessionMethod, queue_);
  call_.Set(std::move(context), std::move(stream));
  CountOperation();
  CountOperation();
  GiveToGrpc(&timer_operation_);
  timer_.Set(queue_, FromNow(timeout), &timer_operation_);
  call_.ForOperation(&start_operation_)->StartCall(&start_operation_);
}

void ClientStream::Fail(const absl::Status& why) {
  BreakUnopened(why);
  CountOperation();
  GiveToGrpc(&timer_operation_);
  timer_.Set(queue_, gpr_now(GPR_CLOCK_MONOTONIC), &timer_operation_);
}

void ClientStream::OnTimer(bool expired) {
  if (expired && BreakUnopened(late_)) Cancel();
}

void ClientStream::OnStarted(bool ok) {
  if (!ok) return OnAnswered(false);
  CountOperation();
  call_.ForOperation(&answer_operation_)->ReadInitialMetadata(&answer_operation_);
}

void ClientStream::OnAnswered(bool ok) {
  timer_.Cancel();
  // They may have refused us: then ours may be the identity that is out of date.
  if (!ok && own_) own_->LookSoon();
  if (const absl::StatusOr<HostPort> address = ParseHostPort(peer()); ok && address.ok())
    ApplySocketSettingsTo(*address);
  Opened(ok);
}

void ClientStream::StartRead(grpc::ByteBuffer* message, Completion* done) {
  call_.ForOperation(done)->Read(message, done);
}
void ClientStream::StartWrite(const grpc::ByteBuffer& message, Completion* done) {
  call_.ForOperation(done)->Write(message, done);
}
void ClientStream::StartFinish(const absl::Status& /*why*/, Completion* done) {
  call_.ForOperation(done)->Finish(&status_, done);
}
// Of whom the handshake refused gRPC says only that it failed.
absl::Status ClientStream::PeerReason() const {
  const std::optional<absl::StatusOr<PeerName>> found = found_->Get();
  if (found && !found->ok()) return Prefix(peer(), found->status());
  if (own_ && status_.error_code() == grpc::StatusCode::UNAUTHENTICATED) own_->LookSoon();
  return BreakReason(status_, peer());
}
std::optional<PeerName> ClientStream::ProvenPeer() const {
  const std::optional<absl::StatusOr<PeerName>> found = found_->Get();
  return found && found->ok() ? std::make_optional(**found) : std::nullopt;
}

ServerStream::ServerStream(std::shared_ptr<SessionRegistry> registry,
                           std::unique_ptr<grpc::GenericServerContext> context,
                           std::unique_ptr<grpc::GenericServerAsyncReaderWriter> stream)
    : SessionCore(std::move(registry), ReadablePeer(context->peer())),
      answer_operation_(this, [this](bool ok) { Opened(ok); }),
      reject_operation_(this, [this](bool heard) {
        if (heard && connection_ && !is_session_) connection_->CallIsAnswered();
      }) {
  call_.Set(std::move(context), std::move(stream));
}

void ServerStream::Admit() {
  if (connection_) connection_->Admit();
  SessionCore::Admit();
}

void ServerStream::Release() {
  call_.Reset();
  if (connection_ && is_session_) connection_->SessionEnds();
}

void ServerStream::Accept(SessionHandler handler) {
  if (connection_) connection_->SessionMayBring(handler.inbound.first_frame);
  SetHandler(std::move(handler));
  CountOperation();
  call_.ForOperation(&answer_operation_)->SendInitialMetadata(&answer_operation_);
}

void ServerStream::Reject(const grpc::Status& why) {
  SetHandler({[](Frame) {}, [](absl::Status) {}});
  BreakUnopened(absl::UnimplementedError(why.error_message()));
  CountOperation();
  call_.ForOperation(&reject_operation_)->Finish(why, &reject_operation_);
}

void ServerStream::StartRead(grpc::ByteBuffer* message, Completion* done) {
  call_.ForOperation(done)->Read(message, done);
}
void ServerStream::StartWrite(const grpc::ByteBuffer& message, Completion* done) {
  if (connection_) connection_->Stir();
  call_.ForOperation(done)->Write(message, done);
}
void ServerStream::StartFinish(const absl::Status& why, Completion* done) {
  const absl::Status reason = why.ok() ? absl::CancelledError("session ended") : why;
  call_.ForOperation(done)->Finish(GoodbyeStatus(reason), done);
}
absl::Status ServerStream::PeerReason() const {
  return absl::UnavailableError(
      absl::StrCat("session with ", peer(),
                   " broke: the peer closed it, died, or sent a message above the limits; or the "
                   "way to it is cut, or long packets are lost on the way (compare the MTU of both "
                   "ends)"));
}

}  // namespace muster
