#include "lib/member/state/stream_session.h"

#include "absl/strings/str_cat.h"

namespace muster {

std::vector<StreamSessionAction> StreamSession::Handle(const StreamSessionInput& input) {
  Actions out;
  std::visit([&](const auto& x) { On(x, out); }, input);
  return out;
}

std::string StreamSession::Phase() const {
  if (!begun_) return "waiting to be told from where the stream goes on";
  return absl::StrCat("reading the stream; ", positions_, " samples are safe");
}

void StreamSession::On(const CoordinatorUp&, Actions& out) {
  begun_ = false;
  Join join = IntroductionOf(config_, obeyed_);
  join.stream_positions = positions_;
  out.emplace_back(TellCoordinator{std::move(join)});
}

void StreamSession::On(const CoordinatorSays& says, Actions& out) {
  if (!obeyed_.WhyNot(says.message).empty()) return;
  std::visit([&](const auto& message) { On(message, out); }, says.message);
}

// Before the coordinator has said how far it is, nobody knows whether this follows. Nothing is
// lost: the reader says again what is not acknowledged when it hears that.
void StreamSession::On(const Spooled& spooled, Actions& out) {
  if (begun_) out.emplace_back(TellCoordinator{spooled});
}

void StreamSession::On(const JobIs& job, Actions&) {
  if (obeyed_.cluster.empty()) obeyed_.cluster = job.cluster;
}

void StreamSession::On(const SpoolFrom& from, Actions& out) {
  begun_ = true;
  positions_ = std::max(positions_, from.positions);
  out.emplace_back(GiveReader{from});
}

void StreamSession::On(const AckSpooled& ack, Actions& out) {
  if (!begun_) return;
  positions_ = std::max(positions_, ack.positions);
  out.emplace_back(GiveReader{ack});
}

void StreamSession::On(const Leave& leave, Actions& out) {
  out.emplace_back(Quit{leave.exit_code, leave.reason});
}

}  // namespace muster
