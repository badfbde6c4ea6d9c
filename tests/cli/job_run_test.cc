#include "cli/job_run.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "cli/job_file.h"
#include "cli/train.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/mailbox.h"
#include "lib/http/server.h"
#include "lib/wire/job_codec.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The main loop of a cluster without processes. What the test wants to happen in it is posted.
class HandCluster final : public Cluster {
 public:
  HandCluster(std::string url, std::string folder, ClusterEvents given)
      : events(std::move(given)), url_(std::move(url)), folder_(std::move(folder)) {}
  void Start() override {
    if (on_start) on_start(*this);
  }
  void Stop() override {
    ++stops;
    events.on_stopped();
  }
  void Run() override {
    while (!quit_) {
      const auto call =
          calls_.TakeUntil(std::chrono::steady_clock::now() + std::chrono::seconds(40));
      if (!call) {
        ADD_FAILURE() << "what the test waits for did not happen";
        return;
      }
      (*call)();
    }
  }
  void Quit() override { quit_ = true; }
  void Post(std::function<void()> call) override { calls_.Post(std::move(call)); }
  void After(Duration, std::function<void()>) override {}
  std::string url() const override { return url_; }
  std::string folder() const override { return folder_; }

  const ClusterEvents events;
  std::function<void(HandCluster&)> on_start;
  int stops = 0;

 private:
  const std::string url_;
  const std::string folder_;
  Mailbox<std::function<void()>> calls_;
  bool quit_ = false;
};

class JobRunTest : public ::testing::Test {
 protected:
  JobRunTest() {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
    server_ =
        http::Server::Start("127.0.0.1:0",
                            {{"POST", "/v1/jobs",
                              [this](const http::Request& request, const http::Responder& r) {
                                OnSubmit(request, r);
                              }},
                             {"GET", "/v1/jobs/{id}",
                              [this](const http::Request&, const http::Responder& r) {
                                r.Send({.body = JobJson()});
                              }},
                             {"GET", "/v1/jobs/{id}/fingerprints",
                              [](const http::Request&, const http::Responder& r) {
                                r.Send({.body = R"({"fingerprints":[{"step":10,"value":"aa"}]})"});
                              }},
                             {"POST", "/v1/jobs/{id}:stop",
                              [this](const http::Request&, const http::Responder& r) {
                                r.Send({.body = "{}"});
                                Become("stopped");
                              }},
                             {"POST", "/v1/jobs/{id}:cancel",
                              [this](const http::Request&, const http::Responder& r) {
                                r.Send({.body = "{}"});
                                Become("cancelled");
                              }},
                             {"GET", "/v1/jobs/{id}/events",
                              [this](const http::Request&, const http::Responder& r) {
                                std::lock_guard lock(mutex_);
                                stream_ = r.Stream();
                                for (const auto& [name, data] : first_events_)
                                  stream_->Send("1", name, data);
                                if (!after_events_.empty()) job_["state"] = after_events_;
                                if (job_["state"] != "running") stream_->Send("9", "done", "{}");
                              }}})
            .value();
  }

  void OnSubmit(const http::Request& request, const http::Responder& responder) {
    const auto body = nlohmann::json::parse(request.body);
    std::lock_guard lock(mutex_);
    if (unavailable_ > 0) {
      --unavailable_;
      responder.Send(absl::UnavailableError("the journal is being read"));
    } else if (!refuse_.ok()) {
      responder.Send(refuse_);
    } else {
      job_["id"] = body["id"];
      responder.Send({.body = job_.dump()});
    }
  }

  std::string JobJson() {
    std::lock_guard lock(mutex_);
    return job_.dump();
  }
  void Become(const std::string& state) {
    std::lock_guard lock(mutex_);
    job_["state"] = state;
    if (stream_) stream_->Send("9", "done", "{}");
  }

  absl::StatusOr<JobResult> Run(int64_t cancel_after = -1) {
    Screen screen(out_, Screen::Kind::kPlain, 80);
    return RunJob({.spec = spec_, .folder = folder_, .cancel_after = cancel_after}, Maker(),
                  screen);
  }
  ClusterMaker Maker() {
    return [this](const ClusterOptions& options,
                  ClusterEvents events) -> absl::StatusOr<std::unique_ptr<Cluster>> {
      auto cluster = std::make_unique<HandCluster>("http://" + server_->Address(), options.folder,
                                                   std::move(events));
      cluster->on_start = on_start_;
      return cluster;
    };
  }
  static StepSeen Step(int64_t step, double loss) {
    return {.member = "worker-0", .step = step, .loss = loss, .samples = 8};
  }

  std::string folder_ = ::testing::TempDir() + "/muster-run-XXXXXX";
  JobSpec spec_ =
      ParseJobYaml("task: counting\nreduction: sum\nepochs: 2\nbatch: 8\n", "spec.yaml").value();
  std::function<void(HandCluster&)> on_start_;
  std::ostringstream out_;

  std::mutex mutex_;  // the server's threads and the test's
  nlohmann::json job_ = {
      {"state", "running"}, {"step", 0}, {"steps", 20}, {"loss", 0.5}, {"workers", 1}};
  absl::Status refuse_;
  int unavailable_ = 0;
  std::vector<std::pair<std::string, std::string>> first_events_;  // of every stream
  std::string after_events_;  // state of the job after them; empty: as it was
  std::shared_ptr<http::EventStream> stream_;
  std::unique_ptr<http::Server> server_;  // last: its threads use the rest
};

TEST_F(JobRunTest, FollowsAJobToItsEnd) {
  unavailable_ = 2;
  after_events_ = "done";
  first_events_ = {
      {"recovery", R"({"text":"worker-2 was killed; its lanes went to workers 0 and 1","step":7})"},
      {"fingerprint", R"({"text":"not for people","step":10,"value":"aa"})"}};
  on_start_ = [&](HandCluster& cluster) {
    cluster.events.on_start("coordinator", 1);
    cluster.events.on_report({.process = "worker-0", .event = "step", .step = Step(1, 5.5)});
    cluster.events.on_report({.process = "worker-0", .event = "sample", .text = "int main() {}"});
  };
  const auto result = Run();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 0);
  EXPECT_EQ(result->first_loss, 5.5);
  EXPECT_EQ(result->sample, "int main() {}");
  EXPECT_EQ(result->fingerprints, (std::vector<Fingerprint>{{10, "aa"}}));
  EXPECT_THAT(out_.str(), HasSubstr("worker-2 was killed; its lanes went to workers 0 and 1\n"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("not for people")));
  EXPECT_EQ(result->last_disturbed_step, 7);
}

TEST_F(JobRunTest, CtrlCStopsAfterACheckpoint) {
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] { cluster.events.on_interrupt(2); });
  };
  const auto result = Run();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 75);
  EXPECT_THAT(out_.str(), HasSubstr("stopping after a checkpoint"));
}

TEST_F(JobRunTest, ASecondCtrlCStopsAtOnce) {
  refuse_ = absl::UnavailableError("never ready");
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] {
      cluster.events.on_interrupt(2);
      EXPECT_EQ(cluster.stops, 0);
      cluster.events.on_interrupt(2);
      EXPECT_EQ(cluster.stops, 2);
    });
  };
  EXPECT_EQ(ExitCodeOf(Run().status()), 1);
}

TEST_F(JobRunTest, ARefusedJobIsBadConfiguration) {
  refuse_ = absl::InvalidArgumentError("optimizer.kind: 'adamm' is not known");
  const auto result = Run();
  EXPECT_EQ(ExitCodeOf(result.status()), 64);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("optimizer.kind"));
}

TEST_F(JobRunTest, ACoordinatorThatCannotStayUpEndsTheRun) {
  refuse_ = absl::UnavailableError("never ready");
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] {
      cluster.events.on_exit({.process = "coordinator",
                              .is_coordinator = true,
                              .code = 1,
                              .given_up = true,
                              .text = "coordinator ended with exit code 1; it is not started again",
                              .last_lines = "store: no space left"});
    });
  };
  const auto result = Run();
  EXPECT_EQ(ExitCodeOf(result.status()), 1);
  EXPECT_THAT(out_.str(), HasSubstr("store: no space left"));
}

TEST_F(JobRunTest, BadDataOfAWorkerIsTheExitCode) {
  on_start_ = [&](HandCluster& cluster) {
    cluster.Post([&] {
      cluster.events.on_exit(
          {.process = "worker-0", .code = 65, .given_up = true, .text = "worker-0 ended"});
      Become("failed");
    });
  };
  const auto result = Run();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 65);
}

TEST_F(JobRunTest, CancelsOnceTheFingerprintIsThere) {
  first_events_ = {{"fingerprint", R"({"step":5,"value":"x"})"},
                   {"fingerprint", R"({"step":10,"value":"aa"})"}};
  const auto result = Run(/*cancel_after=*/10);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->job.state, "cancelled");
}

TEST_F(JobRunTest, AFolderOfAnotherLawIsRefusedBeforeAnythingStarts) {
  JobSpec other = spec_;
  other.law.seed = 99;
  ASSERT_TRUE(JobIdOf(folder_, other).ok());
  on_start_ = [](HandCluster&) { ADD_FAILURE() << "started"; };
  const auto result = Run();
  EXPECT_EQ(ExitCodeOf(result.status()), 64);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("seed"));
}

TEST_F(JobRunTest, TheLastJsonObjectIsTheResult) {
  const std::string path = folder_ + "/spec.yaml";
  std::ofstream(path) << ToYaml(spec_);
  on_start_ = [&](HandCluster& cluster) {
    cluster.events.on_report({.process = "worker-0", .event = "step", .step = Step(1, 5.5)});
    cluster.Post([&] { Become("done"); });
  };
  std::ostringstream err;
  EXPECT_EQ(Train({.spec = path, .dir = folder_, .json = true}, Maker(), {.out = out_, .err = err}),
            0)
      << err.str();
  std::istringstream lines(out_.str());
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  ASSERT_GE(objects.size(), 3u);
  EXPECT_EQ(objects[0]["event"], "start");
  EXPECT_EQ(objects[1]["event"], "step");
  for (const char* field :
       {"job", "state", "steps", "epochs", "samples", "final_loss", "digest", "fingerprint",
        "seconds", "workers", "views", "recoveries", "rewinds", "lanes_recomputed"})
    EXPECT_TRUE(objects.back().contains(field)) << field;
  EXPECT_EQ(objects.back()["state"], "done");
}

}  // namespace
}  // namespace muster::cli
