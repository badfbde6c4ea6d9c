// Slow and hostile clients: each is refused or cut off with a clear answer, and nobody else waits
// for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lib/http/client.h"
#include "lib/http/server.h"
#include "tests/lib/http/raw_client.h"
#include "tests/lib/http/tls_layer.h"

namespace muster::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// Counts what reaches handlers: /healthz, and POST /count, which answers with the size of the body.
class BadInputTest : public testing::TestWithParam<bool> {
 protected:
  void Start(const ServerOptions& options = {}) {
    const Handler count = [this](const Request& request, const Responder& responder) {
      ++handled_;
      responder.Send({.content_type = "text/plain", .body = absl::StrCat(request.body.size())});
    };
    auto server = Server::Start(
        "127.0.0.1:0", {{"POST", "/count", count}, {"GET", "/count", count}}, wire_.With(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void ExpectStillServing() {
    const auto got = Get(wire_.Url(server_->Address()) + "/count", {.trust = wire_.trust()});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->body, "0");
  }
  // All that the server says to these bytes before it closes.
  std::string Say(const std::string& bytes) {
    RawClient client = Client();
    client.Send(bytes);
    client.EndSending();
    return client.ReadToEnd();
  }

  RawClient Client(int receive_buffer = 0) const {
    return wire_.Client(server_->Address(), receive_buffer);
  }

  const EachWire wire_{GetParam()};
  std::atomic<int> handled_ = 0;
  std::unique_ptr<Server> server_;
};

INSTANTIATE_TEST_SUITE_P(Server, BadInputTest, testing::Bool(), WireName);

constexpr char kInner[] = "GET /count HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST_P(BadInputTest, NothingIsSmuggled) {
  Start();
  const std::string host = "Host: localhost\r\n";
  const std::string post = "POST /count HTTP/1.1\r\n" + host;
  const std::vector<std::string> bad = {
      post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
      post + "Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello",
      post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
      post + "Content-Length: 5, 5\r\n\r\nhello",
      post + "Content-Length: +5\r\n\r\nhello",
      post + "Content-Length: -1\r\n\r\n",
      post + "Content-Length: 0x5\r\n\r\nhello",
      post + "Content-Length: 5 5\r\n\r\nhello",
      post + "Content-Length: \r\n\r\n",
      post + "Content-Length : 5\r\n\r\nhello",
      post + " Content-Length: 5\r\n\r\nhello",
      post + "Content-Length:\r\n 5\r\n\r\nhello",
      post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: identity\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      post +
          "Transfer-Encoding:\x0b"
          "chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\n\r\n5;\nhello\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
      post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
      "POST /count HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "GET /count HTTP/1.1\r\n" + host + "X: a\r\n folded\r\n\r\n",
      "GET /count HTTP/1.1\r\n" + host + "X: a\rY: b\r\n\r\n",
      "GET /count HTTP/1.1\r\n" + host + std::string("X: a\0b\r\n\r\n", 10),
      "GET /count HTTP/1.1\r\n" + host + "no colon\r\n\r\n",
      "GET /count HTTP/1.1\r\n" + host + ": no name\r\n\r\n",
      "GET /count HTTP/1.1\r\n" + host + "Expect: the best\r\n\r\n",
      "GET /count HTTP/1.1\r\n" + host + host + "\r\n",
      "GET /count HTTP/1.1\r\n\r\n",
      "GET /count HTTP/1.1\nHost: localhost\n\n",
      "GET /count HTTP/2.0\r\n" + host + "\r\n",
      "GET /count HTTP/1.2\r\n" + host + "\r\n",
      "GET /count HTTP/9.9\r\n" + host + "\r\n",
      "GET /count\r\n" + host + "\r\n",
      "GET  /count HTTP/1.1\r\n" + host + "\r\n",
      "G\x01T /count HTTP/1.1\r\n" + host + "\r\n",
      "G(T /count HTTP/1.1\r\n" + host + "\r\n",
      "\r\n\r\n",
      "GET http://localhost/count HTTP/1.1\r\n" + host + "\r\n",
      "GET /%2e%2e/count HTTP/1.1\r\n" + host + "\r\n",
      "GET /%252e%252e/count HTTP/1.1\r\n" + host + "\r\n",
      "GET //count HTTP/1.1\r\n" + host + "\r\n",
      "GET /count/../count HTTP/1.1\r\n" + host + "\r\n",
      "GET /count%00 HTTP/1.1\r\n" + host + "\r\n",
      "GET /count?x=%zz HTTP/1.1\r\n" + host + "\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  };
  for (const std::string& text : bad) {
    const std::string said = Say(text + kInner);
    EXPECT_EQ(StatusOf(said), 400) << text << "\n--->\n" << said;
    EXPECT_THAT(said, HasSubstr("{\"error\":{\"code\":\"invalid_argument\"")) << text;
    EXPECT_THAT(said.substr(9), Not(HasSubstr("HTTP/1.1 2")))
        << "one answer, then the end: " << text;
  }
  EXPECT_EQ(handled_, 0);
  ExpectStillServing();
}

TEST_P(BadInputTest, WebPagesAndForeignNamesAreRefused) {
  Start();
  const auto post = [&](const std::string& headers) {
    return StatusOf(Say("POST /count HTTP/1.1\r\n" + headers + "Content-Length: 0\r\n\r\n"));
  };
  EXPECT_EQ(post("Host: evil.example\r\n"), 403);
  EXPECT_EQ(post("Host: 127.0.0.1.evil.example:80\r\n"), 403);
  EXPECT_EQ(post("Host: localhost\r\nOrigin: http://evil.example\r\n"), 403);
  EXPECT_EQ(post("Host: localhost\r\nOrigin: null\r\n"), 403);
  EXPECT_EQ(handled_, 0);
  EXPECT_EQ(
      post("Host: localhost:80\r\nOrigin: " + std::string(wire_.scheme()) + "://localhost:80\r\n"),
      200);
  EXPECT_EQ(post("Host: [::1]\r\n"), 200);
  EXPECT_EQ(post("Host: 127.0.0.1:1234\r\n"), 200);
}

TEST_P(BadInputTest, SizesAreBounded) {
  ServerOptions options;
  options.limits.header_bytes = 1000;
  options.limits.body_bytes = 1000;
  Start(options);
  const std::string post = "POST /count HTTP/1.1\r\nHost: localhost\r\n";
  const auto sized = [&](int n) {
    return absl::StrCat(post, "Content-Length: ", n, "\r\n\r\n",
                        std::string(static_cast<size_t>(n), 'x'));
  };
  EXPECT_THAT(Say(sized(1000)), EndsWith("\r\n\r\n1000"));
  EXPECT_EQ(StatusOf(Say(sized(1001))), 413);
  EXPECT_EQ(StatusOf(Say(post + "Content-Length: 18446744073709551615\r\n\r\n")), 413);
  EXPECT_EQ(StatusOf(Say(post + "Content-Length: 99999999999999999999999\r\n\r\n")), 400);
  EXPECT_EQ(StatusOf(Say(post + "X: " + std::string(1000, 'x') + "\r\n\r\n")), 431);
  EXPECT_EQ(StatusOf(Say("GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\n\r\n")), 431);
  std::string many = post;
  for (int i = 0; i < 1000; ++i) many += "a:\r\n";
  EXPECT_EQ(StatusOf(Say(many + "\r\n")), 431);
  EXPECT_EQ(StatusOf(Say(post + "Transfer-Encoding: chunked\r\n\r\n" + std::string(5000, '0'))),
            400);

  RawClient endless = Client();
  ASSERT_TRUE(endless.Send(post + "Transfer-Encoding: chunked\r\n\r\n"));
  for (int i = 0; i < 1000 && endless.Send("a\r\n0123456789\r\n"); ++i) {
  }
  EXPECT_EQ(StatusOf(endless.ReadAnswer()), 413);
  EXPECT_EQ(handled_, 1);
  ExpectStillServing();
}

// Many clients send all of a body before they read. More of it than any socket holds is on its way
// when it is refused.
TEST_P(BadInputTest, WhoeverSendsAMuchTooLargeBodyHearsSo) {
  Start();
  const std::string post = "POST /count HTTP/1.1\r\nHost: localhost\r\n";
  const std::string body(size_t{24} << 20, 'x');
  const std::string sized = absl::StrCat("Content-Length: ", body.size(), "\r\n\r\n");
  const std::string chunked =
      absl::StrCat("Transfer-Encoding: chunked\r\n\r\n", absl::Hex(body.size()), "\r\n");
  for (const std::string& head : {sized, chunked}) {
    RawClient client = Client();
    EXPECT_TRUE(client.Send(post + head));
    EXPECT_TRUE(client.Send(body)) << head;
    const std::string said = client.ReadToEnd();
    EXPECT_EQ(StatusOf(said), 413) << head;
    EXPECT_THAT(said, HasSubstr("Connection: close\r\n")) << head;
    EXPECT_THAT(said, HasSubstr("{\"error\":{\"code\":\"resource_exhausted\"")) << head;
  }
  RawClient client = Client();  // in many chunks, of which each is small
  ASSERT_TRUE(client.Send(post + "Transfer-Encoding: chunked\r\n\r\n"));
  std::string chunks;
  for (int i = 0; i < 1000; ++i)
    absl::StrAppend(&chunks, "400\r\n", std::string(1024, 'x'), "\r\n");
  for (int i = 0; i < 24; ++i) EXPECT_TRUE(client.Send(chunks)) << i;
  EXPECT_EQ(StatusOf(client.ReadToEnd()), 413);
  EXPECT_EQ(handled_, 0);
  ExpectStillServing();
}

// Each may be as long as a body may be, but not a thousand of them at a time.
TEST_P(BadInputTest, BodiesThatDoNotComeToAnEndAreBoundedInSum) {
  ServerOptions options;
  options.limits.body_bytes = 1000;
  options.limits.bodies_bytes = 2500;
  Start(options);
  const std::string post = "POST /count HTTP/1.1\r\nHost: localhost\r\n";
  const std::string sized =
      absl::StrCat(post, "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n");
  RawClient first = Client();
  ASSERT_TRUE(first.Send(sized));
  EXPECT_EQ(first.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  {
    RawClient second = Client();  // of a length that it does not say
    ASSERT_TRUE(second.Send(post + "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"));
    EXPECT_EQ(second.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    EXPECT_EQ(StatusOf(Say(sized)), 503);
    EXPECT_THAT(Say(post + "Content-Length: 5\r\n\r\nhello"), EndsWith("\r\n\r\n5"))
        << "a short one fits";
    ASSERT_TRUE(second.Send("0\r\n\r\n"));
    EXPECT_THAT(second.ReadAnswer(), EndsWith("\r\n\r\n0"));
  }
  RawClient third = Client();
  ASSERT_TRUE(third.Send(sized));
  EXPECT_EQ(third.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n")
      << "there is room when one has its answer";
  ExpectStillServing();
}

TEST_P(BadInputTest, BodiesInPiecesAndChunksAreWhole) {
  Start();
  RawClient client = Client();
  ASSERT_TRUE(
      client.Send("POST /count HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
                  "chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n"
                  "0\r\nTrailer: z\r\n\r\n"));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("\r\n\r\n11"));
  ASSERT_TRUE(
      client.Send("POST /count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nExpect: "
                  "100-continue\r\n\r\n"));
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  for (const char* piece : {"a", "b", "c", "d"}) ASSERT_TRUE(client.Send(piece));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("\r\n\r\n4"));
}

TEST_P(BadInputTest, AThousandPipelinedRequestsHaveAThousandAnswers) {
  Start();
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    const std::string body(static_cast<size_t>(i % 7), 'x');
    absl::StrAppend(&all,
                    "POST /count HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", body.size(),
                    "\r\n\r\n", body);
  }
  RawClient client = Client();
  ASSERT_TRUE(client.Send(all));
  for (int i = 0; i < 1000; ++i)
    ASSERT_THAT(client.ReadAnswer(), EndsWith(absl::StrCat("\r\n\r\n", i % 7))) << i;
}

TEST_P(BadInputTest, AHundredClientsThatNeverFinishHoldUpNobody) {
  Start();
  std::vector<RawClient> slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(Client());
    const char* const begun[] = {
        "", "G", "GET /count HTTP/1.1\r\nX: ",
        "POST /count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc"};
    ASSERT_TRUE(slow.back().Send(begun[i % 4]));
  }
  for (int i = 0; i < 10; ++i) ExpectStillServing();
  EXPECT_GE(server_->Connections(), 100);
}

TEST_P(BadInputTest, SlowHeadersAndBodiesEndIn408) {
  ServerOptions options;
  options.limits.header_timeout = options.limits.body_timeout = std::chrono::milliseconds(30);
  Start(options);
  for (const char* begun :
       {"", "GET /count HTTP/1.1\r\nX: ",
        "POST /count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc"}) {
    RawClient client = Client();
    ASSERT_TRUE(client.Send(begun));
    const std::string said = client.ReadToEnd();
    EXPECT_EQ(StatusOf(said), 408) << begun;
    EXPECT_THAT(said, HasSubstr("deadline_exceeded"));
  }
  EXPECT_EQ(handled_, 0);
}

TEST_P(BadInputTest, IdleConnectionsAreClosed) {
  ServerOptions options;
  options.limits.idle_timeout = std::chrono::milliseconds(30);
  Start(options);
  RawClient client = Client();
  ASSERT_TRUE(client.Send(kInner));
  EXPECT_EQ(StatusOf(client.ReadAnswer()), 200);
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_P(BadInputTest, AClientThatDoesNotTakeItsAnswerIsCutOff) {
  ServerOptions options;
  options.limits.write_timeout = std::chrono::milliseconds(20);
  auto server = Server::Start("127.0.0.1:0",
                              {{"GET", "/big",
                                [](const Request&, const Responder& responder) {
                                  responder.Send({.body = std::string(64 << 20, 'x')});
                                }}},
                              wire_.With(options));
  ASSERT_TRUE(server.ok());
  RawClient client = wire_.Client((*server)->Address(), 4096);
  ASSERT_TRUE(client.Send(GetText("/big")));
  const Time limit = RealClock().Now() + std::chrono::seconds(30);
  client.ReadUntil("\r\n\r\n");
  while ((*server)->Connections() > 0 && RealClock().Now() < limit) std::this_thread::yield();
  EXPECT_EQ((*server)->Connections(), 0);
  EXPECT_LT(client.ReadToEnd().size(), size_t{64} << 20);
}

// A client that asks and does not read costs what its answer takes, until the time for it is over.
TEST_P(BadInputTest, LargeAnswersThatNobodyReadsAreBoundedInSum) {
  constexpr size_t kLarge = size_t{24} << 20;  // no socket holds as much
  ServerOptions options;
  options.limits.answers_bytes = 2 * kLarge;
  const auto with = [](size_t bytes) -> Handler {
    return [bytes](const Request&, const Responder& responder) {
      responder.Send({.body = std::string(bytes, 'x')});
    };
  };
  auto server = Server::Start(
      "127.0.0.1:0", {{"GET", "/large", with(kLarge)}, {"GET", "/small", with(kSmallAnswerBytes)}},
      wire_.With(options));
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<RawClient> held;
  for (int i = 0; i < 2; ++i) {
    held.push_back(wire_.Client((*server)->Address(), 4096));
    ASSERT_TRUE(held.back().Send(GetText("/large")));
    EXPECT_EQ(StatusOf(held.back().ReadUntil("\r\n\r\n")), 200);
  }
  RawClient third = wire_.Client((*server)->Address());
  ASSERT_TRUE(third.Send(GetText("/large")));
  const std::string refused = third.ReadAnswer();
  ASSERT_EQ(StatusOf(refused), 503) << "a large answer too many is under way";
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_THAT(refused, HasSubstr("too many large answers are on their way"));
  ASSERT_TRUE(third.Send(GetText("/small")));
  EXPECT_EQ(StatusOf(third.ReadAnswer()), 200) << "small ones always pass";
  held.pop_back();
  int status = 0;
  const Time limit = RealClock().Now() + std::chrono::seconds(30);
  while (status != 200 && RealClock().Now() < limit) {
    ASSERT_TRUE(third.Send(GetText("/large")));
    status = StatusOf(third.ReadAnswer());
  }
  EXPECT_EQ(status, 200) << "there is room when one has gone";
}

TEST_P(BadInputTest, ConnectionsBeyondTheLimitAreTurnedAway) {
  ServerOptions options;
  options.limits.connections = 3;
  Start(options);
  std::vector<RawClient> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(Client());
    ASSERT_TRUE(held.back().Send(kInner));
    EXPECT_EQ(StatusOf(held.back().ReadAnswer()), 200);
  }
  RawClient fourth = Client();
  const std::string said = fourth.ReadToEnd();
  EXPECT_EQ(StatusOf(said), 503);
  EXPECT_THAT(said, HasSubstr("too many connections"));
  ASSERT_TRUE(held[0].Send(kInner));
  EXPECT_EQ(StatusOf(held[0].ReadAnswer()), 200) << "those inside stay";
  held.clear();
  const Time limit = RealClock().Now() + std::chrono::seconds(30);
  while (server_->Connections() > 0 && RealClock().Now() < limit) std::this_thread::yield();
  ExpectStillServing();
}

TEST_P(BadInputTest, GarbageIsRefused) {
  Start();
  std::mt19937_64 random(20261121);
  const int rounds = GetParam() ? 20 : 200;  // the bytes come through TLS as they are
  for (int i = 0; i < rounds; ++i) {
    std::string bytes(1 + random() % 2000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const int status = StatusOf(Say(bytes));
    EXPECT_TRUE(status == 400 || status == 0) << status;
  }
  EXPECT_EQ(handled_, 0);
  ExpectStillServing();
}

TEST_P(BadInputTest, CutAndDamagedRequestsDoNoHarm) {
  Start();
  const std::string whole =
      "POST /count HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
      "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
  const size_t apart = GetParam() ? 8 : 1;  // the bytes come through TLS as they are
  for (size_t n = 0; n < whole.size(); n += apart) EXPECT_EQ(Say(whole.substr(0, n)), "") << n;
  EXPECT_EQ(handled_, 0);
  std::mt19937_64 random(7);
  for (int i = 0; i < (GetParam() ? 30 : 300); ++i) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    const std::string said = Say(damaged);
    const int status = StatusOf(said);
    EXPECT_TRUE(status == 0 || status == 200 || (status >= 400 && status < 500))
        << damaged << "\n--->\n"
        << said;
  }
  ExpectStillServing();
}

}  // namespace
}  // namespace muster::http
