// Many who look at jobs over HTTP while nothing is decided, as when the journal's disk is slow.
#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <iterator>
#include <memory>
#include <string>

#include "coordinator/service/job_api.h"
#include "coordinator/service/rest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/http/server.h"
#include "tests/coordinator/runtime/driver_rig.h"
#include "tests/lib/http/raw_client.h"

namespace muster::coordinator {
namespace {

using http::RawClient;

class PollersTest : public DriverRig {
 protected:
  void SetUp() override {
    auto server = http::Server::Start("127.0.0.1:0", RestRoutes(
                                                         *api_, [this] { return metrics_.Text(); },
                                                         [this] { return driver_->Healthy(); },
                                                         [this] { return driver_->Ready(); }));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~PollersTest() override {
    driver_->Stop();
    server_.reset();
    Stop();
  }

  const std::unique_ptr<JobApi> api_ = MakeJobApi(*driver_, *journal_, root_);
  std::unique_ptr<http::Server> server_;
};

TEST_F(PollersTest, AreAnsweredThoughNothingIsDecided) {
  constexpr size_t kConnections = 200;
  const char* const asked[] = {"/v1/jobs", "/v1/jobs/a", "/v1/jobs?limit=1", "/healthz", "/readyz"};
  SubmitJob();
  std::promise<void> enough;
  HoldUp(enough);
  std::deque<RawClient> pollers;
  for (size_t i = 0; i < kConnections; ++i) pollers.emplace_back(server_->Address());
  // One that waits is enough to know: the others would have to wait too.
  const auto all_are_answered = [&](const char* target) {
    for (RawClient& poller : pollers) poller.Send(http::GetText(target));
    return std::all_of(pollers.begin(), pollers.end(), [](RawClient& poller) {
      return http::StatusOf(poller.ReadAnswer()) == 200;
    });
  };
  EXPECT_TRUE(std::all_of(std::begin(asked), std::end(asked), all_are_answered));
  for (RawClient& poller : pollers) poller.Send(http::GetText("/v1/jobs/a/events"));
  EXPECT_TRUE(std::all_of(pollers.begin(), pollers.end(), [](RawClient& poller) {
    return poller.ReadUntil("event: state").ends_with("event: state");
  })) << "they are told of the job's events";
  enough.set_value();
  EXPECT_EQ(Look().size(), 1u);
}

TEST_F(PollersTest, AreToldThatTheJournalCannotBeWrittenAnyMore) {
  SubmitJob();
  RawClient poller(server_->Address());
  poller.Send(http::GetText("/healthz"));
  EXPECT_EQ(http::StatusOf(poller.ReadAnswer()), 200);
  *broken_ = true;
  driver_->Change(
      [](const KnownJobs&) {
        return Input(Submit{"b", CountingSpec(1)});
      },
      [](const absl::StatusOr<KnownJobs>&) {});
  ASSERT_TRUE(told_broken_.TakeUntil(RealClock().Now() + std::chrono::seconds(30)).has_value());
  for (const char* target : {"/healthz", "/readyz"}) {
    poller.Send(http::GetText(target));
    const std::string answer = poller.ReadAnswer();
    EXPECT_EQ(http::StatusOf(answer), 503) << target;
    EXPECT_THAT(answer, ::testing::HasSubstr("journal")) << target;
  }
}

}  // namespace
}  // namespace muster::coordinator
