// Commands to a coordinator that speaks HTTPS: it is shown a token once it has proved who it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <sstream>

#include "cli/remote.h"
#include "lib/base/mailbox.h"
#include "lib/http/server.h"
#include "tests/lib/http/tls_layer.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kRuns[] = R"({"id":"j","state":"running","step":1,"steps":2})";
constexpr char kIsDone[] = R"({"id":"j","state":"done","step":2,"steps":2,"exit_code":0})";

// One job, which ends while it is watched.
class HttpsCommandTest : public ::testing::Test {
 protected:
  RemoteArguments To(RemoteArguments::Command command, Trust trust) const {
    RemoteArguments remote;
    remote.command = command;
    remote.to = "https://" + server_->Address();
    remote.job = "j";
    remote.token = "muster-ada-1";
    remote.trust = std::move(trust);
    return remote;
  }
  int Run(const RemoteArguments& remote) { return Remote(remote, {.out = out_, .err = err_}); }
  void Note(const http::Request& request) {
    const auto token = request.headers.find("authorization");
    came_.Post(token == request.headers.end() ? "" : token->second);
  }

  const http::TestCluster cluster_{};
  Mailbox<std::string> came_;  // with each request
  std::atomic<bool> is_done_ = false;
  std::ostringstream out_, err_;
  const std::unique_ptr<http::Server> server_ =
      http::Server::Start("127.0.0.1:0",
                          {{"GET", "/v1/jobs",
                            [this](const http::Request& request, const http::Responder& respond) {
                              Note(request);
                              respond.Send({.body = std::string(R"({"jobs":[)") + kRuns + "]}"});
                            }},
                           {"GET", "/v1/jobs/{id}",
                            [this](const http::Request& request, const http::Responder& respond) {
                              Note(request);
                              respond.Send({.body = is_done_ ? kIsDone : kRuns});
                            }},
                           {"GET",
                            "/v1/jobs/{id}/events",
                            [this](const http::Request& request, const http::Responder& respond) {
                              Note(request);
                              is_done_ = true;
                              const auto stream = respond.Stream();
                              stream->Send("1-1", "done", R"({"text":"job j is done"})");
                            },
                            {},
                            /*streams=*/true}},
                          {.credentials = {.identity = cluster_.own}})
          .value();
};

TEST_F(HttpsCommandTest, TheTokenGoesToTheCoordinatorOfTheCluster) {
  EXPECT_EQ(Run(To(RemoteArguments::Command::kList, cluster_.trust())), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("running"));
  EXPECT_EQ(came_.TryTake(), "Bearer muster-ada-1");
}

TEST_F(HttpsCommandTest, AWatchEndsWithItsJob) {
  EXPECT_EQ(Run(To(RemoteArguments::Command::kWatch, cluster_.trust())), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("job j is done"));
}

TEST_F(HttpsCommandTest, NobodyElseIsAsked) {
  const http::TestCluster other;
  EXPECT_NE(Run(To(RemoteArguments::Command::kList, other.trust())), 0);
  EXPECT_THAT(err_.str(), HasSubstr("--authority names whom to trust"));
  EXPECT_NE(Run(To(RemoteArguments::Command::kWatch, {cluster_.trust().authority_pem, "c2"})), 0);
  EXPECT_THAT(err_.str(), HasSubstr("not the coordinator of cluster c2"));
  EXPECT_NE(Run(To(RemoteArguments::Command::kList, {})), 0);
  EXPECT_THAT(err_.str(), HasSubstr("--authority FILE"));
  EXPECT_FALSE(came_.TryTake().has_value());
}

TEST_F(HttpsCommandTest, InPlainTextItSaysWhatToDo) {
  RemoteArguments remote = To(RemoteArguments::Command::kList, cluster_.trust());
  remote.to = "http://" + server_->Address();
  EXPECT_NE(Run(remote), 0);
  EXPECT_THAT(err_.str(), HasSubstr("ask for https://"));
  EXPECT_FALSE(came_.TryTake().has_value());
}

}  // namespace
}  // namespace muster::cli
