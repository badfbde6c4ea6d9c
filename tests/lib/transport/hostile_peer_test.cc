#include <arpa/inet.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lib/transport/grpc/frame_codec.h"
#include "lib/transport/grpc/given_sockets.h"
#include "lib/transport/grpc/settings.h"
#include "lib/transport/grpc/stream_counts.h"
#include "tests/lib/http/raw_client.h"
#include "tests/lib/transport/grpc_world.h"
#include "tests/lib/transport/http2_words.h"

namespace muster {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

class Socket {
 public:
  Socket() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool Connect(const std::string& address) {
    const HostPort to = *ParseHostPort(address);
    sockaddr_in name{.sin_family = AF_INET, .sin_port = htons(to.port)};
    inet_pton(AF_INET, to.host.c_str(), &name.sin_addr);
    return connect(fd_, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0;
  }
  // Listens and never accepts; the address.
  std::string ListenAndIgnore() {
    sockaddr_in name{.sin_family = AF_INET};
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(name);
    if (bind(fd_, reinterpret_cast<sockaddr*>(&name), size) != 0 || listen(fd_, 8) != 0) return "";
    getsockname(fd_, reinterpret_cast<sockaddr*>(&name), &size);
    return absl::StrCat("127.0.0.1:", ntohs(name.sin_port));
  }
  void Send(const std::string& bytes) { send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void AwaitClosed() {
    char sink[4096];
    while (recv(fd_, sink, sizeof(sink), 0) > 0) {
    }
  }

 private:
  const int fd_;
};

// A foreign gRPC client: sends one message on a stream of `method` and returns how it ended.
// `on_open` is called before it does.
grpc::Status SendRaw(const std::string& address, const std::string& method,
                     const std::string& message, const std::function<void()>& on_open = {}) {
  auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto stream = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  grpc::Status status;
  stream->StartCall(nullptr);
  queue.Next(&tag, &ok);
  if (on_open) on_open();
  const grpc::Slice slice(message);
  stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  queue.Next(&tag, &ok);
  stream->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return status;
}

// As if the first that comes beside the good one had said who it is.
void AdmitNext(Lobby& lobby) {
  const std::optional<Accepted> next = lobby.Await(1);
  ASSERT_TRUE(next.has_value());
  next->session->Admit();
}

TEST_F(GrpcPair, AHeaderLongerThanItsMessageBreaksOnlyThatSession) {
  const grpc::Status status =
      SendRaw(listener_->Address(), kSessionMethod, std::string("\x40\0\0\0short", 9));
  EXPECT_THAT(status.error_message(), HasSubstr("header length 64"));
  const std::optional<Accepted> hostile = lobby_.Await(1);
  ASSERT_TRUE(hostile.has_value());
  ASSERT_TRUE(hostile->recorder->AwaitBroken());
  EXPECT_EQ(hostile->recorder->broken().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(hostile->recorder->TakeFrames(), IsEmpty());
  EXPECT_EQ(server_->counters().frames_refused, 1u);
  EXPECT_THAT(refusals(), ElementsAre(HasSubstr("header length 64")));
}

TEST_F(GrpcPair, AnEmptyMessageIsRefused) {
  SendRaw(listener_->Address(), kSessionMethod, "");
  ASSERT_TRUE(lobby_.Await(1).has_value());
  ASSERT_TRUE(lobby_.Await(1)->recorder->AwaitBroken());
  EXPECT_EQ(lobby_.Await(1)->recorder->broken().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GrpcPair, APayloadAboveTheLimitIsResourceExhausted) {
  const std::string message(4 + kMaxPayloadBytes + 1, '\0');
  // A stranger may not bring so much: it may be cut off before all is read.
  const grpc::Status status =
      SendRaw(listener_->Address(), kSessionMethod, message, [this] { AdmitNext(lobby_); });
  EXPECT_THAT(status.error_message(), HasSubstr(absl::StrCat(kMaxPayloadBytes + 1)));
  ASSERT_TRUE(lobby_.Await(1).has_value());
  ASSERT_TRUE(lobby_.Await(1)->recorder->AwaitBroken());
  EXPECT_EQ(lobby_.Await(1)->recorder->broken().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(GrpcPair, AMessageAboveAnyFrameIsNotEvenReceived) {
  const grpc::Status status =
      SendRaw(listener_->Address(), kSessionMethod, std::string(kMaxMessageBytes + 1, '\0'),
              [this] { AdmitNext(lobby_); });
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(lobby_.Await(1).has_value());
  EXPECT_TRUE(lobby_.Await(1)->recorder->AwaitBroken());
  EXPECT_THAT(lobby_.Await(1)->recorder->TakeFrames(), IsEmpty());
}

TEST_F(GrpcPair, AnUnknownMethodIsUnimplemented) {
  const grpc::Status status = SendRaw(listener_->Address(), "/muster.v1.Exchange/Other", "x");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(GrpcPair, GarbageAndSilenceOnThePortDisturbNobody) {
  Socket silent;
  ASSERT_TRUE(silent.Connect(listener_->Address()));
  Socket half_a_preface;
  ASSERT_TRUE(half_a_preface.Connect(listener_->Address()));
  half_a_preface.Send("PRI * HTTP/2.0\r\n");
  for (uint32_t i = 0; i < 50; ++i) {
    Socket garbage;
    ASSERT_TRUE(garbage.Connect(listener_->Address()));
    const std::string preface = i % 2 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
    garbage.Send(preface + Pattern(i, 2000));
    garbage.AwaitClosed();
    if (i % 10 == 0) ExpectUndisturbed();
  }
}

TEST_F(GrpcPair, WhoOpensAndCancelsSessionsWithoutEndIsClosedAndLeavesNone) {
  http::RawClient hasty(listener_->Address());
  hasty.Send(CallsThatAreLeft(kSessionMethod, 2000));  // it may be closed before the last of them
  EXPECT_TRUE(hasty.AwaitClosed()) << "2000 sessions on one connection";
  for (size_t i = 1; i < lobby_.size(); ++i)
    EXPECT_TRUE(lobby_.Await(i)->recorder->AwaitBroken()) << i;
}

// Nothing else closes it: these are fewer bytes than a stranger may bring, and each ping is
// answered as long as the connection stands.
TEST_F(GrpcPair, WhoAsksForWhatIsNotServedAndLeavesBeforeTheAnswerIsClosed) {
  constexpr size_t kPings = 5000;
  const std::string ping = Http2Frame(kPing, 0, 0, "stillup!");
  const std::string words = CallsThatAreLeft("/No/Method", 400);
  ASSERT_LT(words.size() + kPings * ping.size(), kMostOfStranger);
  http::RawClient hasty(listener_->Address());
  hasty.Send(words);
  bool stands = true;
  for (size_t i = 0; i < kPings && stands; ++i)
    stands = hasty.Send(ping) && hasty.ReadUntil("stillup!").ends_with("stillup!");
  EXPECT_FALSE(stands) << "400 calls that nobody waits for";
}

// gRPC makes them calls only later, each of some kilobytes, and hands none to us while it is busy.
TEST_F(GrpcPair, StreamsAreCountedWhenTheyAreRead) {
  constexpr uint32_t kStreams = 7;
  http::RawClient client(listener_->Address());
  ASSERT_TRUE(client.Send(CallsThatAreLeft("/No/Method", kStreams)));
  const std::string peer = client.Address();
  std::optional<ConnectionNumber> number;
  while (!(number = NumberOfConnection(peer, 0))) std::this_thread::yield();
  while (CountStreams(*number).value().started < kStreams) std::this_thread::yield();
  EXPECT_EQ(CountStreams(*number).value().started, kStreams);
  EXPECT_FALSE(NumberOfConnection(peer, *number)) << "it is not above itself";
  client.Close();
  while (CountStreams(*number)) std::this_thread::yield();
}

TEST_F(GrpcPair, AHeaderWithoutEndIsNotTakenForLong) {
  http::RawClient endless(listener_->Address());
  ASSERT_TRUE(endless.Send(kPreface + Http2Frame(kSettings, 0, 0, "") +
                           Http2Frame(kHeaders, 0, 1, HeadersOfACall(kSessionMethod))));
  const std::string more = Http2Frame(kContinuation, 0, 1, HpackField("x", std::string(100, 'y')));
  std::string words;
  while (words.size() <= kMostOfStranger) words += more;
  endless.Send(words);  // and then it waits, as if there were more to say
  EXPECT_TRUE(endless.AwaitClosed()) << words.size() << " bytes were taken, and more would be";
}

// CVE-2023-1428: gRPC 1.51 ended where one of these came before headers that are too long together.
TEST_F(GrpcPair, HeadersThatEndedGrpcOnceDisturbNobody) {
  std::string long_ones;
  while (long_ones.size() < 3 * 4096) long_ones += HpackField("x", std::string(100, 'y'));
  for (const std::string& odd : {HpackField("te", "x"), HpackField(":scheme", "x"),
                                 HpackField("grpclb_client_stats", "x")}) {
    http::RawClient client(listener_->Address());
    client.Send(
        kPreface + Http2Frame(kSettings, 0, 0, "") +
        Http2Frame(kHeaders, kEndHeaders, 1, HeadersOfACall(kSessionMethod) + odd + long_ones) +
        Http2Frame(kPing, 0, 0, "stillup!"));
    client.ReadUntil("stillup!");
    ExpectUndisturbed();
  }
}

TEST_F(GrpcPair, OneWhoWasAdmittedMayBringAnything) {
  constexpr size_t kFrames = 16;
  const auto recorder = std::make_shared<Recorder>();
  auto server = MakeGrpcTransport({});
  std::shared_ptr<Session> welcome;
  auto listener = server->Listen("127.0.0.1:0", [&](std::shared_ptr<Session> session) {
    welcome = std::move(session);
    SessionHandler handler = recorder->Handler({.first_frame = 100});
    handler.on_frame = [&welcome, take = handler.on_frame](Frame frame) {
      welcome->Admit();
      take(std::move(frame));
    };
    return handler;
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  const auto own = std::make_shared<Recorder>();
  auto session = client_->Connect((*listener)->Address(), kConnectTimeout, own->Handler());
  session->Send(HeaderFrame("hello"));
  ASSERT_TRUE(recorder->AwaitFrames(1)) << own->broken();
  for (size_t i = 0; i < kFrames; ++i) session->Send(PatternFrame("more", 1, 1 << 20, 1 << 20));
  EXPECT_TRUE(recorder->AwaitFrames(1 + kFrames)) << own->broken();
  session.reset();
  welcome.reset();
  listener->reset();
}

TEST_F(GrpcPair, CountersCountHeadersAndPayloads) {
  session_->Send(PatternFrame("head", 1, 1000, 100));
  ASSERT_TRUE(accepted_.recorder->AwaitFrames(++sent_));
  EXPECT_EQ(server_->counters().bytes_received, 1004u);
}

TEST(GrpcConnect, APeerThatNeverAnswersIsLate) {
  Socket mute;
  const std::string address = mute.ListenAndIgnore();
  auto transport = MakeGrpcTransport({});
  auto recorder = std::make_shared<Recorder>();
  auto session = transport->Connect(address, std::chrono::milliseconds(100), recorder->Handler());
  ASSERT_TRUE(recorder->AwaitBroken());
  EXPECT_EQ(recorder->broken().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(recorder->broken().ToString(), HasSubstr(address));
}

TEST(GrpcConnect, AForeignServerIsUnimplemented) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  grpc::CallbackGenericService knows_nothing;
  builder.RegisterCallbackGenericService(&knows_nothing);
  auto server = builder.BuildAndStart();
  auto transport = MakeGrpcTransport({});
  auto recorder = std::make_shared<Recorder>();
  auto session =
      transport->Connect(absl::StrCat("127.0.0.1:", port), kConnectTimeout, recorder->Handler());
  EXPECT_TRUE(recorder->AwaitBroken());
  EXPECT_EQ(recorder->broken().code(), absl::StatusCode::kUnimplemented) << recorder->broken();
  server->Shutdown();
}

TEST(GrpcAddresses, BeyondLoopbackIsRefusedOnBothSidesWithTheReason) {
  auto transport = MakeGrpcTransport({});
  for (const char* address : {"0.0.0.0:0", "[::]:0", "example.org:80", "192.0.2.1:80"}) {
    const auto listener = transport->Listen(address, nullptr);
    EXPECT_EQ(listener.status().code(), absl::StatusCode::kFailedPrecondition) << address;
    EXPECT_THAT(listener.status().ToString(), HasSubstr("certificates"));
    auto recorder = std::make_shared<Recorder>();
    auto session = transport->Connect(address, kConnectTimeout, recorder->Handler());
    ASSERT_TRUE(recorder->AwaitBroken());
    EXPECT_EQ(recorder->broken().code(), absl::StatusCode::kFailedPrecondition) << address;
  }
  EXPECT_EQ(transport->Listen("nonsense", nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GrpcAddresses, LocalhostIsOnePort) {
  auto transport = MakeGrpcTransport({});
  Lobby lobby;
  auto listener = transport->Listen("localhost:0", lobby.acceptor());
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_THAT((*listener)->Address(), HasSubstr("127.0.0.1:"));
  const std::string port = (*listener)->Address().substr(10);
  auto recorder = std::make_shared<Recorder>();
  auto session = transport->Connect("localhost:" + port, kConnectTimeout, recorder->Handler());
  EXPECT_TRUE(lobby.Await(0).has_value());
  listener->reset();
}

}  // namespace
}  // namespace muster
