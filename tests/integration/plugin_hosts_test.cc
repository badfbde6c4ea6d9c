// Tasks of plug-ins on the hosts of a cluster and of `muster run`, as docs/plugins.md has it: the
// bits are those of `muster train`; a host without the plug-in is left out, and one with another
// build of it named; what a task prepares is made once on each machine, and the job says how far it
// is.
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "nlohmann/json.hpp"
#include "tests/integration/cluster.h"
#include "tests/integration/run_folder.h"
#include "tests/integration/starts.h"
#include "tests/integration/stream_feeds.h"
#include "tests/integration/up_cluster.h"
#include "tests/support/program.h"
#include "tests/support/text_of.h"

namespace muster::integration {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
namespace fs = std::filesystem;

constexpr char kOld[] = MUSTER_TEST_PLUGINS "/example_mlp/example_mlp.so";
// The same with another activation: the tensors are alike, and the bits are not.
constexpr char kNew[] = MUSTER_TEST_PLUGINS "/other_mlp/other_mlp.so";
constexpr char kPreparing[] = MUSTER_TEST_PLUGINS "/preparing";
constexpr char kTwoWorkers[] = "workers={min: 2, max: 2}";
constexpr std::chrono::seconds kPatience{60};

// The commands of the page that people type on the hosts of a cluster, without their comments.
std::vector<std::string> LinesForACluster() {
  std::ifstream in(MUSTER_SOURCE "/docs/plugins.md");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (absl::StartsWith(line, "    muster ") && absl::StrContains(line, "--dir /shared/cluster"))
      lines.emplace_back(absl::StripAsciiWhitespace(line.substr(0, line.find('#'))));
  return lines;
}

// Whole at each moment, as whoever replaces a plug-in that is used does it.
void Put(const char* library, const std::string& folder) {
  fs::create_directories(folder);
  fs::copy_file(library, folder + "/new", fs::copy_options::overwrite_existing);
  fs::rename(folder + "/new", folder + "/mlp.so");
}

class PluginHostsTest : public testing::Test {
 protected:
  PluginHostsTest() : plugins_(folder_ / "plugins"), cluster_dir_(folder_ / "cluster") {
    std::string rows;
    for (int i = 0; i < 48; ++i)
      absl::StrAppend(&rows, (i % 7 - 3) / 3.0, ",", (i % 5 - 2) / 2.0, ",", i % 3, "\n");
    WriteFile(folder_ / "rows.csv", rows);
    Put(kOld, plugins_);
    AdoptOrphans();
  }

  std::string Spec(int64_t steps) const {
    return absl::StrCat(
        "name: rows\ntask: mlp\nparameters: {hidden: 12}\ndata: {paths: [", folder_ / "rows.csv",
        "], format: csv, header: false, label: \"3\"}\nbatch: 12\nlanes: 6\nsteps: ", steps,
        "\noptimizer: {kind: adamw, learning_rate: 0.03}\n");
  }
  // A job whose task prepares something, in the way of that name.
  std::string PreparingSpec(const std::string& prepares, const std::string& notes) const {
    fs::create_directories(folder_ / notes);
    return absl::StrCat("name: prepares\ntask: preparing\nparameters: {prepares: ", prepares,
                        ", notes: ", folder_ / notes, "}\nbatch: 6\nlanes: 6\nsteps: 4\n");
  }
  // The processes that have begun to prepare.
  std::set<int> Prepared(const std::string& notes) const {
    std::set<int> processes;
    std::ifstream in(folder_ / (notes + "/runs"));
    for (int pid = 0; in >> pid;) EXPECT_TRUE(processes.insert(pid).second) << pid << " twice";
    return processes;
  }
  // What the job gives in one worker, of a command from start to end.
  std::string DigestOfTrain(const std::string& spec, const std::vector<std::string>& settings = {},
                            const std::string& plugins = "") {
    const TrainRun run = Train({.spec = spec,
                                .dir = folder_ / absl::StrCat("train-", trained_++),
                                .settings = settings,
                                .plugins = plugins.empty() ? plugins_ : plugins});
    EXPECT_EQ(run.exit_code, 0) << run.Trace();
    return run.result.is_object() ? run.result.value("digest", "none") : "none";
  }

  // Host a, and others by Join; each finds plug-ins in that folder.
  void Begin(int slots, const std::string& plugins) {
    cluster_.emplace(cluster_dir_, std::vector<std::string>{
                                       "--host", "a", "--coordinator", "127.0.0.1:0", "--slots",
                                       absl::StrCat(slots), "--plugins", plugins});
    ASSERT_FALSE(cluster_->url().empty()) << cluster_->up().output();
  }
  // Without a folder it finds none.
  void Join(const std::string& host, const std::string& plugins,
            const std::function<bool()>& before = {}, int slots = 1) {
    std::vector<std::string> options = {"--slots", absl::StrCat(slots)};
    if (!plugins.empty()) options.insert(options.end(), {"--plugins", plugins});
    agent_ = cluster_->Join(host, options, "", before);
    agent_name_ = host;
  }
  void EndAgent() {
    agent_->Signal(SIGTERM);
    EXPECT_EQ(agent_->End(), 75) << agent_->output();
    said_.push_back({agent_name_, agent_->output()});
    agent_.reset();
  }

  // From the folder of the cluster, as on its first host.
  UpCluster::Said Say(std::vector<std::string> words) const {
    words.insert(words.end(), {"--dir", cluster_dir_});
    Program program(MusterCommand(words));
    const int exit_code = program.End();
    return {exit_code, program.output()};
  }
  nlohmann::json Ask(const std::vector<std::string>& words) const {
    const UpCluster::Said said = Say(words);
    const auto json = nlohmann::json::parse(said.text, nullptr, /*allow_exceptions=*/false);
    return json.is_object() ? json : nlohmann::json({{"said", said.text}});
  }
  nlohmann::json StatusOf(const std::string& job) const { return Ask({"status", job, "--json"}); }
  void Submit(const std::string& job, const std::string& spec,
              const std::vector<std::string>& settings = {}) {
    WriteFile(folder_ / "job.yaml", spec);
    std::vector<std::string> words = {"submit", folder_ / "job.yaml", "--id", job,
                                      "--set",  kTwoWorkers};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    const UpCluster::Said said = Say(words);
    ASSERT_EQ(said.exit_code, 0) << said.text;
  }
  void ExpectDone(const std::string& job, const std::string& digest) const {
    const UpCluster::Said watched = Say({"watch", job});
    EXPECT_EQ(watched.exit_code, 0) << watched.text;
    EXPECT_EQ(Ask({"digest", job, "--json"}).value("digest", ""), digest) << watched.text;
    const nlohmann::json audit = Ask({"audit", job, "--json"});
    EXPECT_TRUE(audit.value("ok", false)) << audit;
  }
  // In one sentence of the job's end.
  void ExpectFailed(const std::string& job, int exit_code,
                    const ::testing::Matcher<const std::string&>& reason) const {
    const UpCluster::Said watched = Say({"watch", job});
    EXPECT_EQ(watched.exit_code, exit_code) << watched.text;
    const nlohmann::json status = StatusOf(job);
    EXPECT_EQ(status.value("state", ""), "failed") << status;
    EXPECT_EQ(status.value("exit_code", -1), exit_code) << status;
    EXPECT_THAT(status.value("reason", ""), AllOf(reason, Not(HasSubstr("\n"))));
  }
  // Until the job has done more steps than that.
  void AwaitStepBeyond(const std::string& job, int64_t steps) const {
    nlohmann::json status;
    for (const auto deadline = std::chrono::steady_clock::now() + kPatience;
         std::chrono::steady_clock::now() < deadline;) {
      status = StatusOf(job);
      const auto step = status.find("step");
      if (step != status.end() && step->is_number() && step->get<int64_t>() > steps) return;
      ASSERT_NE(status.value("state", ""), "failed") << status;
    }
    FAIL() << "it does not get beyond step " << steps << ": " << status;
  }
  // Until the job says that it waits for that.
  void AwaitWaiting(const std::string& job,
                    const ::testing::Matcher<const std::string&>& waits_for) const {
    nlohmann::json status;
    for (const auto deadline = std::chrono::steady_clock::now() + kPatience;
         std::chrono::steady_clock::now() < deadline;) {
      status = StatusOf(job);
      if (waits_for.Matches(status.value("waits_for", ""))) return;
      ASSERT_NE(status.value("state", ""), "failed") << status;
    }
    FAIL() << "it does not wait for that: " << status;
  }
  // After how many steps it is stopped.
  int64_t Stop(const std::string& job) const {
    EXPECT_EQ(Say({"stop", job}).exit_code, 0);
    const UpCluster::Said watched = Say({"watch", job});
    EXPECT_EQ(watched.exit_code, kExitStopped) << watched.text;
    const nlohmann::json status = StatusOf(job);
    EXPECT_EQ(status.value("state", ""), "stopped") << status;
    return status.value("step", int64_t{-1});
  }

  // Those that had members of the job, by what agents said that have ended.
  void ExpectMembersOn(const std::vector<std::string>& hosts, const std::string& job) {
    std::set<std::string> had;
    for (const Start& start : StartsIn(said_))
      if (start.job == job) had.insert(start.host);
    EXPECT_EQ(had, std::set<std::string>(hosts.begin(), hosts.end())) << job;
  }
  void ExpectThatAllEnd() {
    EndAgent();
    cluster_->up().Signal(SIGINT);
    EXPECT_EQ(cluster_->up().End(), 0) << cluster_->up().output();
    said_.push_back({"a", cluster_->up().output()});
    EXPECT_THAT(StartedTwice(said_), IsEmpty());
    ExpectNoChildren();
  }

  const Folder folder_;
  const std::string plugins_, cluster_dir_;
  int trained_ = 0;
  std::optional<UpCluster> cluster_;
  std::unique_ptr<Program> agent_;  // of the host besides a
  std::string agent_name_;
  std::vector<AgentSaid> said_;  // agents that have ended
};

// In a copy of the template with its plug-in beside it. Each line is typed as it stands, but for
// where the shared folder and the coordinator are, and how many members have room.
TEST_F(PluginHostsTest, TheLinesOfThePageGiveTheBitsOfTrain) {
  const std::vector<std::string> lines = LinesForACluster();
  ASSERT_THAT(lines, ElementsAre(StartsWith("muster up "), StartsWith("muster agent "),
                                 StartsWith("muster submit "), StartsWith("muster watch "),
                                 StartsWith("muster export ")));
  const std::string model = folder_ / "model", shared = folder_ / "shared";
  fs::copy(MUSTER_SOURCE "/examples/plugin", model);
  Put(kOld, shared + "/plugins");
  const auto type = [&](const std::string& line, const std::string& coordinator) {
    const std::string here =
        absl::StrReplaceAll(line, {{"/shared/", shared + "/"}, {"10.0.0.1:7070", coordinator}});
    return std::make_unique<Program>(std::vector<std::string>{
        "/bin/bash", "-c",
        absl::StrCat("cd ", model, " && PATH=" MUSTER_PROGRAMS ":$PATH && exec ", here)});
  };
  const auto expect = [&](const std::string& line) {
    const std::unique_ptr<Program> program = type(line, "");
    EXPECT_EQ(program->End(), 0) << line << "\n" << program->output();
    return program->output();
  };
  const std::unique_ptr<Program> up =
      type(lines[0] + " --listen 127.0.0.1:0 --host a --slots 1", "127.0.0.1:0");
  const std::string told = "other hosts join with: muster agent --coordinator ";
  ASSERT_TRUE(up->WaitFor(told)) << up->output();
  const size_t at = up->output().find(told) + told.size();
  ASSERT_TRUE(up->WaitFor(" --dir", at)) << up->output();
  const std::unique_ptr<Program> agent = type(
      lines[1] + " --host b --slots 1", up->output().substr(at, up->output().find(' ', at) - at));
  ASSERT_TRUE(agent->WaitFor("joined the cluster")) << agent->output();
  expect(absl::StrCat(lines[2], " --set '", kTwoWorkers, "'"));
  EXPECT_THAT(expect(lines[3]), HasSubstr("job mlp is done"));
  expect(lines[4]);
  EXPECT_TRUE(fs::exists(model + "/mlp.pt"));
  const auto digest =
      nlohmann::json::parse(expect("muster digest mlp --json --dir /shared/cluster"), nullptr,
                            /*allow_exceptions=*/false);
  ASSERT_TRUE(digest.is_object());

  expect("muster train mlp.yaml --plugins /shared/plugins --dir /shared/alone");
  const nlohmann::json alone = ReadJson(shared + "/alone/result.json");
  ASSERT_TRUE(alone.is_object());
  EXPECT_EQ(digest.value("digest", ""), alone.value("digest", "none"));
  agent->Signal(SIGTERM);
  EXPECT_EQ(agent->End(), 75) << agent->output();
  up->Signal(SIGINT);
  EXPECT_EQ(up->End(), 0) << up->output();
  said_ = {{"a", up->output()}, {"b", agent->output()}};
  ExpectMembersOn({"a", "b"}, "mlp");
  ExpectNoChildren();
}

TEST_F(PluginHostsTest, WhereAHostMayNotUseThePluginTheJobGoesOnElsewhere) {
  const std::string digest = DigestOfTrain(Spec(48));
  ASSERT_NO_FATAL_FAILURE(Begin(/*slots=*/2, plugins_));
  Join("b", "", {}, /*slots=*/4);
  ASSERT_NO_FATAL_FAILURE(Submit("rows", Spec(48)));  // where most room is: on host b
  ExpectDone("rows", digest);
  const std::string events = TextOf(cluster_dir_ + "/logs/coordinator.log");  // of the job, too
  EXPECT_THAT(events, ContainsRegex("host b is left out for this job: worker-[01] ended with exit "
                                    "code 72 \\(its host lacks the plug-in\\): task: 'mlp' is "
                                    "unknown"));
  ExpectThatAllEnd();
  ExpectMembersOn({"a", "b"}, "rows");
}

TEST_F(PluginHostsTest, WhereTooFewHostsMayUseThePluginTheJobSaysSoInOneSentence) {
  ASSERT_NO_FATAL_FAILURE(Begin(/*slots=*/1, plugins_));
  Join("b", "");
  ASSERT_NO_FATAL_FAILURE(Submit("without", Spec(12)));
  ExpectFailed("without", kExitBadConfiguration,
               AllOf(StartsWith("what task mlp needs of a folder of plug-ins is missing on b, and "
                                "too few hosts are left"),
                     HasSubstr("ended with exit code 72 (its host lacks the plug-in): task: 'mlp' "
                               "is unknown; there are code-lm"),
                     HasSubstr("and this host has no folder of plug-ins (--plugins)")));
  EndAgent();
  const std::string writable = folder_ / "writable";
  Put(kOld, writable);
  fs::permissions(writable, fs::perms::others_write, fs::perm_options::add);
  Join("c", writable);
  ASSERT_NO_FATAL_FAILURE(Submit("writable", Spec(12)));
  ExpectFailed(
      "writable", kExitBadConfiguration,
      AllOf(HasSubstr("--plugins: everybody may write to "), HasSubstr("/writable, and what lies"),
            HasSubstr("take that right away (chmod o-w)")));
  ExpectThatAllEnd();
}

TEST_F(PluginHostsTest, AHostWithAnotherBuildIsTurnedAway) {
  ASSERT_NO_FATAL_FAILURE(Begin(/*slots=*/1, plugins_));
  Put(kNew, folder_ / "other");
  Join("b", folder_ / "other");
  ASSERT_NO_FATAL_FAILURE(Submit("rows", Spec(12)));
  ExpectFailed(
      "rows", kExitOtherEnvironment,
      AllOf(HasSubstr("plugin (mlp.so sha256:"), HasSubstr("; the job has mlp.so sha256:")));
  // Nobody has done a step, so there is nothing to accept.
  EXPECT_THAT(StatusOf("rows").value("reason", ""), Not(HasSubstr("--accept")));
  ExpectThatAllEnd();
}

TEST_F(PluginHostsTest, AnotherBuildIsRefusedUntilItIsAcceptedAndTheLedgerSaysSo) {
  ASSERT_NO_FATAL_FAILURE(Begin(/*slots=*/1, plugins_));
  Join("b", plugins_);
  ASSERT_NO_FATAL_FAILURE(Submit("rows", Spec(1'000'000)));
  ASSERT_NO_FATAL_FAILURE(AwaitStepBeyond("rows", 9));
  const int64_t stopped_at = Stop("rows");
  ASSERT_GT(stopped_at, 9);

  Put(kNew, plugins_);
  EXPECT_EQ(Say({"resume", "rows"}).exit_code, 0);
  ExpectFailed("rows", kExitOtherEnvironment,
               AllOf(HasSubstr("plugin (mlp.so sha256:"), HasSubstr("; the job has mlp.so sha256:"),
                     HasSubstr("muster resume rows --accept plugin")));
  EXPECT_EQ(StatusOf("rows").value("step", int64_t{-1}), stopped_at);

  EXPECT_EQ(Say({"resume", "rows", "--accept", "plugin"}).exit_code, 0);
  ASSERT_NO_FATAL_FAILURE(AwaitStepBeyond("rows", stopped_at + 9));
  const int64_t ended_at = Stop("rows");
  const std::string digest = StatusOf("rows").value("digest", "");
  const nlohmann::json audit = Ask({"audit", "rows", "--json"});
  EXPECT_TRUE(audit.value("ok", false)) << audit;
  EXPECT_THAT(audit.value("conclusion", ""),
              HasSubstr(absl::StrCat("; from step ", stopped_at, " on mlp.so sha256:")));
  const nlohmann::json uses = audit.value("plugins", nlohmann::json::array());
  ASSERT_EQ(uses.size(), 2U) << audit;
  EXPECT_EQ(uses[0].value("from", -1), 0);
  EXPECT_EQ(uses[0]["accepted_by"], nullptr);
  EXPECT_EQ(uses[1].value("from", int64_t{-1}), stopped_at);
  EXPECT_TRUE(uses[1]["accepted_by"].is_string()) << audit;
  EXPECT_NE(uses[0].value("file", ""), uses[1].value("file", ""));
  EXPECT_THAT(Say({"ledger", "rows"}).text, HasSubstr(" computes in place of mlp.so sha256:"));
  ExpectThatAllEnd();
  ExpectMembersOn({"a", "b"}, "rows");

  // One worker with the one build and then the other does the same.
  Put(kOld, plugins_);
  TrainOptions twin{.spec = Spec(stopped_at), .dir = folder_ / "twin", .plugins = plugins_};
  const TrainRun first = Train(twin);
  ASSERT_EQ(first.exit_code, 0) << first.Trace();
  Put(kNew, plugins_);
  twin.spec = Spec(ended_at);
  twin.accept = {"plugin"};
  const TrainRun second = Train(twin);
  ASSERT_EQ(second.exit_code, 0) << second.Trace();
  EXPECT_EQ(digest, second.result.value("digest", "none"));
}

TEST_F(PluginHostsTest, HostsOfARunGiveTheBitsOfTrain) {
  const std::string spec = Spec(48), run = folder_ / "run";
  WriteFile(folder_ / "job.yaml", spec);
  std::vector<std::unique_ptr<Program>> hosts;
  for (const char* rank : {"0", "1"})
    hosts.push_back(std::make_unique<Program>(
        MusterCommand({"run", folder_ / "job.yaml", "--dir", run, "--workers", "2", "--nnodes", "2",
                       "--node-rank", rank, "--plugins", plugins_})));
  for (const auto& host : hosts) EXPECT_EQ(host->End(), 0) << host->output();
  const nlohmann::json result = ReadJson(run + "/result.json");
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result.value("state", ""), "done") << result;
  EXPECT_EQ(result.value("workers", 0), 2) << result;
  EXPECT_EQ(result.value("digest", ""), DigestOfTrain(spec));
}

TEST_F(PluginHostsTest, AFollowerMeasuresATaskOfAPlugin) {
  const std::vector<std::string> settings = {"data.validation_share=0.25",
                                             "validation.every_steps=8", "validation.on=follower",
                                             "validation.delay=3"};
  const std::string digest = DigestOfTrain(Spec(48), settings);
  ASSERT_NO_FATAL_FAILURE(Begin(/*slots=*/2, plugins_));
  Join("b", plugins_);
  ASSERT_NO_FATAL_FAILURE(Submit("rows", Spec(48), settings));
  ExpectDone("rows", digest);
  const nlohmann::json status = StatusOf("rows");
  EXPECT_EQ(status.value("validation_step", int64_t{-1}), 48) << status;
  ExpectThatAllEnd();
  ExpectMembersOn({"a", "b"}, "rows");
  EXPECT_EQ(StartsIn(said_).size(), 3u) << "two workers and follower-0";
}

TEST_F(PluginHostsTest, AStreamFeedsATaskOfAPlugin) {
  constexpr uint64_t kSamples = 99;
  FolderFeed feed(folder_ / "feed"), again(folder_ / "again");
  for (FolderFeed* of : {&feed, &again}) {
    of->Put(50);
    of->Put(kSamples - 50);
    of->PutEnd();
  }
  const auto spec = [](const FolderFeed& of) {
    return absl::StrCat(
        "name: rows\ntask: mlp\nparameters: {hidden: 12}\n",
        FeedSpec("source: folder, path: " + of.folder()), "batch: 8\nlanes: 4\nepochs: 1\n",
        "optimizer: {kind: adamw, learning_rate: 0.02}\n", "checkpoint: {every_steps: 4}\n");
  };
  const std::string digest = DigestOfTrain(spec(feed));
  ASSERT_NO_FATAL_FAILURE(Begin(/*slots=*/2, plugins_));
  Join("b", plugins_);
  ASSERT_NO_FATAL_FAILURE(Submit("rows", spec(again)));
  ExpectDone("rows", digest);
  EXPECT_EQ(StatusOf("rows").value("samples", uint64_t{0}), kSamples);
  ExpectThatAllEnd();
  ExpectMembersOn({"a", "b"}, "rows");
  EXPECT_EQ(StartsIn(said_).size(), 3u) << "two workers and reader-0";
}

// Machines are told apart by the cache of who runs the hosts.
TEST_F(PluginHostsTest, EachMachinePreparesOnce) {
  const auto spec = [&](const std::string& notes) { return PreparingSpec("as it should", notes); };
  const auto with_cache = [&](const std::string& name) {
    return [cache = folder_ / name] { return setenv("XDG_CACHE_HOME", cache.c_str(), 1) == 0; };
  };
  ASSERT_TRUE(with_cache("cache")());  // what is started from here on has it
  const std::string digest = DigestOfTrain(spec("of-train"), {}, kPreparing);
  EXPECT_THAT(Prepared("of-train"), SizeIs(1));
  ASSERT_NO_FATAL_FAILURE(Begin(/*slots=*/1, kPreparing));
  Join("b", kPreparing);
  ASSERT_NO_FATAL_FAILURE(Submit("one", spec("of-one")));
  ExpectDone("one", digest);
  EXPECT_THAT(Prepared("of-one"), SizeIs(1)) << "both hosts are on this machine";
  EndAgent();
  Join("c", kPreparing, with_cache("cache-of-c"));
  ASSERT_NO_FATAL_FAILURE(Submit("two", spec("of-two")));
  ExpectDone("two", digest);
  EXPECT_THAT(Prepared("of-two"), SizeIs(2)) << "on each of two machines";
  ExpectThatAllEnd();
  ExpectMembersOn({"a", "b"}, "one");
  ExpectMembersOn({"a", "c"}, "two");
}

// The one that prepares stands still half-way until it is killed; then the other does it.
TEST_F(PluginHostsTest, HowFarATaskPreparesIsSeenInTheJob) {
  ASSERT_EQ(setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1), 0);
  ASSERT_NO_FATAL_FAILURE(Begin(/*slots=*/1, kPreparing));
  Join("b", kPreparing);
  ASSERT_NO_FATAL_FAILURE(Submit("prepares", PreparingSpec("once it was killed", "notes")));
  const auto says = AllOf(HasSubstr(" prepares what its task asks for: 50 %, half of it"),
                          HasSubstr(" waits for a process that prepares the same: 50 %"));
  ASSERT_NO_FATAL_FAILURE(AwaitWaiting("prepares", says));
  EXPECT_THAT(Say({"status", "prepares"}).text, says);
  const std::set<int> makes = Prepared("notes");
  ASSERT_THAT(makes, SizeIs(1));
  kill(*makes.begin(), SIGKILL);
  const UpCluster::Said watched = Say({"watch", "prepares"});
  EXPECT_EQ(watched.exit_code, 0) << watched.text;
  EXPECT_EQ(StatusOf("prepares").value("waits_for", "nothing"), "");
  ExpectThatAllEnd();
  ExpectMembersOn({"a", "b"}, "prepares");
}

}  // namespace
}  // namespace muster::integration
