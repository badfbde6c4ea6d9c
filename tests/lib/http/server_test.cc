#include "lib/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lib/base/mailbox.h"
#include "lib/http/client.h"
#include "tests/lib/http/raw_client.h"

namespace muster::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

// Says back what it was given.
Route EchoRoute(std::string method, std::string pattern, std::vector<std::string> query = {}) {
  return {std::move(method), std::move(pattern),
          [](const Request& request, const Responder& responder) {
            const nlohmann::json said = {{"path", request.path},   {"params", request.params},
                                         {"query", request.query}, {"headers", request.headers},
                                         {"body", request.body},   {"method", request.method}};
            responder.Send({.body = said.dump()});
          },
          std::move(query)};
}

std::unique_ptr<Server> StartServer(std::vector<Route> routes, const ServerOptions& options = {}) {
  auto server = Server::Start("127.0.0.1:0", std::move(routes), options);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(Server, HandsOverTheRequestAndGivesBackTheAnswer) {
  const auto server = StartServer(
      {EchoRoute("GET", "/v1/jobs/{id}", {"x", "y"}), EchoRoute("POST", "/v1/jobs/{id}:cancel")});
  const std::string url = "http://" + server->Address();
  const auto got = Get(url + "/v1/jobs/a%20b?x=1&y=%26");
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->status, 200);
  EXPECT_EQ(got->content_type, "application/json");
  const auto said = nlohmann::json::parse(got->body);
  EXPECT_EQ(said["path"], "/v1/jobs/a b");
  EXPECT_EQ(said["params"]["id"], "a b");
  EXPECT_EQ(said["query"], (nlohmann::json{{"x", "1"}, {"y", "&"}}));
  EXPECT_EQ(said["headers"]["user-agent"], "muster");
  const auto posted = Post(url + "/v1/jobs/a:cancel", "{\"why\":1}");
  ASSERT_TRUE(posted.ok()) << posted.status();
  EXPECT_EQ(nlohmann::json::parse(posted->body)["body"], "{\"why\":1}");
  EXPECT_EQ(nlohmann::json::parse(posted->body)["method"], "POST");
}

TEST(Server, HeadIsGetWithoutItsBody) {
  const Route events = {"GET",
                        "/events",
                        [](const Request&, const Responder& responder) { responder.Stream(); },
                        {},
                        /*streams=*/true};
  const auto server = StartServer({EchoRoute("GET", "/v1/jobs"), events});
  for (const char* path : {"/v1/jobs", "/v1/jobs/", "/events"}) {
    RawClient client(server->Address());
    ASSERT_TRUE(client.Send(
        absl::StrCat("HEAD ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")));
    const std::string answer = client.ReadToEnd();
    EXPECT_EQ(StatusOf(answer), 200) << path << answer;
    EXPECT_THAT(answer, EndsWith("\r\n\r\n")) << path;
  }
}

TEST(Server, RefusesParametersThatARouteDoesNotTake) {
  const auto server = StartServer({EchoRoute("GET", "/a", {"x"}), EchoRoute("POST", "/b")});
  const std::string url = "http://" + server->Address();
  EXPECT_EQ(Get(url + "/a?x=1")->status, 200);
  const auto refused = Get(url + "/a?x=1&z=2");
  EXPECT_EQ(refused->status, 400);
  EXPECT_THAT(refused->body, HasSubstr("z: is not known; allowed: x"));
  EXPECT_EQ(nlohmann::json::parse(refused->body)["error"]["field"], "z");
  EXPECT_THAT(Get(url + "/a?=")->body, HasSubstr("a parameter without a name is not known"));
  EXPECT_THAT(Post(url + "/b?x=1", "")->body,
              HasSubstr("x: is not known; this takes no parameters"));
}

TEST(Server, OnlyAServerWithStreamsCountsThoseItDrops) {
  for (const bool streams : {false, true}) {
    Metrics metrics({}, "1");
    Route route = EchoRoute("GET", "/a");
    route.streams = streams;
    const auto server = StartServer({route}, {.metrics = &metrics});
    EXPECT_EQ(metrics.Text().find("muster_sse_dropped_total") != std::string::npos, streams);
  }
}

TEST(Server, KeepsConnectionsAliveAsAsked) {
  const auto server = StartServer({HealthRoute()});
  RawClient client(server->Address());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.Send(GetText("/healthz")));
    EXPECT_THAT(client.ReadAnswer(), EndsWith("\r\n\r\nok\n"));
  }
  ASSERT_TRUE(client.Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(StatusOf(client.ReadToEnd()), 200);
  RawClient old(server->Address());
  ASSERT_TRUE(old.Send("GET /healthz HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(old.ReadToEnd(), HasSubstr("Connection: close"));
}

TEST(Server, UnknownPathsAndMethodsAreJsonErrors) {
  const auto server = StartServer({EchoRoute("GET", "/v1/jobs"), EchoRoute("POST", "/v1/jobs")});
  RawClient client(server->Address());
  ASSERT_TRUE(client.Send(GetText("/v1/job")));
  const std::string unknown = client.ReadAnswer();
  EXPECT_EQ(StatusOf(unknown), 404);
  EXPECT_THAT(
      unknown,
      HasSubstr(
          "{\"error\":{\"code\":\"not_found\",\"message\":\"there is nothing at /v1/job\"}}"));
  for (const char* method : {"DELETE", "PROPFIND", "FOO"}) {
    ASSERT_TRUE(client.Send(absl::StrCat(method, " /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n")));
    const std::string answer = client.ReadAnswer();
    EXPECT_EQ(StatusOf(answer), 405) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD, POST\r\n"));
  }
  ASSERT_TRUE(
      client.Send("HEAD /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n" + GetText("/v1/jobs")));
  EXPECT_EQ(StatusOf(client.ReadUntil("\r\n\r\n")), 200);
  EXPECT_EQ(StatusOf(client.ReadAnswer()), 200) << "the answer to HEAD has no body";
}

TEST(Server, AnswersMayComeLaterFromAnotherThread) {
  Mailbox<Responder> box;
  const auto server = StartServer({{"GET", "/later", [&](const Request&, Responder responder) {
                                      box.Post(std::move(responder));
                                    }}});
  std::thread driver([&] {
    while (auto responder = box.TakeUntil(Time::max())) responder->Send({.body = "42"});
  });
  for (int i = 0; i < 20; ++i) {
    const auto got = Get("http://" + server->Address() + "/later");
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->body, "42");
  }
  box.Close();
  driver.join();
}

TEST(Server, ADroppedResponderIsAnErrorForTheClient) {
  const auto server = StartServer({{"GET", "/drop", [](const Request&, const Responder&) {}}});
  EXPECT_EQ(Get("http://" + server->Address() + "/drop")->status, 500);
}

TEST(Server, AHandlerThatNeverAnswersIsAnsweredForAndMayStillAnswer) {
  Mailbox<Responder> box;
  ServerOptions options;
  options.limits.answer_timeout = std::chrono::milliseconds(20);
  const auto server =
      StartServer({{"GET", "/never",
                    [&](const Request&, Responder responder) { box.Post(std::move(responder)); }},
                   HealthRoute()},
                  options);
  RawClient client(server->Address());
  ASSERT_TRUE(client.Send(GetText("/never")));
  EXPECT_EQ(StatusOf(client.ReadAnswer()), 504);
  box.TryTake()->Send({.body = "too late"});
  ASSERT_TRUE(client.Send(GetText("/healthz")));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("ok\n")) << "the late answer is not taken for this one";
}

TEST(Server, RefusesAPortInUse) {
  const auto server = StartServer({HealthRoute()});
  const auto second = Server::Start(server->Address(), {HealthRoute()});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(server->Address()));
}

TEST(Server, APortIsFreeAgainAtOnce) {
  auto server = StartServer({HealthRoute()});
  const std::string address = server->Address();
  RawClient client(address);
  ASSERT_TRUE(client.Send(GetText("/healthz")));
  client.ReadAnswer();
  server.reset();
  EXPECT_TRUE(Server::Start(address, {HealthRoute()}).ok());
}

TEST(Server, RefusesAddressesBeyondLoopback) {
  EXPECT_EQ(Server::Start("0.0.0.0:0", {}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Server::Start("[::]:0", {}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Server::Start("127.0.0.1", {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Server::Start("127.0.0.1:0", {EchoRoute("GET", "x")}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Server, IsOpenedInPlainTextBeyondLoopbackByWhoSaysSo) {
  auto server = Server::Start("0.0.0.0:0", {HealthRoute()}, {.plaintext_anywhere = true});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string port = (*server)->Address().substr((*server)->Address().rfind(':'));
  EXPECT_EQ(Get("http://127.0.0.1" + port + "/healthz")->status, 200);
}

TEST(Server, ServesMetricsHealthAndReadiness) {
  Metrics metrics({.role = "worker"}, "0.1.0");
  std::atomic<bool> ready = false;
  std::atomic<bool> healthy = true;
  ServerOptions options;
  options.metrics = &metrics;
  const auto server =
      StartServer({MetricsRoute([&] { return metrics.Text(); }), HealthRoute([&] {
                     return healthy ? absl::OkStatus() : absl::InternalError("the disk is gone");
                   }),
                   ReadyRoute([&] {
                     return ready ? absl::OkStatus() : absl::FailedPreconditionError("no view yet");
                   })},
                  options);
  const std::string url = "http://" + server->Address();
  EXPECT_EQ(Get(url + "/healthz")->status, 200);
  const auto not_ready = Get(url + "/readyz");
  EXPECT_EQ(not_ready->status, 503);
  EXPECT_EQ(StatusFromResponse(*not_ready), absl::UnavailableError("no view yet"));
  ready = true;
  EXPECT_EQ(Get(url + "/readyz")->status, 200);
  healthy = false;
  const auto not_healthy = Get(url + "/healthz");
  EXPECT_EQ(not_healthy->status, 503);
  EXPECT_EQ(StatusFromResponse(*not_healthy), absl::UnavailableError("the disk is gone"));
  EXPECT_EQ(Get(url + "/nothing")->status, 404);
  const auto text = Get(url + "/metrics");
  EXPECT_EQ(text->content_type, kMetricsContentType);
  EXPECT_THAT(text->body,
              HasSubstr("muster_http_requests_total{role=\"worker\",code=\"200\"} 2\n"));
  EXPECT_THAT(text->body,
              HasSubstr("muster_http_requests_total{role=\"worker\",code=\"404\"} 1\n"));
  EXPECT_THAT(text->body,
              HasSubstr("muster_http_requests_total{role=\"worker\",code=\"503\"} 2\n"));
}

TEST(Server, ManyClientsOnSeveralThreads) {
  ServerOptions options;
  options.threads = 3;
  const auto server = StartServer({EchoRoute("POST", "/echo")}, options);
  std::vector<std::thread> clients;
  std::atomic<int> answered = 0;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 10; ++i) {
        const auto got = Post("http://" + server->Address() + "/echo", absl::StrCat(c, ":", i));
        answered += got.ok() && nlohmann::json::parse(got->body)["body"] == absl::StrCat(c, ":", i);
      }
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(answered, 80);
}

TEST(Server, StopsWithRequestsUnderWayAndRespondersOutliveIt) {
  Mailbox<Responder> box;
  auto server = StartServer({{"GET", "/later", [&](const Request&, Responder responder) {
                                box.Post(std::move(responder));
                              }}});
  std::vector<RawClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back(server->Address());
    ASSERT_TRUE(clients.back().Send(GetText("/later")));
  }
  std::vector<Responder> kept;
  while (kept.size() < 5) {
    auto responder = box.TakeUntil(RealClock().Now() + std::chrono::seconds(30));
    ASSERT_TRUE(responder.has_value());
    kept.push_back(*std::move(responder));
  }
  server.reset();
  for (RawClient& client : clients) EXPECT_EQ(client.ReadToEnd(), "");
  for (size_t i = 0; i < 4; ++i) kept[i].Send({.body = "nobody listens"});
  EXPECT_TRUE(kept[4].Stream()->closed());
}

TEST(Server, StopsWhileAnswersArriveFromOtherThreads) {
  for (int round = 0; round < 20; ++round) {
    Mailbox<Responder> box;
    auto server = StartServer({{"GET", "/later", [&](const Request&, Responder responder) {
                                  box.Post(std::move(responder));
                                }}});
    std::vector<RawClient> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back(server->Address());
      ASSERT_TRUE(clients.back().Send(GetText("/later")));
    }
    std::thread driver([&] {
      for (int i = 0; i < 4; ++i) {
        auto responder = box.TakeUntil(Time::max());
        if (!responder) return;
        if (i % 2 == 0)
          responder->Send({.body = "x"});
        else
          responder->Stream()->Send("1", "e", "d");
      }
    });
    server.reset();
    box.Close();
    driver.join();
  }
}

}  // namespace
}  // namespace muster::http
