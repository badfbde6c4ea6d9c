#include "lib/http/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/mailbox.h"
#include "lib/http/server.h"

namespace muster::http {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Client, RefusesWrongUrls) {
  for (const char* url :
       {"", "127.0.0.1:80", "ftp://127.0.0.1:80/", "http://", "http://127.0.0.1", "http://:80/",
        "http://127.0.0.1:80/a b", "http://127.0.0.1:99999/", "http://127.0.0.1:80/\r\nX: y"}) {
    EXPECT_EQ(Get(url).status().code(), absl::StatusCode::kInvalidArgument) << url;
  }
  EXPECT_THAT(std::string(Get("https://127.0.0.1:80").status().message()),
              HasSubstr("--authority"));
  const std::string with_user(Get("http://user:secret@127.0.0.1:80/x").status().message());
  EXPECT_THAT(with_user, HasSubstr("a URL with a user or a password is not taken"));
  EXPECT_THAT(with_user, Not(HasSubstr("secret")));
}

TEST(Client, SpeaksPlainTextOnlyToLoopback) {
  EXPECT_EQ(Get("http://192.0.2.1:80/").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Get("http://example.com:80/").status().code(), absl::StatusCode::kFailedPrecondition);
}

// Nobody listens there; it is refused before anybody could.
TEST(Client, SendsATokenInPlainTextOnlyToLoopback) {
  const std::string url = "http://192.0.2.1:80/";
  const ClientOptions options{.token = "muster-ada-1"};
  for (const absl::Status& refused :
       {Get(url, options).status(), Post(url, "{}", options).status(),
        StreamEvents(url, [](const Event&) { return true; }, {.token = options.token})}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("no token is sent to http://192.0.2.1:80"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("https://"));
  }
}

TEST(Client, NobodyThereIsUnavailableWithAHint) {
  std::string address;
  {
    auto server = Server::Start("127.0.0.1:0", {});
    ASSERT_TRUE(server.ok());
    address = (*server)->Address();
  }
  const auto got = Get("http://" + address + "/v1/jobs");
  EXPECT_EQ(got.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(got.status().message()),
              HasSubstr("nobody listens at http://" + address));
  EXPECT_TRUE(NobodyListens(got.status()));
  EXPECT_EQ(StreamEvents("http://" + address + "/e", [](const Event&) { return true; }).code(),
            absl::StatusCode::kUnavailable);
}

TEST(Client, WhoAnswersThatItCannotListens) {
  auto server =
      Server::Start("127.0.0.1:0", {{"GET", "/", [](const Request&, const Responder& responder) {
                                       responder.Send(absl::UnavailableError("not now"));
                                     }}});
  ASSERT_TRUE(server.ok());
  const auto got = Get("http://" + (*server)->Address());
  ASSERT_TRUE(got.ok()) << got.status();
  const absl::Status told = StatusFromResponse(*got);
  EXPECT_EQ(told.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(NobodyListens(told));
}

TEST(Client, ASlowAnswerIsDeadlineExceeded) {
  Mailbox<Responder> box;
  auto server = Server::Start(
      "127.0.0.1:0",
      {{"GET", "/", [&](const Request&, Responder responder) { box.Post(std::move(responder)); }}});
  ASSERT_TRUE(server.ok());
  const auto got =
      Get("http://" + (*server)->Address(), {.timeout = std::chrono::milliseconds(20)});
  EXPECT_EQ(got.status().code(), absl::StatusCode::kDeadlineExceeded) << got.status();
}

TEST(Client, HugeAnswersAreRefused) {
  auto server =
      Server::Start("127.0.0.1:0", {{"GET", "/", [](const Request&, const Responder& responder) {
                                       responder.Send({.body = std::string((16 << 20) + 1, 'x')});
                                     }}});
  ASSERT_TRUE(server.ok());
  const auto got = Get("http://" + (*server)->Address());
  EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted) << got.status();
}

TEST(Client, LocalhostAndErrorsOfStreams) {
  auto server = Server::Start("localhost:0", {HealthRoute()});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string port = (*server)->Address().substr((*server)->Address().rfind(':'));
  EXPECT_EQ(Get("http://localhost" + port + "/healthz")->body, "ok\n");
  const auto ignore = [](const Event&) { return true; };
  EXPECT_EQ(StreamEvents("http://localhost" + port + "/none", ignore).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(StreamEvents("http://localhost" + port + "/healthz", ignore).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(UrlTest, WhatHasAMeaningInAUrlIsEscaped) {
  EXPECT_EQ(EscapeUrlPart("count-1.a_b~"), "count-1.a_b~");
  EXPECT_EQ(EscapeUrlPart("a/../b?c=d&e#f%\xff"), "a%2F..%2Fb%3Fc%3Dd%26e%23f%25%FF");
}

}  // namespace
}  // namespace muster::http
