#include "coordinator/mlflow/client.h"

#include <atomic>
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/clock.h"
#include "tests/coordinator/webhooks/rude_receiver.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

constexpr MlflowPatience kPatience{.connect = milliseconds(500), .whole = milliseconds(500)};

std::string ServerOf(const RudeReceiver& receiver) {
  return receiver.url().substr(0, receiver.url().rfind('/'));
}

std::string Answer(int status, const std::string& body) {
  return absl::StrCat("HTTP/1.1 ", status,
                      " x\r\nConnection: close\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
}

TEST(MlflowClient, AsksAsWhoWeAreAndReadsTheAnswer) {
  RudeReceiver server(
      [](int n, const Received&) { return Answer(200, absl::StrCat("{\"n\":", n, "}")); });
  std::atomic<bool> stop{false};
  MlflowClient client({.url = ServerOf(server), .authorization = "Bearer abc"}, kPatience, stop);
  EXPECT_EQ(*client.Ask("/api/x?y=z", ""), "{\"n\":0}");
  EXPECT_EQ(*client.Ask("/api/x", "{}"), "{\"n\":1}");
  const auto received = server.received();
  EXPECT_EQ(received[0].line, "GET /api/x?y=z HTTP/1.1");
  EXPECT_EQ(received[0].headers.at("authorization"), "Bearer abc");
  EXPECT_EQ(received[1].line, "POST /api/x HTTP/1.1");
  EXPECT_EQ(received[1].headers.at("content-type"), "application/json");
  EXPECT_EQ(received[1].body, "{}");
}

TEST(MlflowClient, OddAnswersAreErrorsWithinTheirTime) {
  struct Case {
    const char* what;
    std::string answer;
    absl::StatusCode code;
    const char* text;
  };
  const std::string error = R"({"error_code":"RESOURCE_DOES_NOT_EXIST","message":"no run"})";
  const std::string exists = R"({"error_code":"RESOURCE_ALREADY_EXISTS","message":"x"})";
  const Case cases[] = {
      {"500", Answer(500, "<html>"), absl::StatusCode::kUnavailable, "it answers 500"},
      {"429", Answer(429, ""), absl::StatusCode::kUnavailable, "it answers 429"},
      {"404 of MLflow", Answer(404, error), absl::StatusCode::kNotFound, "no run"},
      {"404 of another", Answer(404, "?"), absl::StatusCode::kInvalidArgument, "it answers 404"},
      {"there already", Answer(400, exists), absl::StatusCode::kAlreadyExists, ""},
      {"401", Answer(401, ""), absl::StatusCode::kPermissionDenied, "MLFLOW_TRACKING_TOKEN"},
      {"redirect", Answer(301, ""), absl::StatusCode::kInvalidArgument,
       "redirects are not followed"},
      {"nothing", "", absl::StatusCode::kUnavailable, ""},
      {"no HTTP", "SSH-2.0-x\r\n", absl::StatusCode::kUnavailable, ""},
      {"cut", "HTTP/1.1 200 x\r\nContent-Length: 100\r\n\r\n{", absl::StatusCode::kUnavailable, ""},
      {"hangs", RudeReceiver::kHangs, absl::StatusCode::kDeadlineExceeded, ""},
      {"without end",
       absl::StrCat("HTTP/1.1 200 x\r\n\r\n", std::string(kMostMlflowAnswer + 1, 'x')),
       absl::StatusCode::kDataLoss, "more than 1048576 bytes"},
      {"a long head",
       absl::StrCat("HTTP/1.1 200 x\r\nA: ", std::string(4 << 20, 'x'), "\r\n\r\n{}"),
       absl::StatusCode::kUnavailable, ""},
  };
  for (const Case& c : cases) {
    RudeReceiver server([&](int, const Received&) { return c.answer; });
    std::atomic<bool> stop{false};
    MlflowClient client({.url = ServerOf(server), .authorization = "Bearer abc"}, kPatience, stop);
    const Time begun = RealClock().Now();
    const absl::Status failed = client.Ask("/x", "{}").status();
    EXPECT_LT(RealClock().Now() - begun, std::chrono::seconds(5)) << c.what;
    EXPECT_EQ(failed.code(), c.code) << c.what << ": " << failed;
    EXPECT_THAT(std::string(failed.message()), HasSubstr(c.text)) << c.what;
    EXPECT_THAT(std::string(failed.message()), Not(HasSubstr("abc"))) << c.what;
  }
  std::atomic<bool> stop{false};
  MlflowClient nobody({.url = "http://127.0.0.1:1"}, kPatience, stop);
  EXPECT_TRUE(absl::IsUnavailable(nobody.Ask("/x", "").status()));
}

// Whoever asks finds out first what the server took of it. libcurl does not ask.
TEST(MlflowClient, WhatGotNoAnswerIsNotSentOnceMoreByItself) {
  RudeReceiver server([](int n, const Received&) -> std::string {
    return n == 1 ? "" : "HTTP/1.1 200 x\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}";
  });
  std::atomic<bool> stop{false};
  MlflowClient client({.url = ServerOf(server)}, kPatience, stop);
  EXPECT_EQ(*client.Ask("/runs/create", "{}"), "{}");
  EXPECT_TRUE(absl::IsUnavailable(client.Ask("/runs/log-batch", "{}").status()));
  EXPECT_EQ(server.received().size(), 2u);
}

TEST(MlflowClient, AStopBreaksARequestOff) {
  RudeReceiver server([](int, const Received&) { return RudeReceiver::kHangs; });
  std::atomic<bool> stop{true};
  MlflowClient client({.url = ServerOf(server)}, {.whole = std::chrono::minutes(5)}, stop);
  EXPECT_FALSE(client.Ask("/x", "{}").ok());
}

}  // namespace
}  // namespace muster::coordinator
