// What a port of HTTPS does beyond what it does in plain text, to hostile clients too, and whom the
// client takes for the coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lib/base/mailbox.h"
#include "lib/http/beast.h"
#include "lib/http/client.h"
#include "lib/http/server.h"
#include "lib/identity/tls_greeting.h"
#include "lib/log/log.h"
#include "tests/lib/http/raw_client.h"
#include "tests/lib/http/tls_layer.h"
#include "tests/lib/identity/made_certificates.h"

namespace muster::http {
namespace {

using testing::HasSubstr;

constexpr Duration kLong = std::chrono::seconds(30);

// /count counts, and keeps the tokens that came; /events opens a stream.
class HttpsTest : public testing::Test {
 protected:
  void Start(ServerOptions options = {}) {
    options.credentials.identity = cluster_.own;
    const Handler count = [this](const Request& request, const Responder& responder) {
      ++handled_;
      const auto token = request.headers.find("authorization");
      if (token != request.headers.end()) tokens_.Post(token->second);
      responder.Send({.content_type = "text/plain", .body = "counted"});
    };
    const Handler open = [this](const Request&, const Responder& responder) {
      opened_.Post(responder.Stream());
    };
    auto server = Server::Start(
        "127.0.0.1:0", {{"GET", "/count", count}, {"GET", "/events", open, {}, /*streams=*/true}},
        options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string Url() const { return "https://" + server_->Address() + "/count"; }
  absl::Status Ask(const Trust& trust) const {
    const auto got = Get(Url(), {.token = "muster-ada-1", .trust = trust});
    return got.ok() ? StatusFromResponse(*got) : got.status();
  }
  void ExpectStillServing() const { EXPECT_EQ(Ask(cluster_.trust()), absl::OkStatus()); }
  std::shared_ptr<EventStream> TakeOpened() {
    auto opened = opened_.TakeUntil(RealClock().Now() + kLong);
    EXPECT_TRUE(opened.has_value());
    return *std::move(opened);
  }

  TestCluster cluster_;
  std::atomic<int> handled_ = 0;
  Mailbox<std::string> tokens_;
  Mailbox<std::shared_ptr<EventStream>> opened_;
  std::unique_ptr<Server> server_;
};

TEST_F(HttpsTest, OnlyTheCoordinatorOfThatClusterIsShownAToken) {
  Start();
  const TestCluster other;
  const auto shows = [&](Identity identity) { cluster_.own->Set(std::move(identity)); };
  const auto expect = [&](const Trust& trust, absl::StatusCode code, const char* why) {
    const absl::Status told = Ask(trust);
    EXPECT_EQ(told.code(), code) << told;
    EXPECT_THAT(std::string(told.message()), HasSubstr(why));
  };
  expect({}, absl::StatusCode::kFailedPrecondition, "--authority FILE");
  expect(other.trust(), absl::StatusCode::kUnauthenticated, "proves nothing here");
  expect({cluster_.trust().authority_pem, "c2"}, absl::StatusCode::kPermissionDenied,
         "not the coordinator of cluster c2");
  shows(cluster_.Issue({"c1", HostPeer{"a"}}));
  expect(cluster_.trust(), absl::StatusCode::kPermissionDenied, "spiffe://c1/host/a is there");
  shows(cluster_.Issue({"c1", UserPeer{"ada"}}));
  expect(cluster_.trust(), absl::StatusCode::kPermissionDenied, "spiffe://c1/user/ada is there");
  shows(cluster_.Issue({"c1", MemberPeer{"j", "worker-0", PlacementNumber(1), Incarnation{1, 2}}}));
  expect(cluster_.trust(), absl::StatusCode::kPermissionDenied, "/job/j/worker-0/1/");
  shows(cluster_.Issue({"c2", CoordinatorPeer{}}));
  expect(cluster_.trust(), absl::StatusCode::kPermissionDenied, "spiffe://c2/coordinator is there");
  shows(cluster_.Issue(kCoordinator, -absl::Hours(48)));
  expect(cluster_.trust(), absl::StatusCode::kUnauthenticated, "expired");
  shows(cluster_.Issue(kCoordinator, absl::Hours(2)));
  expect(cluster_.trust(), absl::StatusCode::kUnauthenticated, "not yet valid");
  const Identity good = cluster_.Issue(kCoordinator);
  shows(ForOneEnd(cluster_.authority, good, "clientAuth"));
  expect(cluster_.trust(), absl::StatusCode::kUnauthenticated, "purpose");
  shows(WithNames(cluster_.authority, good, "DNS:localhost"));
  expect(cluster_.trust(), absl::StatusCode::kUnauthenticated, "no name");
  EXPECT_EQ(handled_, 0) << "nothing of a request was sent";
  shows(ForOneEnd(cluster_.authority, good, "serverAuth"));
  expect(cluster_.trust(), absl::StatusCode::kOk, "");
  shows(cluster_.Issue(kCoordinator));
  expect(cluster_.trust(), absl::StatusCode::kOk, "");
  expect({cluster_.trust().authority_pem, ""}, absl::StatusCode::kOk, "");
  EXPECT_EQ(tokens_.TryTake(), "Bearer muster-ada-1");
}

TEST_F(HttpsTest, AStreamIsOfTheCoordinatorToo) {
  Start();
  const TestCluster other;
  const std::string url = "https://" + server_->Address() + "/events";
  const auto ignore = [](const Event&) { return true; };
  EXPECT_EQ(StreamEvents(url, ignore, {.trust = other.trust()}).code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_FALSE(opened_.TryTake().has_value());
}

TEST_F(HttpsTest, AnyAddressMayBeListenedAt) {
  ServerOptions options;
  options.credentials.identity = cluster_.own;
  auto server = Server::Start("0.0.0.0:0", {HealthRoute()}, options);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string port = (*server)->Address().substr((*server)->Address().rfind(':'));
  const auto got = Get("https://127.0.0.1" + port + "/healthz", {.trust = cluster_.trust()});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->status, 200);
}

TEST_F(HttpsTest, HostsAreReachedByAnyName) {
  Start();
  const std::string port = server_->Address().substr(server_->Address().rfind(':'));
  const auto got = Get("https://localhost" + port + "/count", {.trust = cluster_.trust()});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->body, "counted");
}

TEST_F(HttpsTest, WhoSpeaksPlainTextIsToldAndNotRead) {
  Start();
  RawClient client(server_->Address());
  ASSERT_TRUE(client.Send(GetText("/count")));
  const std::string said = client.ReadToEnd();
  EXPECT_EQ(StatusOf(said), 400) << said;
  EXPECT_THAT(said, HasSubstr("Content-Type: text/plain\r\n"));
  EXPECT_THAT(said, HasSubstr("\r\n\r\nthis port speaks HTTPS"));
  const auto got = Get("http://" + server_->Address() + "/count");
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(StatusFromResponse(*got).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(handled_, 0);
  ExpectStillServing();
}

TEST_F(HttpsTest, APortOfPlainTextIsToldFromOneOfTls) {
  auto plain = Server::Start("127.0.0.1:0", {HealthRoute()});
  ASSERT_TRUE(plain.ok());
  const auto got = Get("https://" + (*plain)->Address(), {.trust = cluster_.trust()});
  EXPECT_EQ(got.status().code(), absl::StatusCode::kFailedPrecondition) << got.status();
  EXPECT_THAT(std::string(got.status().message()), HasSubstr("TLS failed"));
}

// A coordinator's port for gRPC shows the same certificate, and would only close the connection.
TEST_F(HttpsTest, APortOfGrpcIsToldFromOneOfRest) {
  const TlsContext context = *TlsContextOfServer(*cluster_.own->Get());
  SSL_CTX_set_alpn_select_cb(
      context.get(),
      [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char* in,
         unsigned int in_size, void*) {
        constexpr unsigned char kH2[] = {2, 'h', '2'};
        unsigned char* chosen = nullptr;
        const int how = SSL_select_next_proto(&chosen, size, kH2, sizeof kH2, in, in_size);
        *out = chosen;
        return how == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
      },
      nullptr);
  net::io_context io;
  tcp::acceptor acceptor(io, {net::ip::make_address("127.0.0.1"), 0});
  std::thread grpc([&] {
    tcp::socket peer = acceptor.accept();
    const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
    SSL_set_fd(ssl.get(), peer.native_handle());
    SSL_accept(ssl.get());
  });
  const auto got =
      Get(absl::StrCat("https://127.0.0.1:", acceptor.local_endpoint().port(), "/v1/jobs"),
          {.trust = cluster_.trust()});
  grpc.join();
  EXPECT_EQ(got.status().code(), absl::StatusCode::kFailedPrecondition) << got.status();
  for (const char* says : {"speaks gRPC", "not REST", "`ready at`", "cluster.json"})
    EXPECT_THAT(std::string(got.status().message()), HasSubstr(says));
}

TEST_F(HttpsTest, OldVersionsAreNotSpoken) {
  Start();
  for (const auto& [version, spoken] :
       {std::pair(TLS1_VERSION, false), std::pair(TLS1_1_VERSION, false),
        std::pair(TLS1_2_VERSION, true), std::pair(TLS1_3_VERSION, true)}) {
    RawClient client(server_->Address());
    EXPECT_EQ(TlsLayer(client.fd(), version).ok(), spoken) << version;
  }
}

// What the other end is told is in few words, so the log says more. A probe leaves no line.
TEST_F(HttpsTest, WhoIsRefusedIsToldOf) {
  const std::string path = ::testing::TempDir() + "/https-refused-" + std::to_string(getpid());
  ASSERT_TRUE(StartLog({.program = "muster-coordinator", .file = path}).ok());
  Start();
  RawClient(server_->Address()).Close();
  {
    RawClient old(server_->Address());
    EXPECT_FALSE(TlsLayer(old.fd(), TLS1_1_VERSION).ok());
    EXPECT_TRUE(old.AwaitClosed());
  }
  RawClient plain(server_->Address());
  ASSERT_TRUE(plain.Send(GetText("/count")));
  plain.ReadToEnd();
  server_.reset();
  std::ifstream in(path);
  const std::string said((std::istreambuf_iterator<char>(in)), {});
  for (const char* const why :
       {"127.0.0.1 came to no end with TLS: unsupported protocol", "127.0.0.1 spoke plain text"})
    EXPECT_THAT(said, HasSubstr(why)) << "the log does not say it";
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
  std::remove(path.c_str());
}

// Each may end its handshake within the time for that, which is over for all at once.
TEST_F(HttpsTest, WhoStandsStillInTheHandshakeIsCutOff) {
  ServerOptions options;
  options.limits.handshake_timeout = std::chrono::milliseconds(30);
  Start(options);
  const std::string greeting = TlsGreeting().value();
  for (const std::string& begun :
       {std::string(), greeting.substr(0, 1), greeting.substr(0, greeting.size() / 2), greeting}) {
    RawClient client(server_->Address());
    ASSERT_TRUE(client.Send(begun));
    ASSERT_TRUE(client.AwaitClosed()) << "after bytes: " << begun.size();
  }
  EXPECT_EQ(handled_, 0);
}

TEST_F(HttpsTest, AHundredHandshakesThatNeverEndHoldUpNobody) {
  Start();
  const std::string greeting = TlsGreeting().value();
  std::vector<RawClient> slow;
  for (size_t i = 0; i < 100; ++i) {
    slow.emplace_back(server_->Address());
    ASSERT_TRUE(slow.back().Send(greeting.substr(0, greeting.size() * (i % 4) / 3)));
  }
  for (int i = 0; i < 10; ++i) ExpectStillServing();
}

TEST_F(HttpsTest, OddBytesInTheHandshakeEndIt) {
  Start();
  const std::string greeting = TlsGreeting().value();
  std::mt19937_64 random(20261123);
  for (int i = 0; i < 200; ++i) {
    std::string bytes = greeting;
    if (i % 2 == 0) bytes.assign(1 + random() % 2000, '\0');
    for (size_t n = i % 2 == 0 ? bytes.size() : 1 + random() % 8; n > 0; --n)
      bytes[i % 2 == 0 ? n - 1 : random() % bytes.size()] = static_cast<char>(random());
    bytes[0] = kTlsHandshake;
    RawClient client(server_->Address());
    client.Send(bytes);
    client.EndSending();
    EXPECT_TRUE(client.AwaitClosed());
  }
  EXPECT_EQ(handled_, 0);
  ExpectStillServing();
}

// A greeting of which OpenSSL would wait for 128 KiB, and keep them.
TEST_F(HttpsTest, AGreetingIsBounded) {
  ServerOptions options;
  options.limits.handshake_timeout = std::chrono::hours(1);
  Start(options);
  const std::string head("\x16\x03\x01\x40\x00", 5);
  const std::string hello("\x01\x01\xff\xff", 4);  // of 0x1ffff bytes
  const size_t most = size_t{16} << 10;
  RawClient client(server_->Address());
  client.Send(head + hello + std::string(most - hello.size(), 'x'));
  for (size_t sent = most; sent <= kMostTlsWithoutContent; sent += most)
    client.Send(head + std::string(most, 'x'));
  ASSERT_TRUE(client.AwaitClosed()) << "too long a greeting";
  ExpectStillServing();
}

// They ask for new keys and bring no content, before a request and while a stream is open.
TEST_F(HttpsTest, WordsAboutKeysWithoutEndEndTheConnection) {
  Start();
  for (const char* begin : {"", "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"}) {
    RawClient client(server_->Address());
    TlsLayer layer(client.fd());
    ASSERT_TRUE(layer.ok());
    const std::string text = begin;
    if (!text.empty()) {
      ASSERT_GT(layer.Send(text.data(), text.size()), 0);
      TakeOpened();
    }
    int updates = 0;
    while (updates < 100'000 && SSL_key_update(layer.ssl(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
           SSL_do_handshake(layer.ssl()) == 1)
      ++updates;
    EXPECT_LT(updates, 100'000);
  }
  ExpectStillServing();
}

TEST_F(HttpsTest, NothingIsNegotiatedAnew) {
  Start();
  RawClient client(server_->Address());
  TlsLayer layer(client.fd(), TLS1_2_VERSION);
  ASSERT_TRUE(layer.ok());
  SSL_renegotiate(layer.ssl());
  EXPECT_NE(SSL_do_handshake(layer.ssl()), 1);
  ExpectStillServing();
}

TEST_F(HttpsTest, WhoIsTurnedAwayIsToldThatThereIsNoRoom) {
  ServerOptions options;
  options.limits.connections = 1;
  Start(options);
  // One that may stay, and those who would be told more if they shook hands.
  std::vector<RawClient> held;
  for (int i = 0; i < 9; ++i) held.emplace_back(server_->Address());
  const Time limit = RealClock().Now() + kLong;
  while (server_->Connections() < 9 && RealClock().Now() < limit) std::this_thread::yield();
  const absl::Status told = Ask(cluster_.trust());
  EXPECT_EQ(told.code(), absl::StatusCode::kUnavailable) << told;
  RawClient raw(server_->Address());
  EXPECT_EQ(raw.ReadToEnd(), std::string(kTlsNoRoom)) << "a byte, for who asks whether we hear";
}

TEST_F(HttpsTest, TheCertificateChangesUnderLoadAndOpenStreamsGoOn) {
  Start();
  const std::string address = server_->Address();
  RawClient watcher = TlsClient(address);
  ASSERT_TRUE(watcher.Send(GetText("/events")));
  const auto stream = TakeOpened();
  ASSERT_NE(watcher.ReadUntil("\r\n\r\n"), "");
  std::atomic<bool> ends = false;
  std::atomic<int> failed = 0, answered = 0;
  const Trust both{
      absl::StrCat(cluster_.trust().authority_pem, TestCluster().trust().authority_pem), "c1"};
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i)
    clients.emplace_back([&] {
      while (!ends) (Ask(both).ok() ? answered : failed) += 1;
    });
  for (int i = 0; i < 8; ++i) {
    cluster_.own->Set(cluster_.Issue(kCoordinator));
    ASSERT_TRUE(stream->Send(absl::StrCat(i), "e", "d"));
    EXPECT_THAT(watcher.ReadUntil("\n\n"), HasSubstr(absl::StrCat("id: ", i, "\n")));
    const Time limit = RealClock().Now() + kLong;
    for (const int before = answered; answered < before + 3 && RealClock().Now() < limit;)
      std::this_thread::yield();
  }
  ends = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed, 0);
  const TestCluster next;
  cluster_.own->Set(next.Issue(kCoordinator));
  EXPECT_EQ(Ask(next.trust()), absl::OkStatus()) << "whoever connects is shown the new one";
  EXPECT_EQ(Ask(cluster_.trust()).code(), absl::StatusCode::kUnauthenticated);
  ASSERT_TRUE(stream->Send("20", "e", "d"));
  EXPECT_THAT(watcher.ReadUntil("\n\n"), HasSubstr("id: 20\n"));
}

TEST_F(HttpsTest, AStreamEndsWithAWordOfItsEnd) {
  Start();
  RawClient client(server_->Address());
  TlsLayer layer(client.fd());
  const std::string text = GetText("/events");
  ASSERT_GT(layer.Send(text.data(), text.size()), 0);
  TakeOpened()->Close();
  std::string bytes(4096, '\0');
  while (layer.Receive(bytes.data(), bytes.size()) > 0) {
  }
  EXPECT_NE(SSL_get_shutdown(layer.ssl()) & SSL_RECEIVED_SHUTDOWN, 0) << "it was not cut off";
}

}  // namespace
}  // namespace muster::http
