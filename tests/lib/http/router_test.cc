#include "lib/http/router.h"

#include <gtest/gtest.h>

#include "lib/http/in_process.h"

namespace muster::http {
namespace {

Route At(std::string method, std::string pattern) {
  return {std::move(method), std::move(pattern), [](const Request&, const Responder&) {}};
}

Router Make(std::vector<Route> routes) {
  auto router = Router::Make(std::move(routes));
  EXPECT_TRUE(router.ok()) << router.status();
  return *std::move(router);
}

using Params = std::map<std::string, std::string>;

TEST(Router, FindsByMethodAndPattern) {
  const Router router = Make({At("GET", "/v1/jobs"), At("POST", "/v1/jobs"),
                              At("GET", "/v1/jobs/{id}"), At("POST", "/v1/jobs/{id}:cancel"),
                              At("GET", "/v1/jobs/{id}/events/{n}"), At("GET", "/")});
  EXPECT_NE(router.Find("GET", "/").handler, nullptr);
  EXPECT_NE(router.Find("POST", "/v1/jobs").handler, nullptr);
  EXPECT_EQ(router.Find("GET", "/v1/jobs/a-1").params, (Params{{"id", "a-1"}}));
  EXPECT_EQ(router.Find("POST", "/v1/jobs/a-1:cancel").params, (Params{{"id", "a-1"}}));
  EXPECT_EQ(router.Find("GET", "/v1/jobs/a/events/7").params, (Params{{"id", "a"}, {"n", "7"}}));
}

TEST(Router, SaysWhichMethodsAPathHas) {
  const Router router = Make({At("POST", "/v1/jobs"), At("GET", "/v1/jobs")});
  const Router::Found found = router.Find("DELETE", "/v1/jobs");
  EXPECT_EQ(found.handler, nullptr);
  EXPECT_EQ(found.allowed, "GET, HEAD, POST");
  EXPECT_EQ(router.Find("HEAD", "/v1/jobs").handler, router.Find("GET", "/v1/jobs").handler);
  EXPECT_EQ(Make({At("POST", "/a")}).Find("HEAD", "/a").handler, nullptr);
}

TEST(Router, NamesStandForSomethingWithoutColon) {
  const Router router = Make({At("GET", "/v1/jobs/{id}"), At("POST", "/v1/jobs/{id}:cancel")});
  for (const char* path : {"/v1/jobs", "/v1", "/v1/jobs/a/b", "/v1/jobs/a:cancel:x",
                           "/v1/jobs/:cancel", "/v1/jobsx/a"}) {
    const Router::Found found = router.Find("GET", path);
    EXPECT_EQ(found.handler, nullptr) << path;
    EXPECT_EQ(found.allowed, "") << path;
  }
  EXPECT_EQ(router.Find("GET", "/v1/jobs/a:cancel").allowed, "POST");
}

TEST(Router, FewestNamesWin) {
  const Router router = Make({At("GET", "/v1/{kind}"), At("GET", "/v1/jobs")});
  EXPECT_TRUE(router.Find("GET", "/v1/jobs").params.empty());
  EXPECT_EQ(router.Find("GET", "/v1/nodes").params, (Params{{"kind", "nodes"}}));
}

TEST(AnswerInProcess, IsWhatAServerWouldSay) {
  const Router router = Make({{"GET",
                               "/v1/jobs/{id}",
                               [](const Request& q, const Responder& respond) {
                                 respond.Send({.body = q.params.at("id") + q.query.at("step")});
                               },
                               {"step"}},
                              {"GET", "/lost", [](const Request&, const Responder&) {}},
                              {"GET", "/stream", [](const Request&, const Responder& respond) {
                                 EXPECT_FALSE(respond.Stream()->Send("", "", ""));
                               }}});
  EXPECT_EQ(AnswerInProcess(router, "GET", "/v1/jobs/a%2D1?step=4").body, "a-14");
  EXPECT_EQ(AnswerInProcess(router, "GET", "/v1/jobs/a?stop=4").status, 400);
  EXPECT_EQ(AnswerInProcess(router, "GET", "/v1//jobs").status, 400);
  EXPECT_EQ(AnswerInProcess(router, "POST", "/v1/jobs/a").status, 405);
  EXPECT_EQ(AnswerInProcess(router, "GET", "/v1").status, 404);
  EXPECT_EQ(AnswerInProcess(router, "GET", "/lost").status, 500);
  EXPECT_EQ(AnswerInProcess(router, "GET", "/stream").status, 500);
}

TEST(Router, RefusesWrongTables) {
  for (const char* pattern :
       {"", "v1", "/v1/{}", "/v1/{id", "/v1/a{id}", "/v1/{a}{b}", "/{a}/{a}", "/v1/a}"}) {
    EXPECT_EQ(Router::Make({At("GET", pattern)}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << pattern;
  }
  EXPECT_FALSE(Router::Make({At("get", "/v1")}).ok());
  EXPECT_FALSE(Router::Make({At("", "/v1")}).ok());
  EXPECT_FALSE(Router::Make({At("GET", "/v1"), At("GET", "/v1")}).ok());
  EXPECT_FALSE(Router::Make({Route{"GET", "/v1", nullptr}}).ok());
}

}  // namespace
}  // namespace muster::http
