// Who comes to a port (docs/identity.md section 6): the columns of the table, and the certificates
// and connections that they come with.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/lib/transport/identities.h"
#include "tests/lib/transport/recorder.h"

namespace muster::identity {

enum class Who {
  kNobody,
  kExpired,
  kForeignAuthority,
  kSelfSigned,
  kOtherCluster,
  kCoordinator,
  kHost,
  kOtherHost,
  kRevokedHost,
  kTwinAgent,
  kMember,
  kOtherMember,
  kOtherJob,
  kEvicted,
  kUser,
  kViewer,
  kSubmitter,
  kOperator,
  kAdmin,
  kOtherNamespace,
  kCount
};
inline constexpr const char* kNamesOfWho[] = {"nobody",
                                              "expired",
                                              "foreign authority",
                                              "self-signed",
                                              "other cluster",
                                              "coordinator",
                                              "host",
                                              "other host",
                                              "revoked host",
                                              "twin agent",
                                              "member",
                                              "another member of the job",
                                              "of another job",
                                              "evicted",
                                              "user",
                                              "viewer",
                                              "submitter",
                                              "operator",
                                              "admin",
                                              "operator of another namespace"};
static_assert(std::size(kNamesOfWho) == static_cast<size_t>(Who::kCount));
inline const char* NameOf(Who who) { return kNamesOfWho[static_cast<size_t>(who)]; }
inline std::vector<Who> Everybody() {
  std::vector<Who> all;
  for (int i = 0; i < static_cast<int>(Who::kCount); ++i) all.push_back(static_cast<Who>(i));
  return all;
}

// Cells that are no question, each with the reason. They are not tried, and not counted.
struct NoQuestion {
  const char* rows;  // for people
  const char* columns;
  const char* why;
};
inline constexpr NoQuestion kNoQuestions[] = {
    {"REST", "those of certificates alone",
     "HTTPS asks for no certificate, so whoever has no token is nobody"},
};

// The users of the columns: of a certificate alone, and of those who show a token besides.
inline const char* UserOf(Who who) {
  switch (who) {
    case Who::kViewer: return "vera";
    case Who::kOperator: return "olga";
    case Who::kAdmin: return "admin";
    case Who::kOtherNamespace: return "nora";
    default: return "ada";
  }
}

// The rightful one, where nobody has placed a member, and its process before.
inline MemberPeer Member() { return {"demo", "worker-1", PlacementNumber(0), Incarnation{5, 6}}; }
inline constexpr Incarnation kProcessBefore{5, 5};
inline MemberId IdOf(const MemberPeer& member) { return {member.name, member.incarnation}; }

class Certificates {
 public:
  const Authority& authority() const { return ours_; }
  // The coordinator has signed this one: who has that name shows it, and no other.
  void Signed(Identity identity) { signed_.push_back(std::move(identity)); }
  // The rightful member has this place, and not the one of Member().
  void PlaceMember(PlacementNumber placement) { member_.placement = placement; }
  // Another member of that job, which takes part in it.
  void SiblingIs(MemberPeer sibling) { sibling_ = std::move(sibling); }
  const MemberPeer& member() const { return member_; }
  MemberPeer evicted() const {
    MemberPeer evicted = member_;
    evicted.incarnation = kProcessBefore;
    return evicted;
  }
  template <class Name>
  Identity Named(Name name) const {
    const PeerName whole{"c1", std::move(name)};
    for (const Identity& identity : signed_)
      if (identity.name == whole) return identity;
    return TestIdentity(ours_, whole);
  }
  // What `who` shows, where `rightful` would be let in; nothing: no certificate.
  std::optional<Identity> Of(Who who, const PeerName& rightful) const {
    switch (who) {
      case Who::kNobody: return std::nullopt;
      case Who::kExpired: return TestIdentity(ours_, rightful, -absl::Hours(48));
      case Who::kForeignAuthority: {
        Identity identity = TestIdentity(foreign_, rightful);
        identity.authority_pem = ours_.certificates_pem;  // so that it is us who refuses
        return identity;
      }
      case Who::kSelfSigned: return SelfSigned(TestIdentity(ours_, rightful));
      case Who::kOtherCluster: return TestIdentity(ours_, {"c2", rightful.who});
      case Who::kCoordinator: return Named(CoordinatorPeer{});
      case Who::kHost: return Named(HostPeer{"alpha"});
      case Who::kTwinAgent: return TestIdentity(ours_, {"c1", HostPeer{"alpha"}});  // another key
      case Who::kOtherHost: return Named(HostPeer{"beta"});
      case Who::kRevokedHost: return Named(HostPeer{"gone"});
      case Who::kMember: return Named(member());
      case Who::kOtherMember: return Named(sibling_);
      case Who::kOtherJob: {
        MemberPeer other = member();
        other.job = "other";
        return Named(other);
      }
      case Who::kEvicted: return Named(evicted());
      case Who::kUser:
      case Who::kViewer:
      case Who::kSubmitter:
      case Who::kOperator:
      case Who::kAdmin:
      case Who::kOtherNamespace:
      case Who::kCount: break;
    }
    return Named(UserPeer{UserOf(who)});
  }
  std::unique_ptr<GrpcTransport> TransportOf(Who who, const PeerName& rightful) const {
    std::optional<Identity> identity = Of(who, rightful);
    return identity ? TlsTransport(*std::move(identity)) : MakeGrpcTransport({});
  }

 private:
  const Authority ours_ = TestAuthority();
  const Authority foreign_ = TestAuthority();
  MemberPeer member_ = Member();
  MemberPeer sibling_{"demo", "worker-2", PlacementNumber(0), Incarnation{2, 2}};
  std::vector<Identity> signed_;
};

// One session of somebody who says frames, and how it ended.
class Attempt {
 public:
  Attempt(std::unique_ptr<GrpcTransport> transport, const std::string& address,
          std::optional<ExpectedPeer> expected = std::nullopt)
      : transport_(std::move(transport)) {
    SessionHandler handler = recorder_->Handler();
    handler.expected = std::move(expected);
    session_ = transport_->Connect(address, kConnectTimeout, std::move(handler));
  }
  template <class Message>
  void Say(const Message& message) {
    session_->Send(HeaderFrame(Encode(message)));
  }
  void SayBytes(const std::string& bytes) { session_->Send(HeaderFrame(bytes)); }
  bool AwaitFrames(size_t count) { return recorder_->AwaitFrames(count); }
  // The header of the next frame that comes; nothing: none does.
  std::optional<std::string> Next() {
    if (came_.empty()) {
      if (!recorder_->AwaitFrames(taken_ + 1)) return std::nullopt;
      for (Frame& frame : recorder_->TakeFrames()) came_.push_back(std::move(frame.header));
      taken_ += came_.size();
    }
    std::string next = std::move(came_.front());
    came_.pop_front();
    return next;
  }
  // Why the other end closed it; OK: it did not.
  absl::Status AwaitEnd() {
    return recorder_->AwaitBroken() ? recorder_->broken() : absl::OkStatus();
  }
  bool is_open() const { return recorder_->broken_calls() == 0; }
  size_t frames() const { return recorder_->frame_count(); }

 private:
  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  const std::unique_ptr<GrpcTransport> transport_;
  std::shared_ptr<Session> session_;
  std::deque<std::string> came_;
  size_t taken_ = 0;
};

// Each kind of a variant of messages, as a value of which nothing is filled in.
template <class Variant, class Do>
void ForEachKind(Do do_it) {
  [&]<size_t... i>(std::index_sequence<i...>) { (do_it(Variant(std::in_place_index<i>)), ...); }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
}

}  // namespace muster::identity
