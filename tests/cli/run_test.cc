#include "cli/run.h"

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "cli/job_file.h"
#include "cli/meeting.h"
#include "cli/spec_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/file_lock.h"
#include "tests/cli/hand_cluster.h"
#include "tests/lib/launch/launcher_variables.h"

namespace muster::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Environment Slurm(const char* rank) {
  return {{"SLURM_JOB_ID", "17"},        {"SLURM_STEP_ID", "2"}, {"SLURM_PROCID", rank},
          {"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NODELIST", "n[1-3]"},
          {"SLURM_STEP_NUM_NODES", "3"}};
}

class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
    arguments_.spec = folder_ + "/spec.yaml";
    arguments_.dir = folder_ + "/run";
    std::ofstream(arguments_.spec)
        << "name: count\ntask: counting\nreduction: sum\nepochs: 1\nbatch: 8\n"
           "data: {samples: 64}\nlanes: 4\nworkers: {min: 2, max: 4}\n";
  }
  // What it would start is in options_; it cannot.
  int Start(const Environment& environment) {
    return cli::Run(arguments_,
                    {.environment = environment,
                     .machine = "node01",
                     .address =
                         [](const std::string& interface, const std::string& name) {
                           return absl::StatusOr<std::string>(interface + "<" + name + ">");
                         },
                     .full_name =
                         [this](const std::string& name) {
                           return subdomain_.empty() ? "" : name + subdomain_;
                         },
                     .wait = [this](Duration) { return on_wait_ && on_wait_(); },
                     .set_environment = [this](const std::string& name,
                                               const std::string& value) { set_[name] = value; },
                     .devices = [this] { return devices_; },
                     .unix_seconds = [] { return 1000; },
                     .draw_id = [] { return "drawn"; },
                     .program = "/opt/muster",
                     .folder = "/home",
                     .run_over_ssh =
                         [this](const SshRun& run) {
                           ssh_ = run;
                           return 66;
                         }},
                    [this](const ClusterOptions& options, const ClusterEvents& events) {
                      options_ = options;
                      ++joins_;
                      if (on_join_) {
                        on_join_();
                        EXPECT_FALSE(options.may_still_join());
                      }
                      if (begins_) {
                        auto cluster = std::make_unique<HandCluster>("", folder_ + "/run", events);
                        cluster->on_start = [this](HandCluster& started) {
                          after_ = started.delays;
                          started.events.on_interrupt(SIGINT);
                          started.Quit();
                        };
                        return absl::StatusOr<std::unique_ptr<Cluster>>(std::move(cluster));
                      }
                      if (folder_in_use_-- > 0)
                        return absl::StatusOr<std::unique_ptr<Cluster>>(
                            absl::AlreadyExistsError("in use by another muster"));
                      return absl::StatusOr<std::unique_ptr<Cluster>>(
                          absl::FailedPreconditionError("not here"));
                    },
                    {.out = out_, .err = out_});
  }

  std::string folder_ = ::testing::TempDir() + "/muster-run-XXXXXX";
  RunArguments arguments_;
  std::function<bool()> on_wait_;
  std::optional<ClusterOptions> options_;
  std::string subdomain_;  // of pods, with a dot before it
  int folder_in_use_ = 0;  // looks that find it so
  int joins_ = 0;
  std::function<void()> on_join_;
  Environment set_;
  std::vector<std::string> devices_;  // of the machine
  bool begins_ = false;               // and is interrupted at once
  std::vector<Duration> after_;       // for how long it has set timers by then
  std::optional<SshRun> ssh_;
  std::ostringstream out_;
};

TEST_F(RunTest, TheFirstHostHasTheCoordinatorWhereTheLauncherSays) {
  EXPECT_EQ(Start(Slurm("0")), 64);
  ASSERT_TRUE(options_) << out_.str();
  EXPECT_FALSE(options_->joins);
  EXPECT_EQ(options_->coordinator, "<n1>:0");
  EXPECT_EQ(options_->host, "node01-0");
  EXPECT_EQ(options_->slots, 2) << "4 workers on 3 hosts";
  EXPECT_EQ(options_->folder, folder_ + "/run");
  EXPECT_EQ(options_->node, "");
  arguments_.node = "m1";
  arguments_.interface = "ib0";
  arguments_.host_suffix = "-ib";
  arguments_.launch.coordinator = "n9:7070";
  Start(Slurm("0"));
  EXPECT_EQ(options_->coordinator, "ib0<n9-ib>:7070");
  EXPECT_EQ(options_->node, "m1");
}

Environment Pod(const std::string& index) {
  return {{"JOB_COMPLETION_INDEX", index}, {"HOSTNAME", "train-" + index}};
}

TEST_F(RunTest, TheFirstPodListensWhereItsNameLeadsOthersTo) {
  arguments_.launch.hosts = "2";
  subdomain_ = ".pods.jobs.svc.cluster.local";
  EXPECT_EQ(Start(Pod("0")), 64);
  ASSERT_TRUE(options_) << out_.str();
  EXPECT_EQ(options_->coordinator, "<train-0>:7070");
  EXPECT_EQ(options_->join, "<train-0>:7071");
  EXPECT_THAT(out_.str(), Not(HasSubstr("subdomain")));
  subdomain_ = "";
  Start(Pod("0"));
  EXPECT_THAT(out_.str(), HasSubstr("Give the pods `subdomain`"));
}

TEST_F(RunTest, APodThatIsOneTooManyIsNotTheEndOfTheJob) {
  arguments_.launch.hosts = "2";
  folder_in_use_ = 100;
  int waits = 0;
  on_wait_ = [&] {
    ++waits;
    return false;
  };
  EXPECT_EQ(Start(Pod("0")), 75);
  EXPECT_EQ(waits, 30);
  EXPECT_THAT(out_.str(), HasSubstr("host node01 of this run is started already"));
}

TEST_F(RunTest, APodThatTakesAnothersPlaceWaitsForTheFolder) {
  arguments_.launch.hosts = "2";
  folder_in_use_ = 3;
  EXPECT_EQ(Start(Pod("0")), 64) << "the next try comes to something else";
  EXPECT_EQ(joins_, 4);
}

TEST_F(RunTest, AnotherOneWaitsForItAndGoesWhereItIs) {
  int waits = 0;
  on_wait_ = [&] {
    std::error_code none;
    std::filesystem::create_directories(folder_ + "/run", none);
    if (++waits == 2) {
      EXPECT_TRUE(
          WriteMeeting(folder_ + "/run", {.coordinator = "10.0.0.1:7070", .run_id = "slurm-17-2"})
              .ok());
    }
    return false;
  };
  EXPECT_EQ(Start(Slurm("2")), 64);
  EXPECT_EQ(waits, 2);
  ASSERT_TRUE(options_) << out_.str();
  EXPECT_TRUE(options_->joins);
  EXPECT_EQ(options_->join_patience, std::chrono::seconds(arguments_.join_timeout));
  EXPECT_EQ(options_->coordinator, "10.0.0.1:7070");
  EXPECT_EQ(options_->host, "node01-2");
  EXPECT_EQ(options_->slots, 2);
}

// What an earlier run has left there may still be ending.
TEST_F(RunTest, TheFolderOfAHostIsWaitedForForHalfAMinute) {
  int waits = 0;
  on_wait_ = [&] {
    std::error_code none;
    std::filesystem::create_directories(folder_ + "/run", none);
    if (waits++ == 0) {
      EXPECT_TRUE(
          WriteMeeting(folder_ + "/run", {.coordinator = "10.0.0.1:7070", .run_id = "slurm-17-2"})
              .ok());
    }
    return false;
  };
  folder_in_use_ = 2;
  EXPECT_EQ(Start(Slurm("1")), 64);
  EXPECT_EQ(waits, 3) << "one for the first host, two for the folder";
  EXPECT_THAT(out_.str(), HasSubstr("not here"));
  folder_in_use_ = 1000;
  EXPECT_EQ(Start(Slurm("1")), 64);
  EXPECT_EQ(waits, 33);
  EXPECT_THAT(out_.str(), HasSubstr("in use by another muster"));
  on_wait_ = [] { return true; };
  folder_in_use_ = 2;
  EXPECT_EQ(Start(Slurm("1")), 75) << "it was told to end";
}

TEST_F(RunTest, OneThatWaitsEndsWhenItIsToldToOrTimeIsUp) {
  on_wait_ = [] { return true; };
  EXPECT_EQ(Start(Slurm("1")), 75);
  on_wait_ = nullptr;
  EXPECT_EQ(Start(Slurm("1")), 75);
  EXPECT_THAT(out_.str(), HasSubstr("the first host has not begun in " + folder_ + "/run within"));
  EXPECT_FALSE(options_);
}

// Of a run that ends while another one of this host holds the folder, and of one that had ended.
TEST_F(RunTest, WhoComesTooLateIsToldHowTheRunEnded) {
  const Meeting at{.coordinator = "10.0.0.1:7070", .run_id = "slurm-17-2"};
  Meeting over = at;
  over.exit_code = 0;
  std::filesystem::create_directories(folder_ + "/run");
  ASSERT_TRUE(WriteMeeting(folder_ + "/run", at).ok());
  folder_in_use_ = 1000;
  on_wait_ = [&] {
    EXPECT_TRUE(WriteMeeting(folder_ + "/run", over).ok());
    return false;
  };
  EXPECT_EQ(Start(Slurm("1")), 0);
  const std::string began = "host node01-1 of this run is started already and has not ended";
  for (const std::string& says :
       {began, std::string("was over before this host, node01-1, had joined it"),
        std::string("exit code 0: the job is done"),
        std::string("to begin another, give all hosts another --dir or another --run-id")})
    EXPECT_THAT(out_.str(), HasSubstr(says));
  out_.str("");
  on_wait_ = [] { return true; };
  EXPECT_EQ(Start(Slurm("1")), 75);
  EXPECT_THAT(out_.str(), HasSubstr("is over (exit code 0: the job is done): waiting for"));
  EXPECT_THAT(out_.str(), HasSubstr("to begin another"));
  out_.str("");
  int waits = 0;
  on_wait_ = [&] {
    EXPECT_TRUE(WriteMeeting(folder_ + "/run", ++waits == 1 ? at : over).ok());
    return false;
  };
  arguments_.json = true;
  folder_in_use_ = 0;
  over.exit_code = 75;
  EXPECT_EQ(Start(Slurm("1")), 64) << "the first host has begun anew";
  EXPECT_THAT(out_.str(), HasSubstr(R"({"event":"note","text":"the run in )"));
  folder_in_use_ = 1000;
  on_wait_ = [] { return false; };
  EXPECT_EQ(Start(Slurm("1")), 64);
  EXPECT_THAT(out_.str(), HasSubstr("muster: " + began));
  EXPECT_THAT(out_.str(), HasSubstr("Start each host of a run once"));
}

// With certificates the coordinator would turn it away without end, as it has another key.
TEST_F(RunTest, ASecondOneOfAHostDoesNotJoin) {
  const std::string own = folder_ + "/run/hosts/node01-1";
  std::filesystem::create_directories(own);
  ASSERT_TRUE(
      WriteMeeting(folder_ + "/run", {.coordinator = "10.0.0.1:7070", .run_id = "slurm-17-2"})
          .ok());
  auto held = LockFile(own + "/lock");
  ASSERT_TRUE(held.ok()) << held.status();
  std::ofstream(own + "/lock") << "123\n";
  EXPECT_EQ(Start(Slurm("1")), 64);
  EXPECT_FALSE(options_) << "nothing was started";
  EXPECT_THAT(out_.str(), HasSubstr("has not ended: " + own +
                                    " is in use by another muster "
                                    "(process 123)"));
  on_join_ = [&] { held = LockFile(own + "/lock"); };  // the other one was quicker
  held = absl::CancelledError("");
  EXPECT_EQ(Start(Slurm("1")), 64);
  EXPECT_TRUE(options_);
  EXPECT_EQ(joins_, 1);
  EXPECT_THAT(out_.str(), HasSubstr("Start each host of a run once"));
}

TEST_F(RunTest, AHostWhoseOwnSpecificationDiffersIsTold) {
  std::filesystem::create_directories(folder_ + "/run");
  const auto first = ReadSpec(arguments_.spec, {});
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(JobIdOf(folder_ + "/run", *first).ok());
  ASSERT_TRUE(
      WriteMeeting(folder_ + "/run", {.coordinator = "10.0.0.1:7070", .run_id = "slurm-17-2"})
          .ok());
  Start(Slurm("1"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("warning"))) << "it has the same";
  arguments_.settings = {"seed=8"};
  arguments_.workers = 3;
  Start(Slurm("1"));
  EXPECT_THAT(out_.str(), HasSubstr("warning: the job is as the first host has it, and " +
                                    arguments_.spec + " with its options differs on this host"));
  EXPECT_THAT(out_.str(), HasSubstr("seed: "));
  EXPECT_THAT(out_.str(), HasSubstr(" against 8"));
  EXPECT_THAT(out_.str(), HasSubstr("workers"));
  arguments_.json = true;
  out_.str("");
  Start(Slurm("1"));
  EXPECT_THAT(out_.str(), HasSubstr(R"({"event":"note","text":"warning: the job is)"));
}

// What another start may have is in the file, too, which others compare theirs with.
TEST_F(RunTest, TheFileOfTheJobIsAsTheFirstHostHasIt) {
  std::filesystem::create_directories(folder_ + "/run");
  JobSpec spec = *ReadSpec(arguments_.spec, {});
  ASSERT_TRUE(JobIdOf(folder_ + "/run", spec).ok());
  spec.runtime.workers_max = 3;
  EXPECT_EQ(DifferencesFrom(folder_ + "/run", spec).size(), 1U);
  ASSERT_TRUE(JobIdOf(folder_ + "/run", spec).ok());
  EXPECT_TRUE(DifferencesFrom(folder_ + "/run", spec).empty());
  spec.queue.priority = 1;
  EXPECT_EQ(DifferencesFrom(folder_ + "/run", spec).size(), 1U);
}

// The first host cannot replace it either: nobody waits for what cannot come.
TEST_F(RunTest, SomethingInThePlaceOfTheMeetingEndsIt) {
  std::filesystem::create_directories(folder_ + "/run/run.json");
  EXPECT_EQ(Start(Slurm("1")), 65);
  EXPECT_THAT(out_.str(), HasSubstr("run/run.json' is a directory in the place of a file that "
                                    "Muster keeps: remove it"));
}

TEST_F(RunTest, WhatCannotBeIsSaidBeforeAnythingIsStarted) {
  struct Row {
    std::function<void(RunArguments&)> change;
    const char* says;
  };
  const RunArguments sound = arguments_;
  for (const Row& row : {Row{[](RunArguments& a) { a.spec = "/nowhere.yaml"; }, "/nowhere.yaml"},
                         Row{[](RunArguments& a) {
                               a.dir = "";
                               a.launch.hosts = "2";
                               a.launch.number = 0;
                             },
                             "--run-id"},
                         Row{[](RunArguments& a) {
                               a.launch.hosts = "1:1";
                               a.launch.number = 0;
                               a.launch.slots = 1;
                             },
                             "raise --nproc-per-node"}}) {
    arguments_ = sound;
    row.change(arguments_);
    EXPECT_EQ(Start({}), 64) << row.says;
    EXPECT_THAT(out_.str(), HasSubstr(row.says));
    EXPECT_FALSE(options_) << row.says;
  }
}

TEST_F(RunTest, HostsThatAPersonNamesAreStartedBySsh) {
  arguments_.hosts = "a,b[1-2]";
  arguments_.exclude = {"b1"};
  arguments_.env = {"HERE", "A=1"};
  arguments_.words = {"job.yaml", "--hosts", "a,b[1-2]", "--dir", "d"};
  EXPECT_EQ(Start({{"HERE", "x"}, {"OTHER", "y"}}), 66);
  ASSERT_TRUE(ssh_) << out_.str();
  EXPECT_FALSE(options_);
  EXPECT_THAT(ssh_->names, ElementsAre("a", "b2"));
  EXPECT_EQ(ssh_->hosts_min, 2);
  EXPECT_EQ(ssh_->environment, (Environment{{"HERE", "x"}, {"A", "1"}}));
  EXPECT_EQ(ssh_->commands[1].back(),
            "cd /home && exec /opt/muster run job.yaml --dir d --nnodes 2:2 --node-rank 1 --run-id "
            "drawn --over-ssh");
  EXPECT_TRUE(set_.empty()) << "it is for the hosts";
}

TEST_F(RunTest, HostsThatCannotBeAreRefusedBeforeAnySsh) {
  struct Row {
    std::function<void(RunArguments&)> change;
    const char* says;
  };
  const RunArguments sound = arguments_;
  for (const Row& row : {Row{[](RunArguments& a) { a.hosts = "a,"; }, "--hosts"},
                         Row{[](RunArguments& a) { a.host_file = "/nowhere"; }, "/nowhere"},
                         Row{[](RunArguments& a) { a.hosts = a.host_file = "a"; }, "both"},
                         Row{[](RunArguments& a) { a.exclude = {"a"}; }, "srun --exclude"},
                         Row{[](RunArguments& a) { a.env = {"AWAY"}; }, "AWAY"},
                         Row{[](RunArguments& a) {
                               a.hosts = "a,b";
                               a.node = "m";
                             },
                             "--node is the name of one machine"},
                         Row{[](RunArguments& a) {
                               a.hosts = "a,b";
                               a.launch.hosts = "3";
                             },
                             "2 hosts are named"},
                         Row{[](RunArguments& a) {
                               a.hosts = "a,b";
                               a.launch.number = 0;
                             },
                             "--node-rank"}}) {
    arguments_ = sound;
    row.change(arguments_);
    EXPECT_EQ(Start({}), 64) << row.says;
    EXPECT_THAT(out_.str(), HasSubstr(row.says));
    EXPECT_FALSE(ssh_ || options_) << row.says;
  }
}

TEST_F(RunTest, WhatAllProcessesGetIsSetBeforeAnyIsStarted) {
  arguments_.env = {"A=1"};
  Environment mpirun = {{"OMPI_COMM_WORLD_RANK", "0"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"CUDA_VISIBLE_DEVICES", "0,1"}};
  Start(mpirun);
  EXPECT_EQ(set_, (Environment{{"A", "1"}, {"CUDA_VISIBLE_DEVICES", "0"}}));
}

TEST_F(RunTest, WithoutALauncherItIsOneHost) {
  EXPECT_EQ(Start({}), 64);
  ASSERT_TRUE(options_) << out_.str();
  EXPECT_EQ(options_->coordinator, "");
  EXPECT_EQ(options_->slots, 4);
}

TEST_F(RunTest, OneHostListensWhereAPersonSaysToo) {
  arguments_.launch.hosts = "1";
  arguments_.interface = "ib0";
  Start({});
  ASSERT_TRUE(options_) << out_.str();
  EXPECT_EQ(options_->coordinator, "ib0<>:0");
  arguments_.interface = "";
  arguments_.launch.coordinator = "10.0.0.9:7070";
  Start({});
  EXPECT_EQ(options_->coordinator, "<10.0.0.9>:7070");
  arguments_.launch.coordinator = "10.0.0.9:0";
  Start({});
  EXPECT_EQ(options_->coordinator, "<10.0.0.9>:0");
  arguments_.launch.coordinator = "";
  arguments_.node = "m1";
  Start({});
  EXPECT_EQ(options_->node, "m1");
  EXPECT_EQ(options_->coordinator, "127.0.0.1:0");
}

TEST_F(RunTest, HostsOfAMachineShareItsDevices) {
  devices_ = {"0", "1", "2", "3"};
  EXPECT_EQ(Start(Torchrun({0, 2, 0, 2})), 64);
  EXPECT_EQ(set_["CUDA_VISIBLE_DEVICES"], "0,1") << out_.str();
}

TEST_F(RunTest, TheNodeFileIsReadAtTheFirstHostOnly) {
  Environment first = HydraInPbs({0, 4, 0, 2});
  Environment other = HydraInPbs();
  first["PBS_NODEFILE"] = other["PBS_NODEFILE"] = folder_ + "/nodes";
  on_wait_ = [] { return true; };
  std::ofstream(folder_ + "/nodes") << "no name\n";
  Start(other);
  EXPECT_THAT(out_.str(), Not(HasSubstr("PBS_NODEFILE"))) << "it is of no use there";
  std::filesystem::remove(folder_ + "/nodes");
  Start(first);
  EXPECT_THAT(out_.str(), HasSubstr("note: PBS_NODEFILE: "));
  EXPECT_EQ(options_->coordinator, "<>:0");
  std::ofstream(folder_ + "/nodes") << "x1\nx2\n";
  Start(first);
  EXPECT_EQ(options_->coordinator, "<x1>:0");
  std::ofstream(folder_ + "/nodes") << "no name\n";
  EXPECT_EQ(Start(first), 64);
  EXPECT_THAT(out_.str(), HasSubstr("PBS_NODEFILE: a line of the node file"));
}

// A step of Slurm that ends at 1000 + 500 s, of which it keeps two minutes to end in order.
TEST_F(RunTest, TheRunStopsBeforeTheLauncherEndsIt) {
  Environment step = Slurm("0");
  step["SLURM_JOB_END_TIME"] = "1500";
  begins_ = true;
  std::filesystem::create_directories(arguments_.dir);
  Start(step);
  EXPECT_THAT(after_, Contains(std::chrono::seconds(380))) << out_.str();
}

}  // namespace
}  // namespace muster::cli
