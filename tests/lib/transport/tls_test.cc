#include "lib/transport/grpc/tls.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <future>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/identity/keys.h"
#include "lib/identity/tls_greeting.h"
#include "lib/transport/grpc/settings.h"
#include "tests/lib/http/raw_client.h"
#include "tests/lib/http/tls_layer.h"
#include "tests/lib/transport/http2_words.h"
#include "tests/lib/transport/identities.h"
#include "tests/lib/transport/transport_suite.h"

namespace muster {

using testing::HasSubstr;

namespace {

constexpr char kHealth[] = "/grpc.health.v1.Health/Check";

// A coordinator's port and the session of a member, which nobody below may disturb.
class TlsPort : public testing::Test {
 protected:
  void SetUp() override {
    auto listener = server_->Listen("127.0.0.1:0", lobby_.acceptor());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    session_ = client_->Connect(listener_->Address(), kConnectTimeout, recorder_->Handler());
    const std::optional<Accepted> accepted = lobby_.Await(0);
    ASSERT_TRUE(accepted.has_value()) << recorder_->broken();
    accepted_ = *accepted;
  }
  void TearDown() override {
    ExpectUndisturbed();
    listener_.reset();
  }
  void ExpectUndisturbed() {
    session_->Send(HeaderFrame("steady"));
    EXPECT_TRUE(accepted_.recorder->AwaitFrames(++sent_)) << accepted_.recorder->broken();
  }

  // Whether a frame gets through to the port; otherwise how the session broke.
  absl::Status Reach(Transport& from, std::optional<ExpectedPeer> expected = std::nullopt) {
    return Reach(from, *listener_, lobby_, std::move(expected));
  }
  static absl::Status Reach(Transport& from, const Listener& listener, Lobby& lobby,
                            std::optional<ExpectedPeer> expected = std::nullopt) {
    const size_t before = lobby.size();
    const auto recorder = std::make_shared<Recorder>();
    SessionHandler handler = recorder->Handler();
    Signal broke;
    handler.expected = std::move(expected);
    handler.on_broken = [&broke, tell = handler.on_broken](absl::Status why) {
      tell(std::move(why));
      broke.Raise();
    };
    const auto session = from.Connect(listener.Address(), kConnectTimeout, std::move(handler));
    session->Send(HeaderFrame("hello"));
    const Time until = PatienceEnds();
    while (lobby.size() == before && recorder->broken_calls() == 0 && RealClock().Now() < until)
      std::this_thread::yield();
    if (lobby.size() == before) return recorder->broken();
    const bool arrived = lobby.Await(before)->recorder->AwaitFrames(1);
    session->Close(absl::CancelledError("seen"));
    broke.Await();
    return arrived ? absl::OkStatus() : absl::DeadlineExceededError("no frame came");
  }

  const Authority authority_ = TestAuthority();
  const std::shared_ptr<IdentitySource> coordinator_ =
      IdentitySource::Of(TestIdentity(authority_, kCoordinatorName));
  const std::shared_ptr<IdentitySource> member_ =
      IdentitySource::Of(TestIdentity(authority_, MemberName("w0")));
  std::unique_ptr<GrpcTransport> server_ = TlsTransport(coordinator_);
  std::unique_ptr<GrpcTransport> client_ = TlsTransport(member_);
  Lobby lobby_;
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  std::shared_ptr<Session> session_;
  Accepted accepted_;
  size_t sent_ = 0;
};

TEST_F(TlsPort, BothEndsKnowWhoTheOtherIs) {
  EXPECT_EQ(accepted_.session->ProvenPeer(), MemberName("w0"));
  EXPECT_EQ(accepted_.session->ProvenKey(),
            HashOfKey(PublicKeyOf(member_->Get()->key_pem).value()));
  accepted_.session->Send(HeaderFrame("back"));
  ASSERT_TRUE(recorder_->AwaitFrames(1));
  EXPECT_EQ(session_->ProvenPeer(), kCoordinatorName);
}

TEST_F(TlsPort, WhoConnectsReachesWhomItExpectsAndNobodyElse) {
  EXPECT_TRUE(Reach(*client_, CoordinatorPeer{}).ok());
  const size_t before = lobby_.size();
  const absl::Status another = Reach(*client_, ExpectedMember{"demo", "w1", {5, 6}});
  EXPECT_EQ(another.code(), absl::StatusCode::kPermissionDenied) << another;
  EXPECT_THAT(std::string(another.message()), HasSubstr("w1 of job demo"));
  EXPECT_EQ(lobby_.size(), before) << "no session, and so no frame, came of it";
}

TEST_F(TlsPort, MembersAreToldApartByJobNameAndIncarnation) {
  Lobby lobby;
  const auto w1 = TlsTransport(TestIdentity(authority_, MemberName("w1")));
  auto listener = w1->Listen("127.0.0.1:0", lobby.acceptor());
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(Reach(*client_, **listener, lobby, ExpectedMember{"demo", "w1", {5, 6}}).ok());
  for (const ExpectedPeer& other :
       {ExpectedPeer(ExpectedMember{"demo", "w2", {5, 6}}),
        ExpectedPeer(ExpectedMember{"other", "w1", {5, 6}}),
        ExpectedPeer(ExpectedMember{"demo", "w1", {5, 7}}), ExpectedPeer(CoordinatorPeer{})})
    EXPECT_EQ(Reach(*client_, **listener, lobby, other).code(),
              absl::StatusCode::kPermissionDenied);
}

struct Stranger {
  const char* what;
  Identity identity;
};

// They trust our authority, so that it is us who refuses them. `other_end`: for what a certificate
// is of no use here.
std::vector<Stranger> Strangers(const Authority& ours, const PeerName& name,
                                const char* other_end) {
  const Identity good = TestIdentity(ours, name);
  Identity foreign = TestIdentity(TestAuthority(), name);
  foreign.authority_pem = ours.certificates_pem;
  const std::string uri = absl::StrCat("URI:", ToUri(name));
  Identity other = TestIdentity(ours, {"c2", name.who});
  other.name = name;
  Identity authority = good;
  authority.certificate_pem = ours.certificates_pem;
  authority.key_pem = ours.key_pem;
  return {{"foreign authority", foreign},
          {"expired", TestIdentity(ours, name, -absl::Hours(48))},
          {"not yet valid", TestIdentity(ours, name, absl::Hours(2))},
          {"other cluster", other},
          {"two names", WithNames(ours, good, absl::StrCat(uri, ",", uri, "0").c_str())},
          {"no name", WithNames(ours, good, "DNS:localhost")},
          {"a name of nobody", WithNames(ours, good, "URI:spiffe://c1/king")},
          {"for the other end of a connection", ForOneEnd(ours, good, other_end)},
          {"the authority itself", authority}};
}

bool IsRefusal(const absl::Status& how) {
  return absl::IsUnavailable(how) || absl::IsUnauthenticated(how);
}

TEST_F(TlsPort, StrangersWhoConnectAreRefused) {
  for (const Stranger& stranger : Strangers(authority_, MemberName("w1"), "serverAuth")) {
    const size_t before = lobby_.size();
    const absl::Status how = Reach(*TlsTransport(stranger.identity));
    EXPECT_TRUE(IsRefusal(how)) << stranger.what << ": " << how;
    EXPECT_EQ(lobby_.size(), before) << stranger.what;
  }
  EXPECT_TRUE(IsRefusal(Reach(*MakeGrpcTransport({})))) << "without a certificate";
  EXPECT_TRUE(Reach(*TlsTransport(TestIdentity(authority_, MemberName("w1")))).ok());
}

// Its identity may have been replaced meanwhile.
TEST_F(TlsPort, WhoIsRefusedLooksForItsOwnIdentity) {
  for (const Stranger& stranger : Strangers(authority_, MemberName("w1"), "serverAuth")) {
    const auto own = IdentitySource::Of(stranger.identity);
    EXPECT_FALSE(Reach(*TlsTransport(own)).ok()) << stranger.what;
    EXPECT_TRUE(own->looks_soon()) << stranger.what;
  }
  EXPECT_FALSE(member_->looks_soon()) << "nobody refused it";
}

TEST_F(TlsPort, StrangersWhoListenAreRefused) {
  std::vector<Stranger> all = Strangers(authority_, kCoordinatorName, "clientAuth");
  for (const Stranger& stranger : all) {
    Lobby lobby;
    const auto server = TlsTransport(stranger.identity);
    auto listener = server->Listen("127.0.0.1:0", lobby.acceptor());
    ASSERT_TRUE(listener.ok()) << stranger.what << ": " << listener.status();
    const absl::Status how = Reach(*client_, **listener, lobby, CoordinatorPeer{});
    EXPECT_TRUE(IsRefusal(how)) << stranger.what << ": " << how;
    EXPECT_EQ(lobby.size(), 0u) << stranger.what;
  }
  Lobby lobby;
  const auto plain = MakeGrpcTransport({});
  auto listener = plain->Listen("127.0.0.1:0", lobby.acceptor());
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(IsRefusal(Reach(*client_, **listener, lobby))) << "without a certificate";
}

// One call of a typed service.
grpc::Status Ask(const std::string& address, const std::shared_ptr<IdentitySource>& as) {
  const auto channel = grpc::CreateCustomChannel(
      absl::StrCat("ipv4:", address),
      TlsOfConnection(as, std::nullopt, std::make_shared<FoundPeer>()), ChannelSettings());
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const grpc::ByteBuffer request(nullptr, 0);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> ended;
  stub.UnaryCall(&context, kHealth, {}, &request, &response,
                 [&](grpc::Status how) { ended.set_value(std::move(how)); });
  return ended.get_future().get();
}

TEST_F(TlsPort, CallsOfTypedServicesAreOfOursOnly) {
  EXPECT_TRUE(Ask(listener_->Address(), member_).ok());
  for (Stranger& stranger : Strangers(authority_, MemberName("w1"), "serverAuth")) {
    const grpc::Status how =
        Ask(listener_->Address(), IdentitySource::Of(std::move(stranger.identity)));
    EXPECT_FALSE(how.ok()) << stranger.what;
  }
}

// First both authorities are trusted, then the new one signs, then the old one is gone.
TEST_F(TlsPort, TheAuthorityChangesUnderOpenSessionsWithoutALostFrame) {
  const Authority fresh = TestAuthority();
  const Authority both{absl::StrCat(fresh.certificates_pem, authority_.certificates_pem),
                       authority_.key_pem};
  const auto newcomer = TlsTransport(TestIdentity(fresh, MemberName("w1")));
  EXPECT_TRUE(IsRefusal(Reach(*newcomer)));
  for (const auto& source : {coordinator_, member_})
    source->Set(TestIdentity(both, source->Get()->name));
  ExpectUndisturbed();
  EXPECT_TRUE(Reach(*client_).ok());
  const Authority fresh_and_old{both.certificates_pem, fresh.key_pem};
  for (const auto& source : {coordinator_, member_})
    source->Set(TestIdentity(fresh_and_old, source->Get()->name));
  ExpectUndisturbed();
  EXPECT_TRUE(Reach(*client_).ok());
  EXPECT_TRUE(Reach(*newcomer).ok());
  for (const auto& source : {coordinator_, member_})
    source->Set(TestIdentity(fresh, source->Get()->name));
  for (size_t i = 0; i < 100; ++i) {
    session_->Send(PatternFrame("more", static_cast<uint32_t>(i), 100'000, 10'000));
    accepted_.session->Send(HeaderFrame("back"));
  }
  EXPECT_TRUE(accepted_.recorder->AwaitFrames(sent_ += 100)) << accepted_.recorder->broken();
  EXPECT_TRUE(recorder_->AwaitFrames(100)) << recorder_->broken();
  EXPECT_TRUE(Reach(*client_).ok());
  EXPECT_TRUE(Reach(*newcomer).ok());
  EXPECT_TRUE(IsRefusal(Reach(*TlsTransport(TestIdentity(authority_, MemberName("w1"))))));
}

// Old versions, weak keys, and certificates for the other end, of one who would stop at nothing.
TEST_F(TlsPort, IsHeardWithTheVersionsKeysAndUsesOfOursOnly) {
  const Identity good = TestIdentity(authority_, MemberName("w1"));
  const auto let_in = [&](const std::optional<Identity>& own, int version) {
    http::RawClient client(listener_->Address());
    http::TlsLayer layer(client.fd(), version, own ? &*own : nullptr,
                         http::TlsLayer::Speaks::kHttp2);
    if (!layer.ok()) return false;
    char byte = 0;
    return layer.Receive(&byte, 1) == 1;  // of the settings, with which HTTP/2 begins
  };
  EXPECT_FALSE(let_in(good, TLS1_VERSION));
  EXPECT_FALSE(let_in(good, TLS1_1_VERSION));
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    EXPECT_TRUE(let_in(good, version));
    EXPECT_FALSE(let_in(std::nullopt, version)) << "HTTP/2 is for those who have a certificate";
    EXPECT_TRUE(let_in(ForOneEnd(authority_, good, "clientAuth"), version));
    EXPECT_FALSE(let_in(ForOneEnd(authority_, good, "serverAuth"), version));
    EXPECT_TRUE(let_in(WithRsaKey(authority_, good, 2048), version));
    EXPECT_FALSE(let_in(WithRsaKey(authority_, good, 1024), version));
  }
}

// What is wrong with him is for the log of whoever refuses him.
TEST_F(TlsPort, StrangersAreNotToldWhy) {
  std::set<std::string> told;
  for (const Stranger& stranger : Strangers(authority_, MemberName("w1"), "serverAuth")) {
    const absl::Status how = Reach(*TlsTransport(stranger.identity));
    if (absl::IsUnauthenticated(how)) told.insert(std::string(how.message()));
  }
  EXPECT_EQ(told.size(), 1u) << "they differ: " << testing::PrintToString(told);
}

// What TLS 1.2 and 1.3 begin with: a record of a handshake, in it a ClientHello of 508 bytes.
constexpr char kHelloBegins[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

TEST_F(TlsPort, HalfAHandshakeAndOddBytesDisturbNobody) {
  http::RawClient silent(listener_->Address());
  http::RawClient half(listener_->Address());
  ASSERT_TRUE(half.Send(std::string(kHelloBegins, sizeof(kHelloBegins) - 1)));
  http::RawClient plain(listener_->Address());
  plain.Send(kPreface + Http2Frame(kSettings, 0, 0, ""));
  EXPECT_TRUE(plain.AwaitClosed());
  for (uint32_t i = 0; i < 50; ++i) {
    http::RawClient odd(listener_->Address());
    const std::string hello(kHelloBegins, sizeof(kHelloBegins) - 1);
    odd.Send((i % 2 ? hello : "") + Pattern(i, 2000));
    EXPECT_TRUE(odd.AwaitClosed()) << i;
    if (i % 10 == 0) ExpectUndisturbed();
  }
}

TEST_F(TlsPort, AnswersAGreetingThatLeadsToNothing) {
  const absl::StatusOr<std::string> greeting = TlsGreeting();
  ASSERT_TRUE(greeting.ok()) << greeting.status();
  http::RawClient client(listener_->Address());
  ASSERT_TRUE(client.Send(*greeting));
  EXPECT_EQ(client.ReadUntil("\x16"), "\x16") << "a record of a handshake";
}

TEST(FullTlsPort, TurnsAwayInTheWordsOfTls) {
  const Authority authority = TestAuthority();
  GrpcOptions options;
  options.connections = 2;
  const auto server =
      TlsTransport(IdentitySource::Of(TestIdentity(authority, kCoordinatorName)), options);
  Lobby lobby;
  auto listener = server->Listen("127.0.0.1:0", lobby.acceptor());
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::vector<std::unique_ptr<http::RawClient>> all;
  for (size_t i = 0; i < 3; ++i)
    all.push_back(std::make_unique<http::RawClient>((*listener)->Address()));
  EXPECT_EQ(all.back()->ReadToEnd(), std::string("\x15\x03\x03\0\x02\x02\x50", 7));
}

TEST(TlsAddresses, AreAllowedBeyondLoopback) {
  const auto transport = TlsTransport(TestIdentity(TestAuthority(), kCoordinatorName));
  auto listener = transport->Listen("0.0.0.0:0", [](std::shared_ptr<Session>) {
    return SessionHandler{[](Frame) {}, [](absl::Status) {}};
  });
  EXPECT_TRUE(listener.ok()) << listener.status();
}

}  // namespace
}  // namespace muster
