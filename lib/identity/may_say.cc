#include "lib/identity/may_say.h"

#include <variant>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

struct Row {
  const char* kind;
  bool allowed;
};

// The first frame of a session says for whom it speaks, so it is compared with the name. The others
// speak for the one who began the session.
class Rows {
 public:
  explicit Rows(const PeerName& who)
      : member_(std::get_if<MemberPeer>(&who.who)), host_(std::get_if<HostPeer>(&who.who)) {}

  Row operator()(const AskJob& ask) const { return {"AskJob", Is(ask.job, ask.name)}; }
  Row operator()(const Join& join) const {
    return {"Join", Is(join.job, join.id) && member_->placement == join.placement};
  }
  Row operator()(const Sealed&) const { return {"Sealed", IsMember()}; }
  Row operator()(const HoldsBase&) const { return {"HoldsBase", IsMember()}; }
  Row operator()(const BaseFailed&) const { return {"BaseFailed", IsMember()}; }
  Row operator()(const Records&) const { return {"Records", IsMember()}; }
  Row operator()(const SegmentWritten&) const { return {"SegmentWritten", IsMember()}; }
  Row operator()(const SegmentFailed&) const { return {"SegmentFailed", IsMember()}; }
  Row operator()(const Alive&) const { return {"Alive", IsMember()}; }
  Row operator()(const LanesNotFinite&) const { return {"LanesNotFinite", IsMember()}; }
  Row operator()(const Measured&) const { return {"Measured", IsMember()}; }
  Row operator()(const MeasureFailed&) const { return {"MeasureFailed", IsMember()}; }
  Row operator()(const Spooled&) const { return {"Spooled", IsMember()}; }

  Row operator()(const AgentHello& hello) const {
    return {"AgentHello", host_ != nullptr && host_->host == hello.agent.host};
  }
  Row operator()(const ProcessExited&) const { return {"ProcessExited", IsHost()}; }
  Row operator()(const AgentEnds&) const { return {"AgentEnds", IsHost()}; }
  Row operator()(const LogLines&) const { return {"LogLines", IsHost()}; }
  Row operator()(const DevicesHeld&) const { return {"DevicesHeld", IsHost()}; }
  Row operator()(const SignMember&) const { return {"SignMember", IsHost()}; }
  Row operator()(const AgentTrusts&) const { return {"AgentTrusts", IsHost()}; }

  Row operator()(const Hello& hello) const { return {"Hello", Is(hello.job, hello.from)}; }
  Row operator()(const Inventory&) const { return {"Inventory", IsMember()}; }
  Row operator()(const Partials&) const { return {"Partials", IsMember()}; }
  Row operator()(const Results&) const { return {"Results", IsMember()}; }
  Row operator()(const Norms&) const { return {"Norms", IsMember()}; }
  Row operator()(const GlobalNorm&) const { return {"GlobalNorm", IsMember()}; }
  Row operator()(const Fetch&) const { return {"Fetch", IsMember()}; }
  Row operator()(const Pieces&) const { return {"Pieces", IsMember()}; }

 private:
  bool IsMember() const { return member_ != nullptr; }
  bool IsHost() const { return host_ != nullptr; }
  bool Is(const std::string& job, const std::string& name) const {
    return member_ != nullptr && member_->job == job && member_->name == name;
  }
  bool Is(const std::string& job, const MemberId& id) const {
    return Is(job, id.name) && member_->incarnation == id.incarnation;
  }

  const MemberPeer* const member_;
  const HostPeer* const host_;
};

template <class Message>
absl::Status Judge(const PeerName& who, const Message& message) {
  const Row row = std::visit(Rows(who), message);
  if (row.allowed) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(ToUri(who), " may not say ", row.kind,
                                                  ", or not in the name of the one it gave"));
}

}  // namespace

absl::Status MaySay(const PeerName& who, const ToCoordinator& message) {
  return Judge(who, message);
}
absl::Status MaySay(const PeerName& who, const FromAgent& message) { return Judge(who, message); }
absl::Status MaySay(const PeerName& who, const PeerMessage& message) { return Judge(who, message); }

}  // namespace muster
