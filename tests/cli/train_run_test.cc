#include "cli/train_run.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/job_file.h"
#include "cli/meeting.h"
#include "cli/remote.h"
#include "cli/train.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/mutex.h"
#include "lib/http/server.h"
#include "lib/wire/job_codec.h"
#include "nlohmann/json.hpp"
#include "tests/cli/hand_cluster.h"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// What the coordinator that the test plays answers.
struct Answers {
  nlohmann::json job = {
      {"state", "running"}, {"step", 0}, {"steps", 20}, {"loss", 0.5}, {"workers", 1}};
  absl::Status refuse;
  absl::Status stop_answer;
  std::function<void()> on_stream;
  int unavailable = 0;
  int stopping = 0;  // submissions that find the job stopping; with the last of them it is stopped
  bool runs_otherwise = false;  // until it is stopped
  std::string resume;           // of the submission that was taken
  absl::Status fingerprints_error;
  int no_fingerprints = 0;                      // answers with that error
  std::vector<std::vector<std::string>> hosts;  // that are up, look by look; the last one stays
  size_t looks = 0;                             // at them
  size_t looks_before = 0;                      // the job was submitted
  int too_slow = 0;                             // streams that get no answer in time
  bool gone = false;
  std::vector<std::pair<std::string, std::string>> first_events;  // of every stream
  std::string after_events;  // state of the job after them; empty: as it was
  std::shared_ptr<http::EventStream> stream;
};

class JobRunTest : public ::testing::Test {
 protected:
  JobRunTest() {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
    server_ = http::Server::Start(
                  "127.0.0.1:0",
                  {{"POST", "/v1/jobs",
                    [this](const http::Request& request, const http::Responder& r) {
                      OnSubmit(request, r);
                    }},
                   {"GET", "/v1/hosts",
                    [this](const http::Request&, const http::Responder& r) { OnHosts(r); }},
                   {"GET", "/v1/jobs/{id}",
                    [this](const http::Request&, const http::Responder& r) {
                      r.Send({.body = JobJson()});
                    }},
                   {"GET",
                    "/v1/jobs/{id}/fingerprints",
                    [this](const http::Request& request, const http::Responder& r) {
                      OnFingerprints(request, r);
                    },
                    {"from"}},
                   {"POST", "/v1/jobs/{id}:stop",
                    [this](const http::Request&, const http::Responder& r) { OnStop(r); }},
                   {"POST", "/v1/jobs/{id}:cancel",
                    [this](const http::Request&, const http::Responder& r) {
                      if (JobState() == "running") Become("cancelled", 67);
                      r.Send({.body = JobJson()});
                    }},
                   {"GET", "/v1/jobs/{id}/events",
                    [this](const http::Request&, const http::Responder& r) {
                      MutexLock lock(mutex_);
                      if (answers_.gone) return r.Send(absl::UnavailableError("it has ended"));
                      if (answers_.too_slow > 0) {
                        --answers_.too_slow;
                        return r.Send(absl::DeadlineExceededError("not in time"));
                      }
                      answers_.stream = r.Stream();
                      for (const auto& [name, data] : answers_.first_events)
                        answers_.stream->Send("1", name, data);
                      if (!answers_.after_events.empty()) {
                        answers_.job["state"] = answers_.after_events;
                        answers_.job["exit_code"] = answers_.after_events == "done" ? 0 : 1;
                      }
                      if (answers_.job["state"] != "running")
                        answers_.stream->Send("9", "done", "{}");
                      if (answers_.on_stream) answers_.on_stream();
                    }}})
                  .value();
  }

  void OnSubmit(const http::Request& request, const http::Responder& responder) {
    const auto body = nlohmann::json::parse(request.body);
    MutexLock lock(mutex_);
    if (answers_.unavailable > 0) {
      --answers_.unavailable;
      responder.Send(absl::UnavailableError("the journal is being read"));
    } else if (answers_.stopping > 0) {
      answers_.job["state"] = --answers_.stopping > 0 ? "stopping" : "stopped";
      responder.Send(absl::FailedPreconditionError("the job is stopping"));
    } else if (answers_.runs_otherwise) {
      responder.Send(absl::FailedPreconditionError(
          "job x is running with other values (workers.min: 3); stop it first"));
    } else if (!answers_.refuse.ok()) {
      responder.Send(answers_.refuse);
    } else {
      answers_.job["id"] = body["id"];
      answers_.looks_before = answers_.looks;
      answers_.resume = body["spec"].value("resume", "");
      if (answers_.job["state"] == "stopped") answers_.job["state"] = "running";
      responder.Send({.body = answers_.job.dump()});
    }
  }

  void OnHosts(const http::Responder& responder) {
    nlohmann::json list = {{"hosts", nlohmann::json::array()}, {"next_page_token", ""}};
    MutexLock lock(mutex_);
    const size_t look = std::min(answers_.looks++, answers_.hosts.size() - 1);
    for (const std::string& name : answers_.hosts[look])
      list["hosts"].push_back({{"name", name}, {"up", true}});
    responder.Send({.body = list.dump()});
  }

  void OnStop(const http::Responder& responder) {
    {
      MutexLock lock(mutex_);
      if (!answers_.stop_answer.ok()) return responder.Send(answers_.stop_answer);
      answers_.runs_otherwise = false;
    }
    responder.Send({.body = "{}"});
    Become("stopped", 67);
  }

  // In two parts.
  void OnFingerprints(const http::Request& request, const http::Responder& responder) {
    MutexLock lock(mutex_);
    if (answers_.no_fingerprints > 0) {
      --answers_.no_fingerprints;
      return responder.Send(answers_.fingerprints_error);
    }
    const auto from = request.query.find("from");
    const bool first = from == request.query.end() || from->second == "0";
    responder.Send({.body = first ? R"({"fingerprints":[{"step":10,"value":"aa"}],"next":20})"
                                  : R"({"fingerprints":[{"step":20,"value":"bb"}],"next":null})"});
  }

  void Set(const std::function<void(Answers&)>& change) {
    MutexLock lock(mutex_);
    change(answers_);
  }
  std::string JobJson() {
    MutexLock lock(mutex_);
    return answers_.job.dump();
  }
  std::string JobState() {
    MutexLock lock(mutex_);
    return answers_.job["state"];
  }
  // As a coordinator that has ended.
  void Leave() {
    MutexLock lock(mutex_);
    answers_.gone = true;
    answers_.stream.reset();
  }
  void Become(const std::string& state, int exit_code) {
    MutexLock lock(mutex_);
    answers_.job["state"] = state;
    answers_.job["exit_code"] = exit_code;
    if (answers_.stream) answers_.stream->Send("9", "done", "{}");
  }

  // Its store has no room: it ends before it takes the job, and is not started again.
  void TheCoordinatorCannotStayUp() {
    Set([](Answers& a) { a.refuse = absl::UnavailableError("never ready"); });
    on_start_ = [](HandCluster& cluster) {
      cluster.Post([&cluster] {
        cluster.events.on_exit(
            {.process = "coordinator",
             .is_coordinator = true,
             .code = 1,
             .given_up = true,
             .text = "coordinator ended with exit code 1; it is not started again",
             .last_lines = "t info m begins\nt error m store: no space left",
             .why = "store: no space left"});
      });
    };
  }

  JobResult Run(int64_t cancel_after = -1) {
    Screen screen({.out = out_, .err = out_}, /*json=*/false);
    return RunJob({.spec = spec_,
                   .folder = folder_,
                   .cancel_after = cancel_after,
                   .hosts = hosts_,
                   .stop_after = stop_after_},
                  Maker(), screen);
  }
  ClusterMaker Maker() {
    return [this](const ClusterOptions& options,
                  ClusterEvents events) -> absl::StatusOr<std::unique_ptr<Cluster>> {
      options_ = options;
      {
        MutexLock lock(mutex_);
        answers_.gone = false;
      }
      std::filesystem::create_directories(options.folder);
      auto cluster = std::make_unique<HandCluster>("http://" + server_->Address(), options.folder,
                                                   std::move(events));
      cluster->on_start = on_start_;
      cluster->on_own_disk = on_own_disk_;
      cluster->on_stop = [this] { Leave(); };
      return cluster;
    };
  }
  // `muster train --json`: its exit code; the objects it wrote are then in objects_.
  int TrainJson(const std::string& spec = "", const std::string& folder = "") {
    const std::string path = folder_ + "/spec.yaml";
    std::ofstream(path) << ToYaml(spec_);
    std::ostringstream err;
    out_.str("");
    objects_.clear();
    TrainArguments arguments;
    arguments.spec = spec.empty() ? path : spec;
    arguments.dir = folder.empty() ? folder_ : folder;
    arguments.json = true;
    const int code = Train(arguments, Maker(), {.out = out_, .err = err});
    std::istringstream lines(out_.str());
    for (std::string line; std::getline(lines, line);)
      objects_.push_back(nlohmann::json::parse(line));
    return code;
  }
  void ExpectAWholeResult() {
    ASSERT_FALSE(objects_.empty());
    EXPECT_EQ(objects_.back()["event"], "result");
    for (const char* field :
         {"job", "state", "steps", "epochs", "samples", "final_loss", "digest", "fingerprint",
          "seconds", "workers", "views", "recoveries", "rewinds", "lanes_recomputed", "sample"})
      EXPECT_TRUE(objects_.back().contains(field)) << field;
  }
  int Ask(RemoteArguments::Command command) {
    std::ostringstream err;
    out_.str("");
    return Remote({.command = command, .to = "http://" + server_->Address(), .job = "j"},
                  {.out = out_, .err = err});
  }
  static StepSeen Step(int64_t step, double loss) {
    return {.member = "worker-0", .step = step, .loss = loss, .samples = 8};
  }

  std::string folder_ = ::testing::TempDir() + "/muster-run-XXXXXX";
  JobSpec spec_ =
      ParseJobYaml("task: counting\nreduction: sum\nepochs: 2\nbatch: 8\n", "spec.yaml").value();
  std::function<void(HandCluster&)> on_start_;
  std::optional<HostsOfRun> hosts_;
  bool on_own_disk_ = false;
  std::optional<Duration> stop_after_;
  ClusterOptions options_;  // of the last cluster
  std::ostringstream out_;
  std::vector<nlohmann::json> objects_;

  Mutex mutex_;
  Answers answers_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<http::Server> server_;  // last: its threads use the rest
};

TEST_F(JobRunTest, FollowsAJobToItsEnd) {
  Set([&](Answers& a) {
    a.unavailable = 2;
    a.after_events = "done";
    a.first_events = {
        {"recovery",
         R"({"text":"worker-2 was killed; its lanes went to workers 0 and 1","step":7})"},
        {"fingerprint", R"({"text":"not for people","step":10,"value":"aa"})"}};
  });
  on_start_ = [&](HandCluster& cluster) {
    cluster.events.on_start({.process = "coordinator", .pid = 1});
    cluster.events.on_report({.process = "worker-0", .event = "step", .step = Step(1, 5.5)});
    cluster.events.on_report(
        {.process = "worker-0", .event = "sample", .text = "int\x1b[2J main()\n{}"});
  };
  const auto result = Run();
  ASSERT_TRUE(result.error.ok()) << result.error;
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.first_loss, 5.5);
  EXPECT_EQ(result.sample, "int\\x1b[2J main()\n{}") << "it cannot steer a terminal";
  EXPECT_EQ(result.fingerprints, (std::vector<StepFingerprint>{{10, "aa"}, {20, "bb"}}));
  EXPECT_THAT(out_.str(), HasSubstr("worker-2 was killed; its lanes went to workers 0 and 1\n"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("not for people")));
  EXPECT_EQ(result.last_disturbed_step, 7);
}

// As on a host of `muster run` that has servers alone or nobody. A worker tells steps sooner, and
// those that it has told are not told again when it has ended.
TEST_F(JobRunTest, WhereNoWorkerRunsTheCoordinatorTellsTheSteps) {
  const auto shown = [this](bool has_worker) {
    Set([](Answers& a) {
      a.job["state"] = "running";
      a.after_events = "done";
      a.first_events.clear();
      for (const int step : {7, 8})
        a.first_events.emplace_back(
            "step",
            nlohmann::json({{"step", step}, {"epoch", 0}, {"loss", 2.5}, {"samples", 4}}).dump());
    });
    on_start_ = [has_worker](HandCluster& cluster) {
      if (!has_worker) return;
      cluster.events.on_start({.job = "j", .process = "worker-0", .pid = 2});
      cluster.events.on_report({.process = "worker-0", .event = "step", .step = Step(8, 5.5)});
      cluster.events.on_exit({.job = "j", .process = "worker-0", .text = "it has left"});
    };
    EXPECT_EQ(TrainJson("", folder_ + (has_worker ? "/with" : "/without")), 0);
    std::vector<std::pair<int, double>> steps;
    for (const nlohmann::json& object : objects_)
      if (object["event"] == "step") steps.emplace_back(object["step"], object["loss"]);
    return steps;
  };
  EXPECT_THAT(shown(false), ElementsAre(std::pair(7, 2.5), std::pair(8, 2.5)));
  EXPECT_THAT(shown(true), ElementsAre(std::pair(8, 5.5)));
}

// Of three hosts two are enough.
TEST_F(JobRunTest, WithOtherHostsItBeginsOnceTheyAreThereAndEndsOnceTheyHaveLeft) {
  hosts_ = HostsOfRun{.plan = {.run_id = "slurm-17-0", .hosts_min = 2, .hosts_max = 3},
                      .coordinator = "127.0.0.1:7070",
                      .host = "here",
                      .node = "machine",
                      .slots = 5};
  Set([&](Answers& a) {
    a.hosts = {{"here"}, {"here", "other"}, {"here", "other"}, {"here"}};
    a.after_events = "done";
  });
  on_start_ = [&](HandCluster&) {
    const auto meeting = MeetingReader(folder_, "slurm-17-0").Look();
    ASSERT_TRUE(meeting);
    EXPECT_EQ(meeting->coordinator, "127.0.0.1:7070");
    EXPECT_EQ(meeting->exit_code, std::nullopt);
  };
  const MeetingReader reader(folder_, "slurm-17-0");
  const auto result = Run();
  ASSERT_TRUE(result.error.ok()) << result.error;
  EXPECT_EQ(options_.slots, 5);
  EXPECT_EQ(options_.host, "here");
  EXPECT_EQ(options_.node, "machine");
  EXPECT_THAT(out_.str(), Not(HasSubstr("losing this host"))) << "the folder is shared";
  EXPECT_THAT(out_.str(), HasSubstr("2 hosts are there"));
  ASSERT_TRUE(reader.Look());
  EXPECT_EQ(reader.Look()->exit_code, 0);
  Set([](const Answers& a) {
    EXPECT_EQ(a.looks_before, 2U) << "it was submitted before two were there";
    EXPECT_GE(a.looks, 4U) << "it ended before the other host had left";
  });
}

TEST_F(JobRunTest, WhatIsLostWithTheFirstHostIsSaidAtTheStart) {
  on_own_disk_ = true;
  hosts_ = HostsOfRun{.plan = {.run_id = "r", .hosts_min = 1, .hosts_max = 2}};
  Set([](Answers& a) {
    a.hosts = {{"here"}};
    a.after_events = "done";
  });
  EXPECT_TRUE(Run().error.ok());
  EXPECT_THAT(out_.str(),
              HasSubstr(absl::StrCat("note: losing this host loses the run: ", folder_)));
}

TEST_F(JobRunTest, WhatIsLostWithTheOnlyPodIsSaidAtTheStart) {
  on_own_disk_ = true;
  hosts_ = HostsOfRun{.plan = {.run_id = "r", .comes_again = true}};
  Set([](Answers& a) {
    a.hosts = {{"here"}};
    a.after_events = "done";
  });
  EXPECT_TRUE(Run().error.ok());
  EXPECT_THAT(out_.str(), HasSubstr("note: losing this host loses the run: "));
}

TEST_F(JobRunTest, OfARunOnOneMachineNobodyNeedsToBeTold) {
  on_own_disk_ = true;
  hosts_ = HostsOfRun{.plan = {.run_id = "r", .hosts_min = 1, .hosts_max = 2, .one_machine = true}};
  Set([](Answers& a) {
    a.hosts = {{"here"}};
    a.after_events = "done";
  });
  EXPECT_TRUE(Run().error.ok());
  EXPECT_THAT(out_.str(), Not(HasSubstr("losing this host")));
}

// The first one of two hosts.
class FirstHostTest : public JobRunTest {
 protected:
  FirstHostTest() {
    hosts_ = HostsOfRun{.plan = {.run_id = "r", .hosts_min = 1, .hosts_max = 2}};
    on_start_ = [this](HandCluster& cluster) { cluster_ = &cluster; };
    Set([this](Answers& a) {
      a.hosts = {{"here"}};
      a.on_stream = [this] { cluster_->Post([this] { OnStream(*cluster_); }); };
    });
  }
  void OnStream(HandCluster& cluster) {
    if (is_told_) cluster.events.on_interrupt(SIGTERM);
    EXPECT_EQ(cluster.leaves, is_told_ ? 1 : 0);
    EXPECT_EQ(cluster.stops, 0) << "the coordinator is needed";
    then_(cluster);
  }
  // What `later` gets is not ours to wait for.
  void AwaitLater(size_t count, const std::function<void()>& then) {
    if (cluster_->later.size() >= count) return then();
    cluster_->Post([this, count, then] { AwaitLater(count, then); });
  }
  void AwaitText(const std::string& text, const std::function<void()>& then) {
    if (absl::StrContains(out_.str(), text)) return then();
    cluster_->Post([this, text, then] { AwaitText(text, then); });
  }
  // It gives way, and waits.
  void Queue() {
    Set([](Answers& a) {
      a.job["state"] = "queued";
      a.stream->Send("2", "state", R"({"text":"the job waits"})");
    });
  }
  void OthersEnd() {
    Set([](Answers& a) { a.hosts = {{"here"}}; });
  }
  HandCluster* cluster_ = nullptr;
  std::function<void(HandCluster&)> then_;
  bool is_told_ = true;
};

TEST_F(FirstHostTest, ToldToEndItLetsItsMembersLeaveAndStaysUntilTheRunIsOver) {
  then_ = [this](HandCluster&) { Become("done", 0); };
  const JobResult result = Run();
  EXPECT_TRUE(result.error.ok()) << result.error;
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("hand their work over"), Not(HasSubstr("stopping"))));
}

// A pod: nobody waits for the end of the run where another one takes its place.
TEST_F(FirstHostTest, OneThatComesAgainEndsWhenItsMembersHaveLeftAndTheRunIsNotOver) {
  hosts_->plan.comes_again = true;
  hosts_->known_as = "train-0.train";
  Set([](Answers& a) { a.hosts = {{"here", "other"}}; });
  then_ = [this](HandCluster& cluster) { AwaitLater(1, [&cluster] { cluster.later.front()(); }); };
  const JobResult result = Run();
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("the coordinator goes on where this host comes again"),
                                Not(HasSubstr("stopping"))));
  EXPECT_THAT(std::string(result.error.message()), HasSubstr("train on and wait for this one"));
  const auto meeting = MeetingReader(folder_, "r").Look();
  ASSERT_TRUE(meeting);
  EXPECT_EQ(meeting->coordinator, "train-0.train:7070");
  EXPECT_FALSE(meeting->exit_code) << "the run is not over";
}

TEST_F(FirstHostTest, WhereAllAreToldTheRunOfPodsIsStoppedAfterACheckpoint) {
  hosts_->plan.comes_again = true;
  then_ = [this](HandCluster&) { Queue(); };
  EXPECT_EQ(Run().exit_code, 75);
  EXPECT_THAT(out_.str(), HasSubstr("have no room for the job\nstopping after a checkpoint"));
}

TEST_F(FirstHostTest, ToldToEndTwiceItStopsTheRunAfterACheckpoint) {
  then_ = [](HandCluster& cluster) {
    cluster.events.on_interrupt(SIGTERM);
    EXPECT_EQ(cluster.leaves, 1);
    EXPECT_EQ(cluster.stops, 0);
  };
  EXPECT_EQ(Run().exit_code, 75);
  EXPECT_THAT(out_.str(), HasSubstr("stopping after a checkpoint"));
}

TEST_F(FirstHostTest, AJobIsStoppedAtOnceWhereNobodyStays) {
  then_ = [this](HandCluster&) { Queue(); };
  EXPECT_EQ(Run().exit_code, 75);
  EXPECT_THAT(out_.str(), HasSubstr("have no room for the job\nstopping after a checkpoint"));
}

TEST_F(FirstHostTest, AJobThatHasNoRoomOnThoseThatStayIsStoppedAMomentLater) {
  Set([](Answers& a) { a.hosts = {{"here", "other"}}; });
  then_ = [this](HandCluster& cluster) {
    Queue();
    AwaitLater(1, [this, &cluster] {
      EXPECT_EQ(cluster.stops, 0);
      OthersEnd();
      cluster.later.front()();
    });
  };
  EXPECT_EQ(Run().exit_code, 75);
  EXPECT_THAT(out_.str(), HasSubstr("have no room for the job\nstopping after a checkpoint"));
}

TEST_F(FirstHostTest, AJobThatHasFoundRoomElsewhereGoesOn) {
  Set([](Answers& a) { a.hosts = {{"here", "other"}}; });
  then_ = [this](HandCluster& cluster) {
    Queue();
    AwaitLater(1, [this, &cluster] {
      Set([](Answers& a) {
        a.job["state"] = "running";
        a.stream->Send("3", "state", R"({"text":"the job goes on"})");
        a.stream->Send("4", "note", R"({"text":"and its state was looked at"})");
      });
      AwaitText("and its state was looked at", [this, &cluster] {
        cluster.later.front()();
        OthersEnd();
        Become("done", 0);
      });
    });
  };
  const JobResult result = Run();
  EXPECT_TRUE(result.error.ok()) << result.error;
  EXPECT_EQ(result.exit_code, 0);
}

// The other one was lost before the job had begun there.
TEST_F(FirstHostTest, WhereNobodyStaysForLongTheRunIsStopped) {
  then_ = [this](HandCluster& cluster) { AwaitLater(1, [&cluster] { cluster.later.front()(); }); };
  EXPECT_EQ(Run().exit_code, 75);
  EXPECT_THAT(out_.str(), HasSubstr("have no room for the job\nstopping after a checkpoint"));
}

// Others were told to end, and may come again.
TEST_F(FirstHostTest, AJobThatHasHadNoRoomForTooLongIsStopped) {
  is_told_ = false;
  then_ = [this](HandCluster& cluster) {
    Queue();
    AwaitLater(1, [&cluster] { cluster.later.front()(); });
  };
  EXPECT_EQ(Run().exit_code, 75);
  EXPECT_THAT(out_.str(), HasSubstr("have had no room for the job\nstopping after a checkpoint"));
}

TEST_F(JobRunTest, HostsThatDoNotComeAreNamed) {
  hosts_ = HostsOfRun{.plan = {.launcher = Launcher::kOptions, .hosts_min = 3, .hosts_max = 3},
                      .patience = std::chrono::seconds(600)};
  Set([](Answers& a) { a.hosts.emplace_back(); });
  on_start_ = [](HandCluster& cluster) { cluster.Post([&cluster] { cluster.later.front()(); }); };
  const MeetingReader reader(folder_, "");
  const auto result = Run();
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_THAT(std::string(result.error.message()),
              AllOf(HasSubstr("of at least 3 hosts only 0 have joined"),
                    HasSubstr(", without 0, 1, 2"), HasSubstr("--join-timeout")));
  ASSERT_TRUE(reader.Look());
  EXPECT_EQ(reader.Look()->exit_code, 75) << "the others are told";
}

TEST_F(JobRunTest, SomethingInThePlaceOfTheMeetingEndsTheRun) {
  hosts_ = HostsOfRun{.plan = {.launcher = Launcher::kOptions, .hosts_min = 2, .hosts_max = 2}};
  std::filesystem::create_directories(folder_ + "/run.json");
  const auto result = Run();
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(std::string(result.error.message()),
              AllOf(HasSubstr("run.json' is a directory"), HasSubstr("remove it")));
  EXPECT_THAT(out_.str(), Not(HasSubstr("are not told"))) << "that is the same";
}

TEST_F(JobRunTest, WhyAJobFailedIsSaidOnce) {
  const std::string lines = "t info m begins\nt error m data.paths: gone";
  on_start_ = [&](HandCluster& cluster) {
    for (const char* worker : {"worker-0", "worker-1"})
      cluster.events.on_exit({.job = "j",
                              .process = worker,
                              .code = 65,
                              .given_up = true,
                              .text = std::string(worker) + " ended with exit code 65 (bad data)",
                              .last_lines = lines});
  };
  const std::string reason = "worker-0 ended with exit code 65 (bad data): data.paths: gone";
  const std::string log = "the log of worker-0 ends with:\n" + lines;
  Set([&](Answers& a) {
    a.after_events = "failed";
    a.job["reason"] = reason;
    a.first_events = {{"process", nlohmann::json({{"text", log}}).dump()},
                      {"done", nlohmann::json({{"text", reason}}).dump()}};
  });
  TrainArguments arguments;
  arguments.spec = folder_ + "/spec.yaml";
  arguments.dir = folder_;
  std::ofstream(arguments.spec) << ToYaml(spec_);
  EXPECT_EQ(Train(arguments, Maker(), {.out = out_, .err = out_}), 1);
  const std::string said = out_.str();
  const size_t first = said.find("data.paths: gone");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("data.paths: gone", first + 1), std::string::npos) << said;
  EXPECT_THAT(said, HasSubstr("  reason       " + reason + "\n"));
}

// What is kept of an earlier life of the job may be a checkpoint, or nothing.
TEST_F(JobRunTest, WhereAJobGoesOnIsWhereItsCheckpointIs) {
  Set([](Answers& a) {
    a.after_events = "stopped";
    a.job["step"] = 3;
    a.job["checkpoint_step"] = nullptr;
  });
  Run();
  EXPECT_THAT(out_.str(), HasSubstr("the job begins anew: it has no checkpoint yet; the first 3 "
                                    "steps are done again\n"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("goes on after")));
  Set([](Answers& a) {
    a.job["state"] = "running";
    a.job["checkpoint_step"] = 2;
  });
  Run();
  EXPECT_THAT(out_.str(), HasSubstr("the job goes on after 2 steps\n"));
}

TEST_F(JobRunTest, AnErrorOfTheFingerprintsEndsTheRunAndIsSaid) {
  Set([&](Answers& a) { a.after_events = "done"; });
  for (const absl::Status& error :
       {absl::DataLossError("the journal is damaged"),
        absl::ResourceExhaustedError("larger than 16 MiB"), absl::InternalError("no list")}) {
    Set([&](Answers& a) {
      a.no_fingerprints = 1;
      a.fingerprints_error = error;
    });
    const JobResult result = Run();
    EXPECT_TRUE(result.error.ok()) << result.error;
    EXPECT_EQ(result.job.state, "done");
    EXPECT_THAT(result.fingerprints, testing::IsEmpty());
    EXPECT_THAT(
        out_.str(),
        HasSubstr("the fingerprints cannot be read: " + std::string(error.message()) + "\n"));
    Set([&](Answers& a) { a.job["state"] = "running"; });
  }
}

TEST_F(JobRunTest, FingerprintsAreAskedForAgainWhileTheCoordinatorIsAway) {
  Set([&](Answers& a) {
    a.after_events = "done";
    a.no_fingerprints = 2;
    a.fingerprints_error = absl::UnavailableError("query queue full (16); retry later");
  });
  EXPECT_EQ(Run().fingerprints.size(), 2u);
  EXPECT_THAT(out_.str(), Not(HasSubstr("cannot be read")));
}

TEST_F(JobRunTest, AViewAfterTheLastStepDisturbsNone) {
  Set([&](Answers& a) {
    a.after_events = "done";
    a.first_events = {{"view", R"({"text":"view 3 goes on at step 20","step":20})"}};
  });
  EXPECT_EQ(Run().last_disturbed_step, 19);
}

// A short job ends while one of its events is looked at.
TEST_F(JobRunTest, WhatHappenedBeforeTheEndIsToldAlsoAfterTheJobIsOver) {
  Set([&](Answers& a) {
    a.after_events = "done";
    a.first_events = {{"state", R"({"state":"recovering","text":"recovers"})"},
                      {"recovery", R"({"text":"its lanes went to worker-2","step":5})"}};
  });
  EXPECT_EQ(Run().last_disturbed_step, 5);
  EXPECT_THAT(out_.str(), HasSubstr("its lanes went to worker-2\n"));
}

TEST_F(JobRunTest, ThatWorkersReadTheirDataIsSaidOnce) {
  on_start_ = [this](HandCluster& cluster) {
    cluster.events.on_report({.process = "worker-1", .event = "prepares"});
    cluster.events.on_report({.process = "worker-0", .event = "prepares"});
    cluster.Post([&] { Become("done", 0); });
  };
  EXPECT_EQ(Run().exit_code, 0);
  EXPECT_THAT(out_.str(), HasSubstr("worker-1 reads its data and makes its model, as each worker "
                                    "does first\n"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("worker-0")));
}

TEST_F(JobRunTest, HowFarAWorkerIsThatPreparesIsSaidEachTime) {
  on_start_ = [this](HandCluster& cluster) {
    for (const char* text : {"prepares: 0 %", "prepares: 50 %, \x1b[31mhalf"})
      cluster.events.on_report({.process = "worker-1", .event = "prepares", .text = text});
    cluster.Post([&] { Become("done", 0); });
  };
  EXPECT_EQ(Run().exit_code, 0);
  EXPECT_THAT(out_.str(), HasSubstr("worker-1 prepares: 0 %\n"));
  EXPECT_THAT(out_.str(), HasSubstr("worker-1 prepares: 50 %, \\x1b[31mhalf\n"));
}

TEST_F(JobRunTest, HowManySamplesOfAStreamAreSafeIsForPrograms) {
  on_start_ = [this](HandCluster& cluster) {
    for (const char* line : {R"({"event":"stream","positions":7})", R"({"event":"stream"})",
                             R"({"event":"stream","positions":-1})"})
      cluster.events.on_report({.process = "reader-0", .event = "stream", .json = line});
    cluster.Post([&] { Become("done", 0); });
  };
  EXPECT_EQ(TrainJson(), 0);
  std::erase_if(objects_, [](const nlohmann::json& object) { return object["event"] != "stream"; });
  ASSERT_EQ(objects_.size(), 1u) << "what has no such number is not told";
  EXPECT_EQ(objects_[0]["process"], "reader-0");
  EXPECT_EQ(objects_[0]["positions"], 7);
}

TEST_F(JobRunTest, CtrlCStopsAfterACheckpoint) {
  on_start_ = [](HandCluster& cluster) {
    cluster.events.on_coordinator(true);
    cluster.Post([&cluster] { cluster.events.on_interrupt(2); });
  };
  const auto result = Run();
  ASSERT_TRUE(result.error.ok()) << result.error;
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_THAT(out_.str(), HasSubstr("stopping after a checkpoint"));
}

// Somebody has taken its token away.
TEST_F(JobRunTest, AStopThatIsRefusedForItsTokenIsToldAndAskedAgainUntilItIsGivenUp) {
  Set([](Answers& a) { a.stop_answer = absl::UnauthenticatedError("the token is not known"); });
  std::function<void()> give_up;
  on_start_ = [&](HandCluster& cluster) {
    cluster.events.on_coordinator(true);
    give_up = [&] {
      // Answers to other questions may come in between, and then the time begins anew.
      for (size_t i = 1; i < cluster.later.size(); ++i) cluster.later[i]();
      if (cluster.stops == 0) cluster.Post(give_up);
    };
    cluster.Post([&] {
      cluster.events.on_interrupt(2);
      give_up();
    });
  };
  const JobResult result = Run();
  EXPECT_THAT(std::string(result.error.message()), HasSubstr("the token is not known"));
  EXPECT_THAT(out_.str(), HasSubstr("warning: the token is not known"));
}

TEST_F(JobRunTest, ASecondCtrlCStopsAtOnce) {
  Set([&](Answers& a) { a.refuse = absl::UnavailableError("never ready"); });
  on_start_ = [](HandCluster& cluster) {
    cluster.events.on_coordinator(true);
    cluster.Post([&cluster] {
      cluster.events.on_interrupt(2);
      EXPECT_EQ(cluster.stops, 0);
      cluster.events.on_interrupt(2);
      EXPECT_EQ(cluster.stops, 2);
    });
  };
  const JobResult result = Run();
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_EQ(result.job.state, "interrupted");
}

// A launcher warns, or ends the step, when the allocation is near its end: that we saw it, too,
// does not make it a second Ctrl-C.
TEST_F(JobRunTest, AfterTheEndOfTheAllocationWasNearTheFirstSignalIsGentle) {
  stop_after_ = std::chrono::seconds(1);
  Set([](Answers& a) { a.refuse = absl::UnavailableError("never ready"); });
  on_start_ = [](HandCluster& cluster) {
    cluster.events.on_coordinator(true);
    cluster.Post([&cluster] {
      cluster.later.front()();
      EXPECT_EQ(cluster.stops, 0);
      cluster.events.on_interrupt(15);
      EXPECT_EQ(cluster.stops, 0) << "its checkpoint is being made";
      cluster.events.on_interrupt(15);
      EXPECT_EQ(cluster.stops, 2);
    });
  };
  EXPECT_EQ(Run().exit_code, 75);
  EXPECT_THAT(out_.str(), HasSubstr("the end of the allocation is near\nstopping after a "
                                    "checkpoint; press Ctrl-C again to stop at once\n"
                                    "stopping already"));
}

// As on a disk that was full from the start.
TEST_F(JobRunTest, WithoutACoordinatorTheFirstCtrlCEndsWhatHasNotBegun) {
  Set([](Answers& a) { a.refuse = absl::UnavailableError("never ready"); });
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] {
      cluster.events.on_interrupt(2);
      EXPECT_EQ(cluster.stops, 1);
    });
  };
  EXPECT_EQ(TrainJson(), 75);
  ExpectAWholeResult();
  EXPECT_EQ(objects_.back()["state"], "interrupted");
  EXPECT_THAT(std::string(objects_.back()["reason"]), HasSubstr("nothing to save"));
}

// A coordinator that knew the job let it go on, and was gone before it had answered.
TEST_F(JobRunTest, WhatHasBegunIsNotSaidToHaveNothingToSave) {
  Set([](Answers& a) { a.refuse = absl::UnavailableError("never ready"); });
  on_start_ = [](HandCluster& cluster) {
    cluster.events.on_coordinator(true);
    cluster.events.on_start({.job = "", .process = "coordinator", .pid = 1});
    cluster.events.on_start({.job = "one", .process = "worker-0", .pid = 2});
    cluster.events.on_coordinator(false);
    cluster.Post([&cluster] {
      cluster.events.on_interrupt(2);
      EXPECT_EQ(cluster.stops, 0) << "a coordinator that comes back can save it";
      ASSERT_EQ(cluster.later.size(), 1U);
      cluster.later.front()();
      EXPECT_EQ(cluster.stops, 1);
    });
  };
  EXPECT_EQ(TrainJson(), 75);
  EXPECT_THAT(std::string(objects_.back()["reason"]),
              AllOf(Not(HasSubstr("nothing to save")), HasSubstr("are not saved")));
}

// One that comes up, but whose disk has no room for the job.
TEST_F(JobRunTest, ACoordinatorThatDoesNotTakeTheJobIsNotWaitedForWithoutEnd) {
  Set([](Answers& a) { a.refuse = absl::UnavailableError("never ready"); });
  on_start_ = [](HandCluster& cluster) {
    cluster.events.on_coordinator(true);
    cluster.Post([&cluster] {
      cluster.events.on_interrupt(2);
      EXPECT_EQ(cluster.stops, 0);
      ASSERT_EQ(cluster.later.size(), 1U);
      cluster.later.front()();
      EXPECT_EQ(cluster.stops, 1);
    });
  };
  EXPECT_EQ(TrainJson(), 75);
  EXPECT_THAT(std::string(objects_.back()["reason"]), HasSubstr("nothing to save"));
}

TEST_F(JobRunTest, ACoordinatorThatIsAwayIsNotWaitedForWithoutEndAtTheStop) {
  Set([](Answers& a) { a.stop_answer = absl::UnavailableError("not now"); });
  on_start_ = [this](HandCluster& cluster) {
    cluster.events.on_coordinator(true);
    Set([&](Answers& a) {
      a.on_stream = [&cluster] {
        cluster.Post([&cluster] {
          const auto look = [&] {
            ASSERT_EQ(cluster.later.size(), 1U);
            std::exchange(cluster.later, {}).front()();
          };
          cluster.events.on_interrupt(2);
          look();
          EXPECT_EQ(cluster.stops, 0) << "a checkpoint takes its time";
          cluster.events.on_coordinator(false);
          look();
          EXPECT_EQ(cluster.stops, 1);
        });
      };
    });
  };
  EXPECT_EQ(TrainJson(), 75);
  EXPECT_EQ(objects_.back()["state"], "interrupted");
  EXPECT_THAT(std::string(objects_.back()["reason"]), HasSubstr("are not saved"));
}

// Where there is no room for it, nobody can say when there will be.
TEST_F(JobRunTest, ACheckpointThatCannotBeMadeIsNotWaitedForWithoutEndAtTheStop) {
  Set([](Answers& a) {
    a.first_events = {
        {"state", R"x({"text":"the journal cannot be written (No space left)","saves":false})x"}};
    a.stop_answer = absl::UnavailableError("No space left");  // nothing is decided
  });
  on_start_ = [this](HandCluster& cluster) {
    cluster.events.on_coordinator(true);
    Set([&](Answers& a) {
      a.on_stream = [&cluster] {
        cluster.Post([&cluster] {
          cluster.events.on_interrupt(2);
          const auto look = std::make_shared<std::function<void()>>();
          *look = [&cluster, look] {  // until what was told has come, and then once more
            if (cluster.stops > 0) return;
            std::exchange(cluster.later, {}).front()();
            cluster.Post(*look);
          };
          (*look)();
        });
      };
    });
  };
  EXPECT_EQ(TrainJson(), 75);
  EXPECT_EQ(objects_.back()["state"], "interrupted");
  EXPECT_THAT(std::string(objects_.back()["reason"]),
              AllOf(HasSubstr("No space left"), HasSubstr("are not saved")));
}

TEST_F(JobRunTest, ARefusedJobIsBadConfiguration) {
  Set([&](Answers& a) {
    a.refuse = absl::InvalidArgumentError("optimizer.kind: 'adamm' is not known");
  });
  const auto result = Run();
  EXPECT_EQ(result.exit_code, 64);
  EXPECT_THAT(std::string(result.error.message()), HasSubstr("optimizer.kind"));
}

TEST_F(JobRunTest, ACoordinatorThatCannotStayUpEndsTheRun) {
  TheCoordinatorCannotStayUp();
  const auto result = Run();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(std::string(result.error.message()),
            "coordinator ended with exit code 1; it is not started again: store: no space left; "
            "its log is " +
                folder_ + "/logs/coordinator.log");
  EXPECT_THAT(out_.str(), Not(HasSubstr("ended with exit code"))) << "it is said once, at the end";
}

// Nobody is told to submit jobs to a cluster that does not come up, nor shown raw lines of a log.
TEST_F(JobRunTest, ACoordinatorOfUpThatIsGivenUpIsSaidOnceWithItsCause) {
  TheCoordinatorCannotStayUp();
  EXPECT_EQ(Up({.dir = folder_}, Maker(), {.out = out_, .err = out_}), 1);
  EXPECT_EQ(out_.str(),
            absl::StrCat("cluster in ", folder_, " with 1 slot\n",
                         "coordinator ended with exit code 1; it is not started again: store: no "
                         "space left; its log is ",
                         folder_, "/logs/coordinator.log\n"));
}

// Otherwise jobs wait for slots for ever, and only the coordinator's log knows why.
TEST_F(JobRunTest, UpSaysWhyItsHostIsNotHeard) {
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] {
      cluster.events.on_coordinator(true);
      for (int i = 0; i < 3; ++i) cluster.events.on_no_coordinator("host here was revoked");
      cluster.events.on_interrupt(2);
      cluster.events.on_no_coordinator("it ends");
    });
  };
  EXPECT_EQ(Up({.dir = folder_}, Maker(), {.out = out_, .err = out_}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("this host, here, has no session with the coordinator, so "
                                    "nothing is started here: host here was revoked; trying "
                                    "again\n"));
  EXPECT_THAT(out_.str(), HasSubstr("host here was revoked: 2 times"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("it ends")));
}

TEST_F(JobRunTest, UpSaysOnceHowJobsAreSubmitted) {
  on_own_disk_ = true;
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] {
      for (const bool is_up : {true, false, true}) cluster.events.on_coordinator(is_up);
      cluster.events.on_interrupt(2);
    });
  };
  EXPECT_EQ(Up({.dir = folder_}, Maker(), {.out = out_, .err = out_}), 0);
  const std::string url = "http://" + server_->Address();
  EXPECT_THAT(out_.str(),
              HasSubstr(absl::StrCat("ready at ", url,
                                     "\nsubmit jobs with: muster submit "
                                     "SPEC.yaml --dir ",
                                     folder_, "\nthe coordinator does not answer\nready at ", url,
                                     "\nstopping")));
  EXPECT_THAT(out_.str(), HasSubstr("with 1 slot\nnote: losing this host loses the jobs: "));
}

TEST_F(JobRunTest, TheExitCodeIsTheOneOfTheJob) {
  on_start_ = [&](HandCluster& cluster) { cluster.Post([&] { Become("failed", 65); }); };
  const auto result = Run();
  ASSERT_TRUE(result.error.ok()) << result.error;
  EXPECT_EQ(result.exit_code, 65);
}

TEST_F(JobRunTest, CancelsOnceTheFingerprintIsThere) {
  Set([&](Answers& a) {
    a.first_events = {{"fingerprint", R"({"step":5,"value":"x"})"},
                      {"fingerprint", R"({"step":10,"value":"aa"})"}};
  });
  const auto result = Run(/*cancel_after=*/10);
  ASSERT_TRUE(result.error.ok()) << result.error;
  EXPECT_EQ(result.job.state, "cancelled");
}

TEST_F(JobRunTest, AFolderOfAnotherTrainingSpecIsRefusedBeforeAnythingStarts) {
  JobSpec other = spec_;
  other.training.seed = 99;
  ASSERT_TRUE(JobIdOf(folder_, other).ok());
  on_start_ = [](HandCluster&) { ADD_FAILURE() << "started"; };
  const auto result = Run();
  EXPECT_EQ(result.exit_code, 64);
  EXPECT_THAT(std::string(result.error.message()), HasSubstr("seed"));
}

TEST_F(JobRunTest, TheLastJsonObjectIsTheResult) {
  on_start_ = [&](HandCluster& cluster) {
    cluster.events.on_report({.process = "worker-0", .event = "step", .step = Step(1, 5.5)});
    cluster.Post([&] { Become("done", 0); });
  };
  EXPECT_EQ(TrainJson(), 0);
  ASSERT_GE(objects_.size(), 3u);
  EXPECT_EQ(objects_[0]["event"], "start");
  EXPECT_EQ(objects_[1]["event"], "step");
  ExpectAWholeResult();
  EXPECT_EQ(objects_.back()["state"], "done");
}

TEST_F(JobRunTest, AlsoOfARunThatCouldNotBegin) {
  EXPECT_EQ(TrainJson("/nowhere/spec.yaml"), 64);
  ExpectAWholeResult();
  EXPECT_EQ(objects_.back()["state"], "failed");
  EXPECT_THAT(objects_.back()["reason"].get<std::string>(), HasSubstr("/nowhere/spec.yaml"));
}

TEST_F(JobRunTest, AlsoOfARefusedJob) {
  Set([&](Answers& a) {
    a.refuse = absl::InvalidArgumentError("optimizer.kind: 'adamm' is not known");
  });
  EXPECT_EQ(TrainJson(), 64);
  ExpectAWholeResult();
  EXPECT_EQ(objects_.back()["job"], JobIdOf(folder_, spec_).value());
}

// A second Ctrl-C cut off the stop that the first one had asked for.
TEST_F(JobRunTest, AJobThatIsStillStoppingIsStoppedFirstAndGoesOn) {
  Set([&](Answers& a) {
    a.stopping = 3;
    a.after_events = "done";
  });
  const auto result = Run();
  ASSERT_TRUE(result.error.ok()) << result.error;
  EXPECT_EQ(result.job.state, "done");
}

// It was cut off with other values, and its members are back before we say these.
TEST_F(JobRunTest, AJobThatRunsWithOtherValuesIsStoppedFirstAndGoesOnFromThere) {
  Set([&](Answers& a) {
    a.runs_otherwise = true;
    a.after_events = "done";
  });
  spec_.runtime.resume = {ResumeKind::kNever};
  const auto result = Run();
  ASSERT_TRUE(result.error.ok()) << result.error;
  EXPECT_EQ(result.job.state, "done");
  EXPECT_THAT(out_.str(), HasSubstr("that is done now"));
  Set([&](Answers& a) { EXPECT_EQ(a.resume, "latest") << "nobody begins anew"; });
}

TEST_F(JobRunTest, AJobThatWasStoppedAtOnceCanGoOn) {
  Set([&](Answers& a) { a.first_events = {{"fingerprint", R"({"step":5,"value":"x"})"}}; });
  on_start_ = [this](HandCluster& cluster) {
    cluster.events.on_report({.process = "worker-0", .event = "step", .step = Step(6, 2.5)});
    Set([&](Answers& a) {
      a.stop_answer = absl::UnavailableError("not now");
      a.on_stream = [&cluster] {
        cluster.Post([&cluster] {
          cluster.events.on_interrupt(2);
          cluster.events.on_interrupt(2);
        });
      };
    });
  };
  EXPECT_EQ(TrainJson(), 75);
  ExpectAWholeResult();
  EXPECT_EQ(objects_.back()["state"], "interrupted");
  EXPECT_EQ(objects_.back()["steps"], 7);
  EXPECT_EQ(objects_.back()["final_loss"], 2.5);
  EXPECT_EQ(objects_.back()["exit_code"], 75);
}

TEST_F(JobRunTest, ProgramsLearnTheLastLinesOfACoordinatorToo) {
  TheCoordinatorCannotStayUp();
  EXPECT_EQ(TrainJson(), 1);
  ExpectAWholeResult();
  EXPECT_THAT(objects_.back()["reason"].get<std::string>(), HasSubstr("store: no space left"));
  const auto is_exit = [](const nlohmann::json& o) { return o["event"] == "process"; };
  const auto exit = std::find_if(objects_.begin(), objects_.end(), is_exit);
  ASSERT_NE(exit, objects_.end());
  EXPECT_EQ((*exit).value("last_lines", ""), "t info m begins\nt error m store: no space left");
  EXPECT_THAT(objects_.back()["reason"].get<std::string>(), Not(HasSubstr("t error m")));
}

TEST_F(JobRunTest, ArgumentsThatAreNoUtf8AreTakenAsTheyAre) {
  on_start_ = [&](HandCluster& cluster) { cluster.Post([&] { Become("done", 0); }); };
  const std::string folder = folder_ + "/r\xFFn";
  EXPECT_EQ(TrainJson("", folder), 0);
  EXPECT_EQ(objects_[0]["folder"], folder_ + "/r\uFFFDn");
  EXPECT_EQ(TrainJson("\xFF.yaml"), 64);
  EXPECT_THAT(objects_.back()["reason"].get<std::string>(), HasSubstr("\uFFFD.yaml"));
}

TEST_F(JobRunTest, AFolderWhoseJobIsOverEndsTheSameWayAndKeepsItsResult) {
  on_start_ = [&](HandCluster& cluster) { cluster.Post([&] { Become("cancelled", 67); }); };
  EXPECT_EQ(TrainJson(), 67);
  const auto kept = [&] {
    std::ifstream in(folder_ + "/result.json");
    return nlohmann::json::parse(in);
  };
  const nlohmann::json first = kept();
  EXPECT_EQ(first["state"], "cancelled");
  on_start_ = {};
  EXPECT_EQ(TrainJson(), 67);
  EXPECT_EQ(kept(), first);
  EXPECT_EQ(Run().exit_code, 67);
  EXPECT_THAT(out_.str(), HasSubstr("give another --dir"));
  Screen screen({.out = out_, .err = out_}, /*json=*/false);
  EXPECT_THAT(ResultText(RunJob({.spec = spec_, .folder = folder_}, Maker(), screen)),
              HasSubstr(" was cancelled before: "));
}

// The seconds of a run are not those of steps that were done before it.
TEST(ResultTextTest, TimeIsSaidOfWhatThisRunDid) {
  JobResult result;
  result.job = {.id = "j", .state = "done", .step = 12, .samples = 96, .loss = NAN, .workers = 1};
  result.seconds = 2;
  const auto first_line = [&] {
    const std::string text = ResultText(result);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(first_line(), "job j is done after 2.0 s: 12 steps, 96 samples, 1 worker");
  result.steps_before = 5;
  EXPECT_EQ(first_line(),
            "job j is done, 2.0 s after it went on: 12 steps in all, 96 samples, 1 worker");
  result.was_over = true;
  result.steps_before = 12;
  EXPECT_EQ(first_line(), "job j was done before: 12 steps in all, 96 samples, 1 worker");
}

// As if its coordinator had ended before it heard what the worker told.
TEST_F(JobRunTest, WhatTheModelWroteIsToldAgainFromTheResult) {
  on_start_ = [&](HandCluster& cluster) {
    cluster.events.on_report({.process = "worker-0", .event = "sample", .text = "int main()"});
    cluster.Post([&] { Become("cancelled", 67); });
  };
  EXPECT_EQ(TrainJson(), 67);
  EXPECT_EQ(objects_.back()["sample"], "int main()");
  on_start_ = {};
  EXPECT_EQ(TrainJson(), 67);
  EXPECT_EQ(objects_.back()["sample"], "int main()");
}

TEST_F(JobRunTest, AResultThatCannotBeWrittenIsSaidAndWrittenTheNextTime) {
  std::filesystem::create_directories(folder_ + "/result.json/in-the-way");
  on_start_ = [&](HandCluster& cluster) { cluster.Post([&] { Become("cancelled", 67); }); };
  EXPECT_EQ(TrainJson(), 67) << "how the job ended does not depend on it";
  const auto is_note = [](const nlohmann::json& o) { return o["event"] == "note"; };
  const auto note = std::find_if(objects_.begin(), objects_.end(), is_note);
  ASSERT_NE(note, objects_.end());
  EXPECT_THAT((*note)["text"].get<std::string>(),
              AllOf(HasSubstr(folder_ + "/result.json could not be written"),
                    HasSubstr("the same command writes it again")));
  std::filesystem::remove_all(folder_ + "/result.json");
  std::ofstream(folder_ + "/result.json") << R"({"state":"stopped","steps":1})";
  on_start_ = {};
  Set([](Answers& a) { a.job["sample"] = "int\x1b[2J main()"; });
  EXPECT_EQ(TrainJson(), 67);
  std::ifstream in(folder_ + "/result.json");
  const nlohmann::json written = nlohmann::json::parse(in);
  EXPECT_EQ(written["state"], "cancelled");
  EXPECT_EQ(written["sample"], "int\\x1b[2J main()") << "no worker reports it any more";
}

TEST_F(JobRunTest, SaysWhichFaultsDidNotHappen) {
  on_start_ = [&](HandCluster& cluster) {
    cluster.missed_faults = {"kill worker-1 at step 400"};
    cluster.Post([&] { Become("done", 0); });
  };
  EXPECT_EQ(TrainJson(), 0);
  const auto is_missed = [](const nlohmann::json& o) { return o["event"] == "fault_missed"; };
  const auto missed = std::find_if(objects_.begin(), objects_.end(), is_missed);
  ASSERT_NE(missed, objects_.end());
  EXPECT_EQ((*missed)["fault"], "kill worker-1 at step 400");
  EXPECT_THAT((*missed)["text"].get<std::string>(), HasSubstr("warning"));
}

TEST_F(JobRunTest, TheClusterLearnsTheLastStep) {
  std::optional<int64_t> last_step;
  on_start_ = [&](HandCluster& cluster) {
    cluster.Post([&] { Become("done", 0); });
    cluster.on_stop = [&] { last_step = cluster.last_step; };
  };
  EXPECT_EQ(Run().exit_code, 0);
  EXPECT_EQ(last_step, 19);
}

TEST_F(JobRunTest, TheClusterLearnsWhomFaultsMayName) {
  spec_.runtime.workers_max = 3;
  spec_.runtime.servers = 2;
  Set([&](Answers& a) { a.refuse = absl::InvalidArgumentError("enough"); });
  Run();
  EXPECT_EQ(options_.workers, 3);
  EXPECT_EQ(options_.servers, 2);
  EXPECT_FALSE(options_.has_follower);
  EXPECT_FALSE(options_.has_reader);
  EXPECT_EQ(options_.slots, 5);
}

TEST_F(JobRunTest, AFollowerHasASlotAndMayBeNamed) {
  spec_.runtime.workers_max = 3;
  spec_.training.validation = {.every_steps = 5, .on = MeasuredOn::kFollower};
  Set([&](Answers& a) { a.refuse = absl::InvalidArgumentError("enough"); });
  Run();
  EXPECT_TRUE(options_.has_follower);
  EXPECT_EQ(options_.slots, 4);
}

TEST_F(JobRunTest, AReaderHasASlotAndMayBeNamed) {
  spec_.runtime.workers_max = 3;
  spec_.training.stream = StreamFrom::kFolder;
  Set([&](Answers& a) { a.refuse = absl::InvalidArgumentError("enough"); });
  Run();
  EXPECT_TRUE(options_.has_reader);
  EXPECT_EQ(options_.slots, 4);
}

TEST_F(JobRunTest, ADemoThatIsTooShortIsRefused) {
  const std::string path = folder_ + "/spec.yaml";
  spec_.training.epochs = 0;
  spec_.training.steps = 79;
  std::ofstream(path) << ToYaml(spec_);
  on_start_ = [](HandCluster&) { ADD_FAILURE() << "started"; };
  std::ostringstream err;
  EXPECT_EQ(Demo({.spec = path, .dir = folder_}, Maker(), {.out = out_, .err = err}), 64);
  EXPECT_THAT(err.str(), HasSubstr("--set steps="));
}

TEST_F(JobRunTest, ADemoWithoutItsKillsFails) {
  const std::string path = folder_ + "/spec.yaml";
  std::ofstream(path) << ToYaml(spec_);
  on_start_ = [&](HandCluster& cluster) { cluster.Post([&] { Become("done", 0); }); };
  std::ostringstream err;
  EXPECT_EQ(Demo({.spec = path, .dir = folder_}, Maker(), {.out = out_, .err = err}), 1);
  EXPECT_THAT(err.str(), HasSubstr("more steps"));
}

TEST_F(JobRunTest, ADemoOfWhichARunIsNotDoneSaysWhyOnce) {
  const std::string path = folder_ + "/spec.yaml";
  std::ofstream(path) << ToYaml(spec_);
  struct Case {
    std::string state, reason, told;
  };
  const std::vector<Case> cases = {
      {"stopped", "stopped after the checkpoint of step 5; it can go on",
       "the disturbed run is not done: stopped after the checkpoint of step 5; it can go on\n"},
      {"failed", "worker-0 crashed", "the disturbed run is not done: failed: worker-0 crashed\n"},
      {"cancelled", "", "the disturbed run is not done: cancelled\n"},
  };
  for (const Case& c : cases) {
    Set([&](Answers& a) {
      a.job["state"] = "running";
      a.job["reason"] = c.reason;
      a.after_events = c.state;
    });
    std::ostringstream err;
    const std::string dir = absl::StrCat(folder_, "/", c.state);
    EXPECT_EQ(Demo({.spec = path, .dir = dir}, Maker(), {.out = out_, .err = err}), 1);
    EXPECT_THAT(err.str(), HasSubstr(c.told));
  }
}

TEST_F(JobRunTest, ADemoElsewhereNamesTheOption) {
  std::ostringstream err;
  EXPECT_EQ(Demo({.spec = "nowhere/code-lm.yaml"}, Maker(), {.out = out_, .err = err}), 64);
  EXPECT_THAT(err.str(), HasSubstr("--spec"));
}

TEST_F(JobRunTest, CtrlCOfAClusterTellsWhichJobsItCutsOff) {
  const auto up = [&] {
    std::ostringstream err;
    out_.str("");
    return Up({.dir = folder_}, Maker(), {.out = out_, .err = err});
  };
  const auto interrupt = [](HandCluster& cluster) {
    cluster.Post([&cluster] { cluster.events.on_interrupt(2); });
  };
  on_start_ = [&](HandCluster& cluster) {
    cluster.jobs_under_way = {"a", "b"};
    interrupt(cluster);
  };
  EXPECT_EQ(up(), 0);
  EXPECT_THAT(out_.str(),
              HasSubstr("\nstopping, which cuts off jobs a and b; the same command goes "
                        "on with them, from the newest checkpoint\n"));
  on_start_ = interrupt;
  EXPECT_EQ(up(), 0);
  EXPECT_THAT(out_.str(), HasSubstr("\nstopping; no job is under way\n"));
}

// Its events may all be gone, and its stream then never ends.
// A coordinator whose disk is full: it is told to have ended at each try.
TEST_F(JobRunTest, ACoordinatorThatDoesNotComeUpIsALineThatCounts) {
  on_start_ = [](HandCluster& cluster) {
    cluster.Post([&cluster] {
      const ClusterEvents& events = cluster.events;
      const auto fails = [&] {
        events.on_coordinator(false);
        events.on_exit(
            {.process = "coordinator",
             .is_coordinator = true,
             .code = 75,
             .text = "coordinator cannot work for now (full); it starts again in 5.0 s"});
      };
      fails();
      fails();
      events.on_coordinator(true);
      for (int i = 0; i < 4; ++i) fails();
      events.on_interrupt(2);
    });
  };
  EXPECT_EQ(Up({.dir = folder_}, Maker(), {.out = out_, .err = out_}), 0);
  const std::string text = out_.str();
  const std::string cause = "coordinator cannot work for now (full)";
  EXPECT_THAT(text, HasSubstr(absl::StrCat(cause, "; it starts again in 5.0 s\n", cause,
                                           ": 2 times\nready at ")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("the coordinator does not answer\n", cause,
                                           "; it starts again in 5.0 s\n", cause, ": 2 times\n",
                                           cause, ": 4 times\nstopping")));
}

TEST_F(JobRunTest, ACoordinatorForWhichThereIsNoRoomIsALineThatCounts) {
  const std::string cause = "coordinator could not be started: no space";
  on_start_ = [&](HandCluster& cluster) {
    cluster.Post([&] {
      for (int i = 0; i < 5; ++i)
        cluster.events.on_exit({.process = "coordinator",
                                .is_coordinator = true,
                                .code = 1,
                                .host_is_short = true,
                                .text = cause + "; it starts again in 5.0 s"});
      cluster.events.on_interrupt(2);
    });
  };
  EXPECT_EQ(Run().exit_code, 75);
  EXPECT_THAT(out_.str(), HasSubstr(absl::StrCat(cause, "; it starts again in 5.0 s\n", cause,
                                                 ": 2 times\n", cause, ": 4 times\n")));
}

TEST_F(JobRunTest, WatchingAJobThatIsOverEnds) {
  Set([&](Answers& a) {
    a.job["state"] = "failed";
    a.on_stream = [] { ADD_FAILURE() << "asked for events"; };
  });
  EXPECT_EQ(Ask(RemoteArguments::Command::kWatch), 1);
  EXPECT_THAT(out_.str(), HasSubstr("is failed"));
}

TEST_F(JobRunTest, WatchingGoesOnThroughACoordinatorThatIsTooSlow) {
  Set([&](Answers& a) {
    a.too_slow = 1;
    a.after_events = "done";
  });
  EXPECT_EQ(Ask(RemoteArguments::Command::kWatch), 0);
  EXPECT_THAT(out_.str(), HasSubstr("is done"));
}

TEST_F(JobRunTest, CancellingTellsTheStateThatTheJobHasNow) {
  Set([&](Answers& a) { a.job["id"] = "j"; });
  EXPECT_EQ(Ask(RemoteArguments::Command::kCancel), 0);
  EXPECT_EQ(out_.str(), "job j is cancelled\n");
  EXPECT_EQ(Ask(RemoteArguments::Command::kCancel), 0) << "a second time is as the first";
  Set([&](Answers& a) { a.job["state"] = "stopping"; });
  EXPECT_EQ(Ask(RemoteArguments::Command::kCancel), 0);
  EXPECT_EQ(out_.str(), "job j is stopping\n");
}

TEST_F(JobRunTest, AJobThatWasOverIsNotCancelled) {
  Set([&](Answers& a) { a.job["id"] = "j"; });
  Set([&](Answers& a) { a.job["state"] = "done"; });
  EXPECT_EQ(Ask(RemoteArguments::Command::kCancel), 1);
  EXPECT_EQ(out_.str(), "job j is done, and is not cancelled: it was over before\n");
}

}  // namespace
}  // namespace muster::cli
