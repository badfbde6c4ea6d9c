#include "lib/member/runtime/coordinator_link.h"

#include <utility>

#include "lib/base/lease.h"
#include "lib/base/status.h"
#include "lib/log/log.h"
#include "lib/wire/message_codec.h"

namespace muster {

CoordinatorLink::CoordinatorLink(Transport& transport, std::string address,
                                 std::shared_ptr<EventBox> events,
                                 std::shared_ptr<std::atomic<LinkId>> next_id, uint64_t seed)
    : transport_(transport),
      addresses_(address),
      events_(std::move(events)),
      next_id_(std::move(next_id)),
      backoff_(seed) {}

CoordinatorLink::~CoordinatorLink() {
  if (session_) session_->Close(absl::CancelledError("the member leaves"));
}

void CoordinatorLink::Connect(Time now) {
  if (away_since_ == Time()) away_since_ = now;
  connect_at_.reset();
  heard_ = false;
  began_ = now;
  id_ = next_id_->fetch_add(1);
  session_ = transport_.Connect(addresses_.current(), kCoordinatorConnectTimeout,
                                {[events = events_, id = id_](Frame frame) {
                                   events->Post(FrameCame{id, std::move(frame)});
                                 },
                                 [events = events_, id = id_](absl::Status why) {
                                   events->Post(SessionBroke{id, std::move(why)});
                                 }});
  session_->Admit();  // we know whom we called
}

void CoordinatorLink::Send(const ToCoordinator& message) {
  if (session_) session_->Send({Encode(message), Payload()});
}

absl::StatusOr<FromCoordinator> CoordinatorLink::Handle(const FrameCame& came) {
  absl::StatusOr<FromCoordinator> message = DecodeFromCoordinator(came.frame.header);
  if (!message.ok()) {
    session_->Close(message.status());
    return Prefix("what came from the coordinator", message.status());
  }
  if (std::exchange(down_told_, false))
    LogInfo("the coordinator at %s is back", addresses_.current());
  if (addresses_.Answers()) LogInfo("the coordinator is at %s", addresses_.current());
  backoff_.Reset();
  heard_ = true;
  return message;
}

void CoordinatorLink::Handle(const SessionBroke& broke, Time now) {
  if (!std::exchange(down_told_, true))
    LogWarning("no coordinator at %s: %s; training goes on, and we try to connect again",
               addresses_.All(), broke.why.ToString());
  // One that answered is most likely to come back where it was, so that is tried first.
  if (IsOpen(now)) {
    away_since_ = now;
  } else {
    addresses_.GoOn();
  }
  session_.reset();
  connect_at_ = now + backoff_.Next();
}

bool CoordinatorLink::IsOpen(Time now) const {
  return session_ != nullptr && (heard_ || now - began_ > 2 * kCoordinatorConnectTimeout);
}

bool CoordinatorLink::Tick(Time now) {
  if (!connect_at_ || *connect_at_ > now) return false;
  Connect(now);
  return true;
}

}  // namespace muster
