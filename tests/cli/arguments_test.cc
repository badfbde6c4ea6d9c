#include "cli/arguments.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/fork.h"
#include "cli/queue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Parsed Parse(std::vector<const char*> words) {
  words.insert(words.begin(), "muster");
  return ParseArguments(static_cast<int>(words.size()), words.data());
}

TEST(ArgumentsTest, Train) {
  const Parsed parsed =
      Parse({"train", "--set", "steps=5", "a.yaml", "--workers", "2", "--set", "optimizer.kind=sgd",
             "--servers", "1", "--dir", "d", "--faults", "p.yaml", "--json"});
  ASSERT_EQ(parsed.exit_code, std::nullopt) << parsed.text;
  const auto& train = std::get<TrainArguments>(parsed.arguments);
  EXPECT_EQ(train.spec, "a.yaml");
  EXPECT_EQ(train.workers, 2);
  EXPECT_EQ(train.servers, 1);
  EXPECT_THAT(train.settings, ElementsAre("steps=5", "optimizer.kind=sgd"));
  EXPECT_EQ(train.dir, "d");
  EXPECT_EQ(train.faults, "p.yaml");
  EXPECT_TRUE(train.json);
}

TEST(ArgumentsTest, RunTakesTheNamesThatPeopleKnow) {
  for (const std::vector<const char*>& words :
       {std::vector<const char*>{"--nnodes", "2:4", "--node-rank", "3", "--nproc-per-node", "8"},
        {"--nodes", "2:4", "-nr", "3", "--gpus", "8"},
        {"--nnodes", "2:4", "--node_rank", "3", "--nproc_per_node", "8"}}) {
    std::vector<const char*> all = {"run", "a.yaml", "--epochs", "5", "--set", "seed=7"};
    all.insert(all.end(), words.begin(), words.end());
    const Parsed parsed = Parse(all);
    ASSERT_EQ(parsed.exit_code, std::nullopt) << parsed.text;
    const auto& run = std::get<RunArguments>(parsed.arguments);
    EXPECT_EQ(run.launch.hosts, "2:4");
    EXPECT_EQ(run.launch.number, 3);
    EXPECT_EQ(run.launch.slots, 8);
    EXPECT_THAT(run.settings, ElementsAre("seed=7", "epochs=5"));
  }
  EXPECT_EQ(Parse({"run", "a.yaml", "--join-timeout", "0"}).exit_code, 64);
}

TEST(ArgumentsTest, AnAddressIsAUrlWithoutItsBeginning) {
  const auto to = [](const char* text) {
    return std::get<RemoteArguments>(Parse({"list", "--to", text}).arguments).to;
  };
  EXPECT_EQ(to("127.0.0.1:9"), "https://127.0.0.1:9");
  EXPECT_EQ(to("[::1]:9"), "https://[::1]:9");
  EXPECT_EQ(to("http://127.0.0.1:9/"), "http://127.0.0.1:9");
  EXPECT_EQ(to("https://node7.example:9/"), "https://node7.example:9");
}

TEST(ArgumentsTest, WhatIsNotSaidStaysWithTheFile) {
  const Parsed parsed = Parse({"train", "a.yaml"});
  ASSERT_EQ(parsed.exit_code, std::nullopt) << parsed.text;
  const auto& train = std::get<TrainArguments>(parsed.arguments);
  EXPECT_EQ(train.workers, std::nullopt);
  EXPECT_EQ(train.servers, std::nullopt);
  EXPECT_FALSE(train.json);
}

TEST(ArgumentsTest, Up) {
  const Parsed parsed = Parse({"up", "--listen", "10.1.2.3:0", "--join-listen", "10.1.2.3:7071"});
  ASSERT_EQ(parsed.exit_code, std::nullopt) << parsed.text;
  const auto& up = std::get<UpArguments>(parsed.arguments);
  EXPECT_EQ(up.listen, "10.1.2.3:0");
  EXPECT_EQ(up.join_listen, "10.1.2.3:7071");
}

TEST(ArgumentsTest, TheLogOfTheProcesses) {
  for (const std::vector<const char*>& command :
       {std::vector<const char*>{"train", "a.yaml"}, {"up"}, {"demo"}}) {
    EXPECT_THAT(ArgumentsOf(Parse(command).log), ElementsAre("--log-level", "info"));
    std::vector<const char*> more = command;
    more.insert(more.end(), {"--log-json", "--log-level", "debug"});
    EXPECT_THAT(ArgumentsOf(Parse(more).log), ElementsAre("--log-level", "debug", "--log-json"));
  }
}

TEST(ArgumentsTest, AsManyProcessesAsAJobFileMayName) {
  EXPECT_EQ(Parse({"train", "a.yaml", "--workers", "4096", "--servers", "4096"}).exit_code,
            std::nullopt);
  EXPECT_EQ(Parse({"train", "a.yaml", "--workers", "4097"}).exit_code, 64);
  EXPECT_EQ(Parse({"train", "a.yaml", "--servers", "4097"}).exit_code, 64);
}

TEST(ArgumentsTest, RemoteCommands) {
  using Command = RemoteArguments::Command;
  const std::pair<const char*, Command> cases[] = {
      {"status", Command::kStatus},  {"watch", Command::kWatch},   {"stop", Command::kStop},
      {"cancel", Command::kCancel},  {"delete", Command::kDelete}, {"logs", Command::kLogs},
      {"digest", Command::kDigest},  {"audit", Command::kAudit},   {"ledger", Command::kLedger},
      {"history", Command::kHistory}};
  for (const auto& [name, command] : cases) {
    const Parsed parsed = Parse({name, "job-1", "--to", "http://127.0.0.1:9"});
    ASSERT_EQ(parsed.exit_code, std::nullopt) << parsed.text;
    const auto& remote = std::get<RemoteArguments>(parsed.arguments);
    EXPECT_EQ(remote.command, command);
    EXPECT_EQ(remote.job, "job-1");
    EXPECT_EQ(remote.to, "http://127.0.0.1:9");
  }
  EXPECT_EQ(std::get<RemoteArguments>(Parse({"list"}).arguments).command, Command::kList);
  EXPECT_EQ(std::get<RemoteArguments>(Parse({"submit", "a.yaml"}).arguments).spec, "a.yaml");
}

TEST(ArgumentsTest, OptionsOfTheCommandsForJobs) {
  const auto remote = [](const std::vector<const char*>& words) {
    const Parsed parsed = Parse(words);
    EXPECT_EQ(parsed.exit_code, std::nullopt) << parsed.text;
    return std::get<RemoteArguments>(parsed.arguments);
  };
  EXPECT_EQ(remote({"list", "--state", "running"}).state, "running");
  EXPECT_TRUE(remote({"delete", "j", "--yes"}).yes);
  const RemoteArguments logs =
      remote({"logs", "j", "--member", "worker-0", "--follow", "--dir", "c", "--json"});
  EXPECT_EQ(logs.member, "worker-0");
  EXPECT_EQ(logs.dir, "c");
  EXPECT_TRUE(logs.follow && logs.json);
  const RemoteArguments late = remote({"logs", "j", "--tail", "20", "--since", "15m"});
  EXPECT_EQ(late.tail, 20);
  EXPECT_EQ(late.since, 900);
  EXPECT_TRUE(remote({"stop", "j", "--json"}).json);
  const Parsed up = Parse({"up", "--slots", "3"});
  EXPECT_EQ(std::get<UpArguments>(up.arguments).slots, 3);
  EXPECT_GE(std::get<UpArguments>(Parse({"up"}).arguments).slots, 1);
}

// As of a variable of a shell that is not set.
TEST(ArgumentsTest, HowManyWorkersAJobIsScaledTo) {
  const auto workers = [](const char* text) {
    const Parsed parsed = Parse({"scale", "j", "--workers", text});
    if (parsed.exit_code) return parsed.text;
    const auto& remote = std::get<RemoteArguments>(parsed.arguments);
    EXPECT_EQ(remote.command, RemoteArguments::Command::kScale);
    EXPECT_EQ(remote.job, "j");
    return absl::StrCat(remote.workers_min, "-", remote.workers_max);
  };
  EXPECT_EQ(workers("4"), "1-4");
  EXPECT_EQ(workers("2:4"), "2-4");
  EXPECT_EQ(workers("4096:4096"), "4096-4096");
  for (const char* wrong : {"0", "4097", "-1", "x", "", ":", "1:", ":2", "1:2:3", "0:2", "1:4097"})
    EXPECT_THAT(workers(wrong), HasSubstr("--workers")) << wrong;
  EXPECT_THAT(workers("4:2"), HasSubstr("4 is more than 2"));
  EXPECT_THAT(Parse({"scale", "j"}).text, HasSubstr("--workers"));
}

TEST(ArgumentsTest, TheCommandsOfTheQueue) {
  const auto change = [](std::vector<const char*> words) -> std::string {
    words.insert(words.begin(), {"queue", "j"});
    const Parsed parsed = Parse(words);
    if (parsed.exit_code) return parsed.text;
    const auto& remote = std::get<RemoteArguments>(parsed.arguments);
    EXPECT_EQ(remote.command, RemoteArguments::Command::kQueue);
    EXPECT_EQ(remote.job, "j");
    const absl::StatusOr<std::string> json = QueueChangeOf(remote);
    return json.ok() ? *json : std::string(json.status().message());
  };
  EXPECT_EQ(change({"--priority", "-5"}), R"({"priority":-5})");
  EXPECT_EQ(change({"--deadline", "0.5", "--time-to-live", "60", "--retries", "2"}),
            R"({"deadline":0.5,"time_to_live":60.0,"retries":2})");
  // As null it would be the default, which is no deadline.
  EXPECT_THAT(change({"--deadline", "nan"}), HasSubstr("--deadline: 'nan' is not a number"));
  EXPECT_THAT(change({"--time-to-live", "inf"}), HasSubstr("--time-to-live: 'inf' is not"));
  EXPECT_EQ(change({"--label", "a=b", "--label", "c=", "--no-label", "d"}),
            R"({"labels":{"a":"b","c":"","d":null}})");
  EXPECT_THAT(change({"--label", "a"}), HasSubstr("--label: 'a' is not KEY=VALUE"));
  EXPECT_THAT(change({}), HasSubstr("say what is to change"));

  const auto quota = [](const std::vector<const char*>& words) {
    const Parsed parsed = Parse(words);
    if (parsed.exit_code) return parsed.text;
    const auto& remote = std::get<RemoteArguments>(parsed.arguments);
    return absl::StrCat(remote.name_space, " ", remote.quota_slots.value_or(-2), " ",
                        remote.quota_queued.value_or(-2));
  };
  EXPECT_EQ(quota({"quota"}), " -2 -2");
  EXPECT_EQ(quota({"quota", "vision", "--slots", "8"}), "vision 8 -2");
  EXPECT_EQ(quota({"quota", "vision", "--slots", "none", "--queued", "0"}), "vision -1 0");
  const Parsed priority = Parse({"quota", "vision", "--priority", "-5"});
  ASSERT_EQ(priority.exit_code, std::nullopt) << priority.text;
  EXPECT_EQ(std::get<RemoteArguments>(priority.arguments).priority, -5);
  EXPECT_THAT(quota({"quota", "vision", "--slots", "-1"}), HasSubstr("--slots"));
  EXPECT_EQ(NamespaceTable({{.name = "vision", .slots = 8, .slots_held = 3, .jobs_running = 1}}),
            "namespace  slots          running  queued         priority\n"
            "vision     3/8            1        0              0\n");
}

TEST(ArgumentsTest, TheCommandsOfHosts) {
  const Parsed drain = Parse({"drain", "b", "--no-wait", "--to", "127.0.0.1:9"});
  ASSERT_EQ(drain.exit_code, std::nullopt) << drain.text;
  const auto& remote = std::get<RemoteArguments>(drain.arguments);
  EXPECT_EQ(remote.command, RemoteArguments::Command::kDrain);
  EXPECT_EQ(remote.host, "b");
  EXPECT_TRUE(remote.no_wait);
  EXPECT_EQ(remote.to, "https://127.0.0.1:9");
  EXPECT_TRUE(std::get<RemoteArguments>(Parse({"drain", "b", "--undo"}).arguments).undo);
  EXPECT_THAT(Parse({"drain"}).text, HasSubstr("muster hosts shows them"));
  EXPECT_EQ(Parse({"drain", "b", "--undo", "--no-wait"}).exit_code, kExitBadConfiguration);
  EXPECT_EQ(Parse({"hosts", "--json"}).exit_code, std::nullopt);
  EXPECT_TRUE(std::get<RemoteArguments>(Parse({"top", "--once"}).arguments).once);
}

TEST(ArgumentsTest, AnEmptyValueIsRefusedByName) {
  const std::pair<std::vector<const char*>, const char*> cases[] = {
      {{"train", "a.yaml", "--dir", ""}, "muster train: --dir: is empty"},
      {{"train", "a.yaml", "--dir="}, "muster train: --dir: is empty"},
      {{"train", "--dir=", "a.yaml"}, "muster train: --dir: is empty"},
      {{"train", "a.yaml", "--faults", ""}, "--faults: is empty"},
      {{"train", "a.yaml", "--set", ""}, "--set: is empty"},
      {{"train", ""}, "spec: is empty"},
      {{"up", "--dir", ""}, "muster up: --dir: is empty"},
      {{"demo", "--spec", ""}, "--spec: is empty"},
      {{"list", "--state", ""}, "--state: is empty"},
      {{"status", "--dir", ""}, "muster status: --dir: is empty"},
      {{"status", "j", "--to", ""}, "--to: is empty"},
      {{"status", ""}, "job: is empty"},
      {{"submit", "a.yaml", "--id", ""}, "--id: is empty"},
      {{"logs", "j", "--member", ""}, "--member: is empty"},
      {{"logs", "j", "--since", "soon"}, "--since: 'soon' is no time; write 90s, 15m, 2h or 3d"},
      {{"logs", "j", "--since", "0m"}, "--since: '0m' is no time; write 90s, 15m, 2h or 3d"},
      {{"delete", "j", "--dir", ""}, "muster delete: --dir: is empty"}};
  for (const auto& [words, says] : cases) {
    const Parsed refused = Parse(words);
    EXPECT_EQ(refused.exit_code, 64) << says;
    EXPECT_THAT(refused.text, HasSubstr(says));
  }
  EXPECT_THAT(std::get<TrainArguments>(Parse({"train", "a.yaml", "--set=a="}).arguments).settings,
              ElementsAre("a="));
}

TEST(ArgumentsTest, WhatIsNoNameIsRefusedByName) {
  const std::pair<std::vector<const char*>, const char*> cases[] = {
      {{"status", "a/b"}, "muster status: job: 'a/b' is no name"},
      {{"scale", "..", "--workers", "2"}, "muster scale: job: '..' is no name"},
      {{"quota", "a/b"}, "muster quota: namespace: 'a/b' is no name"},
      {{"queue", "a%b"}, "muster queue: job: 'a%b' is no name"},
      {{"drain", "a\nb"}, "muster drain: host: 'a\\nb' is no name"},
      {{"token", "host", "a\\b"}, "host: 'a\\b' is no name"},
      {{"token", "revoke", "../x"}, "id: '../x' is no name"}};
  for (const auto& [words, says] : cases) {
    const Parsed refused = Parse(words);
    EXPECT_EQ(refused.exit_code, 64) << says;
    EXPECT_THAT(refused.text, HasSubstr(says));
  }
}

TEST(ArgumentsTest, AFolderStandsForItsCluster) {
  const std::vector<std::vector<const char*>> commands = {{"submit", "a.yaml"},
                                                          {"watch", "j"},
                                                          {"resume", "j"},
                                                          {"cancel", "j"},
                                                          {"hosts"},
                                                          {"drain", "a"},
                                                          {"top"},
                                                          {"queue", "j", "--priority", "1"},
                                                          {"quota"},
                                                          {"token", "list"}};
  for (std::vector<const char*> words : commands) {
    words.insert(words.end(), {"--dir", "cluster"});
    const Parsed parsed = Parse(words);
    ASSERT_EQ(parsed.exit_code, std::nullopt) << words[0] << ": " << parsed.text;
    EXPECT_TRUE(std::get<RemoteArguments>(parsed.arguments).has_dir) << words[0];
    EXPECT_EQ(std::get<RemoteArguments>(parsed.arguments).dir, "cluster") << words[0];
    words.insert(words.end(), {"--to", "127.0.0.1:9"});
    EXPECT_EQ(Parse(words).exit_code, 64) << words[0] << ": one of them";
  }
}

TEST(ArgumentsTest, ATokenLastsForSoLong) {
  const auto parse = [](const char* time) {
    return Parse(
        {"token", "make", "ada", "--role", "viewer", "--namespace", "*", "--expires-in", time});
  };
  const auto seconds = [&](const char* time) {
    return std::get<RemoteArguments>(parse(time).arguments).expires_in;
  };
  EXPECT_EQ(seconds("1s"), 1);
  EXPECT_EQ(seconds("010m"), 600);
  EXPECT_EQ(seconds("12h"), 43200);
  EXPECT_EQ(seconds("3650d"), 315360000);
  for (const char* odd : {"0s", "-1s", "90", "d", "1.5h", "3651d", "9223372036854775807d", "1 d",
                          "1D", "99999999999999999999s", ""})
    EXPECT_EQ(parse(odd).exit_code, 64) << odd;
  const Parsed without =
      Parse({"token", "make", "ada", "--role", "viewer", "--namespace", "default"});
  EXPECT_EQ(std::get<RemoteArguments>(without.arguments).expires_in, std::nullopt);
  EXPECT_EQ(Parse({"certs", "user", "ada", "--identity", "i", "--expires-in", "1d"}).exit_code, 64)
      << "no token is made";
}

TEST(ArgumentsTest, DataIsInspectedOrHashed) {
  const auto inspect =
      std::get<DataArguments>(Parse({"data", "inspect", "a.npy", "--json"}).arguments);
  EXPECT_EQ(inspect.command, DataArguments::Command::kInspect);
  EXPECT_THAT(inspect.what, testing::ElementsAre("a.npy"));
  EXPECT_TRUE(inspect.json);
  const auto hash = std::get<DataArguments>(
      Parse({"data", "hash", "job.yaml", "--set", "data.verify=quick"}).arguments);
  EXPECT_EQ(hash.command, DataArguments::Command::kHash);
  EXPECT_THAT(hash.settings, testing::ElementsAre("data.verify=quick"));
  EXPECT_FALSE(hash.json);
  for (const std::vector<const char*>& words :
       {std::vector<const char*>{"data"}, {"data", "inspect"}, {"data", "guess", "a"}})
    EXPECT_EQ(Parse(words).exit_code, 64);
}

TEST(ArgumentsTest, AFolderStandsForItsJob) {
  for (const char* command : {"status", "stop", "digest", "audit", "ledger", "history", "logs"}) {
    const Parsed parsed = Parse({command, "--dir", "runs/one"});
    ASSERT_EQ(parsed.exit_code, std::nullopt) << command << ": " << parsed.text;
    const auto& remote = std::get<RemoteArguments>(parsed.arguments);
    EXPECT_TRUE(remote.has_dir);
    EXPECT_EQ(remote.dir, "runs/one");
    EXPECT_EQ(remote.job, "");
    const Parsed neither = Parse({command});
    EXPECT_EQ(neither.exit_code, 64);
    EXPECT_THAT(neither.text, HasSubstr("job is required"));
  }
  EXPECT_EQ(Parse({"audit", "--dir", "a", "--to", "127.0.0.1:9"}).exit_code, 64) << "one of them";
  EXPECT_EQ(Parse({"delete", "--dir", "a"}).exit_code, 64) << "nothing is deleted unnamed";
  const Parsed ledger = Parse({"ledger", "a", "--step", "3", "--sample", "17"});
  EXPECT_EQ(std::get<RemoteArguments>(ledger.arguments).step, 3);
  EXPECT_EQ(std::get<RemoteArguments>(ledger.arguments).sample, 17);
  for (const char* number :
       {"-3", "9223372036854775808", "99999999999999999999999", "0x1f", "1.5", "a"})
    for (const char* option : {"--step", "--sample"}) {
      const Parsed refused = Parse({"ledger", "a", option, number});
      EXPECT_EQ(refused.exit_code, 64) << option << " " << number;
      EXPECT_THAT(refused.text, HasSubstr("a whole number from 0 to 9223372036854775807"));
    }
  const Parsed decimal = Parse({"ledger", "a", "--step", "010", "--sample", "9223372036854775807"});
  EXPECT_EQ(std::get<RemoteArguments>(decimal.arguments).step, 10);
  EXPECT_EQ(std::get<RemoteArguments>(decimal.arguments).sample, INT64_MAX);
  EXPECT_TRUE(std::get<RemoteArguments>(Parse({"watch", "a", "--details"}).arguments).details);
  EXPECT_FALSE(std::get<RemoteArguments>(Parse({"watch", "a"}).arguments).details);
  EXPECT_TRUE(std::get<RemoteArguments>(Parse({"history", "a", "--csv"}).arguments).csv);
  EXPECT_EQ(Parse({"history", "a", "--csv", "--json"}).exit_code, 64);
}

TEST(ArgumentsTest, ACheckpointIsNamedByItsStepOrItsName) {
  using Verb = CheckpointsArguments::Verb;
  const std::pair<const char*, Verb> verbs[] = {{"list", Verb::kList},
                                                {"show", Verb::kShow},
                                                {"verify", Verb::kVerify},
                                                {"delete", Verb::kDelete},
                                                {"keep", Verb::kKeep}};
  for (const auto& [name, verb] : verbs) {
    const Parsed parsed =
        Parse({"checkpoints", name, "job@best", "--dir", "runs/one", "--step", "40", "--json"});
    ASSERT_EQ(parsed.exit_code, std::nullopt) << parsed.text;
    const auto& given = std::get<CheckpointsArguments>(parsed.arguments);
    EXPECT_EQ(given.verb, verb) << name;
    EXPECT_EQ(given.job, "job@best");
    EXPECT_EQ(given.dir, "runs/one");
    EXPECT_EQ(given.step, "40");
    EXPECT_TRUE(given.json);
  }
  EXPECT_EQ(Parse({"checkpoints"}).exit_code, 64);
  const auto of_cluster = std::get<CheckpointsArguments>(
      Parse({"checkpoints", "list", "job", "--to", "127.0.0.1:9"}).arguments);
  EXPECT_TRUE(of_cluster.remote.has_to);
  EXPECT_THAT(of_cluster.remote.to, testing::HasSubstr("127.0.0.1:9"));
  EXPECT_FALSE(
      std::get<CheckpointsArguments>(Parse({"checkpoints", "list"}).arguments).remote.has_to);
  EXPECT_EQ(Parse({"checkpoints", "list", "job", "--to", "127.0.0.1:9", "--dir", "d"}).exit_code,
            64);
  EXPECT_EQ(Parse({"checkpoints", "show", "job", "--to", "nowhere"}).exit_code, 64);
  EXPECT_EQ(Parse({"checkpoints", "list", "--force"}).exit_code, 64);
  EXPECT_TRUE(std::get<CheckpointsArguments>(
                  Parse({"checkpoints", "delete", "--step", "1", "--force"}).arguments)
                  .force);
  const auto keep = std::get<CheckpointsArguments>(
      Parse({"checkpoints", "keep", "--step", "best", "--release"}).arguments);
  EXPECT_EQ(keep.step, "best");
  EXPECT_TRUE(keep.release);
  for (const char* which : {"Best", "a b", "-3", "1.5", "9223372036854775808"})
    EXPECT_EQ(Parse({"export", "-o", "f", "--step", which}).exit_code, 64) << which;
}

TEST(ArgumentsTest, ATrainedModelMayComeFromACluster) {
  const auto of = [](const Parsed& parsed) -> AnyCheckpointArguments {
    if (const auto* evaluate = std::get_if<EvaluateArguments>(&parsed.arguments)) return *evaluate;
    if (const auto* generate = std::get_if<GenerateArguments>(&parsed.arguments)) return *generate;
    return std::get<ExportArguments>(parsed.arguments);
  };
  using Words = std::vector<const char*>;
  for (const Words& command :
       {Words{"evaluate"}, Words{"generate"}, Words{"export", "-o", "f", "--format", "libtorch"}}) {
    SCOPED_TRACE(command[0]);
    const auto with = [&](const Words& more) {
      Words words = {"muster"};
      words.insert(words.end(), command.begin(), command.end());
      words.insert(words.end(), more.begin(), more.end());
      return ParseArguments(static_cast<int>(words.size()), words.data());
    };
    const Parsed remote = with({"job@best", "--to", "127.0.0.1:9/", "--authority", "a.pem"});
    ASSERT_EQ(remote.exit_code, std::nullopt) << remote.text;
    EXPECT_TRUE(of(remote).remote.has_to);
    EXPECT_EQ(of(remote).remote.to, "https://127.0.0.1:9");
    EXPECT_EQ(of(remote).remote.authority, "a.pem");
    EXPECT_EQ(of(remote).job, "job@best");
    const Parsed local = with({"job"});
    ASSERT_EQ(local.exit_code, std::nullopt) << local.text;
    EXPECT_FALSE(of(local).remote.has_to);
    EXPECT_FALSE(of(local).average);
    EXPECT_TRUE(of(with({"job", "--average"})).average);
    for (const Words& odd : {Words{"--to", "127.0.0.1:9", "--dir", "d"},
                             Words{"--to", "127.0.0.1:9", "--checkpoints", "d"},
                             Words{"--authority", "a.pem"}, Words{"--to", "nonsense"}})
      EXPECT_EQ(with(odd).exit_code, 64) << odd[0] << " " << odd[1];
  }
}

TEST(ArgumentsTest, TheOptimizersStateIsOfTheParametersAndNotOfTheirAverage) {
  const Parsed both = Parse({"export", "-o", "f", "--optimizer", "--average"});
  EXPECT_EQ(both.exit_code, 64);
  EXPECT_THAT(both.text, HasSubstr("--average"));
}

TEST(ArgumentsTest, APlotIsOfSeveralJobsOrFolders) {
  const auto plot =
      std::get<RemoteArguments>(Parse({"plot", "a", "b", "-o", "x.svg", "--smooth"}).arguments);
  EXPECT_EQ(plot.command, RemoteArguments::Command::kPlot);
  EXPECT_THAT(plot.jobs, ElementsAre("a", "b"));
  EXPECT_EQ(plot.output, "x.svg");
  EXPECT_THAT(plot.series, ElementsAre("loss"));
  EXPECT_EQ(plot.smooth, 0.9);
  EXPECT_FALSE(plot.has_dir);
  const auto of_folders = std::get<RemoteArguments>(
      Parse({"plot", "--dir", "one", "--dir", "two", "-o", "x.html", "--series", "gradient_norm",
             "--series", "loss", "--smooth=0.5", "--log"})
          .arguments);
  EXPECT_THAT(of_folders.dirs, ElementsAre("one", "two"));
  EXPECT_EQ(of_folders.dir, "one");
  EXPECT_TRUE(of_folders.has_dir);
  EXPECT_THAT(of_folders.series, ElementsAre("gradient_norm", "loss"));
  EXPECT_THAT(std::get<RemoteArguments>(
                  Parse({"plot", "a", "-o", "x.svg", "--series", "loss,validation.loss"}).arguments)
                  .series,
              ElementsAre("loss", "validation.loss"));
  EXPECT_EQ(of_folders.smooth, 0.5);
  EXPECT_TRUE(of_folders.is_log);
  const auto board =
      std::get<RemoteArguments>(Parse({"tensorboard", "a", "-o", "board"}).arguments);
  EXPECT_EQ(board.command, RemoteArguments::Command::kTensorBoard);
  EXPECT_EQ(board.output, "board");
  EXPECT_THAT(board.jobs, ElementsAre("a"));
  for (const char* odd : {"--smooth=1", "--smooth=-0.1", "--smooth=x", "--smooth=nan"})
    EXPECT_EQ(Parse({"plot", "a", "-o", "x.svg", odd}).exit_code, 64) << odd;
  EXPECT_EQ(Parse({"plot", "a"}).exit_code, 64) << "no file";
  EXPECT_EQ(Parse({"plot", "-o", "x.svg"}).exit_code, 64) << "no job";
  EXPECT_EQ(Parse({"plot", "a/b", "-o", "x.svg"}).exit_code, 64);
  EXPECT_EQ(Parse({"plot", "a", "-o", "x.svg", "--dir", "d", "--to", "127.0.0.1:9"}).exit_code, 64);
}

TEST(ArgumentsTest, AListHasColumnsInAnOrder) {
  const auto list = std::get<RemoteArguments>(
      Parse({"list", "--columns", "job,loss,spec.batch", "--sort", "loss", "--reverse"}).arguments);
  EXPECT_THAT(list.columns, ElementsAre("job", "loss", "spec.batch"));
  const auto odd = std::get<RemoteArguments>(Parse({"list", "--columns", "job,,step,"}).arguments);
  EXPECT_THAT(odd.columns, ElementsAre("job", "", "step", "")) << "whoever lists says so";
  EXPECT_EQ(list.sort, "loss");
  EXPECT_TRUE(list.is_reverse);
  EXPECT_EQ(Parse({"list", "--reverse"}).exit_code, 64);
  EXPECT_EQ(Parse({"list", "--columns", "job", "--json"}).exit_code, 64);
}

TEST(ArgumentsTest, TheHelpSaysWhereTheJobMayBeLeftOut) {
  const auto help_of = [](const char* command) { return Parse({command, "--help"}).text; };
  for (const char* command : {"watch", "resume", "cancel", "delete"}) {
    EXPECT_THAT(help_of(command),
                AllOf(HasSubstr("JOB REQUIRED"), Not(HasSubstr("left out where"))));
    const Parsed without = Parse({command});
    EXPECT_EQ(without.exit_code, 64);
    EXPECT_THAT(without.text,
                HasSubstr("job is required: the id of a job (muster list shows them)"));
  }
  for (const char* command : {"status", "stop", "digest", "audit", "ledger", "history", "logs"})
    EXPECT_THAT(help_of(command),
                HasSubstr("with --dir it may be left out where the folder holds"));
  EXPECT_THAT(help_of("list"), Not(HasSubstr("left out where")));
}

// Each that a person may see.
TEST(ArgumentsTest, TheHelpNamesTheExitCodes) {
  const std::string help = Parse({"--help"}).text;
  const std::string codes = help.substr(std::min(help.size(), help.find("Exit codes:")));
  for (const int code :
       {kExitDone, kExitBadConfiguration, kExitBadData, kExitNotFinite, kExitStopped, kExitReplaced,
        kExitLater, kExitOtherEnvironment, kExitFailed})
    EXPECT_THAT(codes, ContainsRegex(absl::StrCat("[ \n]", code, "[ \n][a-z]")));
}

TEST(ArgumentsTest, TheHelpOfLogsTeaches) {
  const std::string help = Parse({"logs", "--help"}).text;
  for (const char* word : {"jobs/JOB/logs/NAME.log", "logs/coordinator.log", "JOB may be left out",
                           "muster logs --dir runs/one", "server-1"})
    EXPECT_THAT(help, HasSubstr(word));
}

TEST(ArgumentsTest, TheHelpNamesWhatIsMeasured) {
  const std::pair<const char*, const char*> rows[] = {{"plot", "validation.METRIC"},
                                                      {"plot", "--series loss,validation.loss"},
                                                      {"history", "validation.loss"},
                                                      {"list", "validation.METRIC"}};
  for (const auto& [command, word] : rows)
    EXPECT_THAT(Parse({command, "--help"}).text, HasSubstr(word)) << command;
}

TEST(ArgumentsTest, TheLeaseIsInSeconds) {
  EXPECT_EQ(std::get<TrainArguments>(Parse({"train", "a.yaml", "--lease", "2.5"}).arguments).lease,
            2.5);
  EXPECT_EQ(std::get<UpArguments>(Parse({"up", "--lease", "600"}).arguments).lease, 600);
  EXPECT_EQ(std::get<AgentArguments>(
                Parse({"agent", "--coordinator", "127.0.0.1:7070", "--lease", "600"}).arguments)
                .lease,
            600);
  EXPECT_EQ(std::get<UpArguments>(Parse({"up"}).arguments).lease, 0);
  for (const char* lease : {"0", "0.1", "0.49", "601", "-1", "soon", "0x1p0", "1e1"}) {
    const Parsed parsed = Parse({"up", "--lease", lease});
    EXPECT_EQ(parsed.exit_code, 64) << lease;
    EXPECT_THAT(parsed.text, HasSubstr("--lease")) << lease;
  }
}

TEST(ArgumentsTest, ThePatienceWithThreadsIsInSeconds) {
  const Parsed train = Parse({"train", "a.yaml", "--thread-patience", "600"});
  EXPECT_EQ(std::get<TrainArguments>(train.arguments).thread_patience, 600);
  const Parsed up = Parse({"up", "--thread-patience", "1"});
  EXPECT_EQ(std::get<UpArguments>(up.arguments).thread_patience, 1);
  for (const char* patience : {"0", "86401", "-1", "long"})
    EXPECT_EQ(Parse({"up", "--thread-patience", patience}).exit_code, 64) << patience;
}

TEST(ArgumentsTest, DevicesAreSaidOfAHost) {
  EXPECT_EQ(std::get<UpArguments>(Parse({"up"}).arguments).devices, "auto");
  EXPECT_EQ(std::get<UpArguments>(Parse({"up", "--devices", "0,1"}).arguments).devices, "0,1");
  const Parsed agent = Parse({"agent", "--coordinator", "h:1", "--devices", "none"});
  EXPECT_EQ(std::get<AgentArguments>(agent.arguments).devices, "none");
}

TEST(ArgumentsTest, AMachineMayBeNamed) {
  EXPECT_EQ(std::get<UpArguments>(Parse({"up"}).arguments).node, "");
  EXPECT_EQ(std::get<UpArguments>(Parse({"up", "--node", "m"}).arguments).node, "m");
  const Parsed agent = Parse({"agent", "--coordinator", "h:1", "--node", "m"});
  EXPECT_EQ(std::get<AgentArguments>(agent.arguments).node, "m");
  const Parsed run = Parse({"run", "a.yaml", "--node", "m", "--nodes", "2", "--node-rank", "1"});
  EXPECT_EQ(std::get<RunArguments>(run.arguments).node, "m");
  EXPECT_EQ(std::get<RunArguments>(run.arguments).launch.hosts, "2");
}

TEST(ArgumentsTest, AnAgentMayHaveACertificate) {
  const auto identity = [](const std::vector<const char*>& more) {
    std::vector<const char*> words = {"agent", "--coordinator", "127.0.0.1:7070"};
    words.insert(words.end(), more.begin(), more.end());
    return std::get<AgentArguments>(Parse(words).arguments).identity;
  };
  EXPECT_EQ(identity({}), "");
  EXPECT_EQ(identity({"--identity", "/etc/muster/a"}), "/etc/muster/a");
}

TEST(ArgumentsTest, WrongWordsAreBadConfiguration) {
  const std::vector<std::vector<const char*>> cases = {{},
                                                       {"trian", "a.yaml"},
                                                       {"train"},
                                                       {"train", "a.yaml", "--workers", "0"},
                                                       {"train", "a.yaml", "--workers", "many"},
                                                       {"train", "a.yaml", "b.yaml"},
                                                       {"status"},
                                                       {"logs"},
                                                       {"delete"},
                                                       {"up", "--slots", "0"},
                                                       {"up", "--nonsense"}};
  for (const auto& words : cases) {
    const Parsed parsed = Parse(words);
    EXPECT_EQ(parsed.exit_code, 64) << ::testing::PrintToString(words);
    EXPECT_FALSE(parsed.text.empty());
  }
}

TEST(ArgumentsTest, AnErrorNamesTheWordThatIsWrong) {
  struct Row {
    std::vector<const char*> words;
    const char* said;
  };
  const std::string long_path(5000, 'x');
  const Row rows[] = {
      {{"list", "--to", "http://user:pw@127.0.0.1:8080/x"}, "--to: a user or a password in"},
      {{}, "muster: say what to do"},
      {{"train", "--worker", "3"}, "--worker: there is no such option; did you mean '--workers'?"},
      {{"list", "--bogus"}, "--bogus: there is no such option\n"},
      {{"checkpoints", "list", "--stepp", "3"},
       "muster checkpoints list: --stepp: there is no such option; did you mean '--step'?"},
      {{"checkpoints"}, "muster checkpoints: say what to do: list, show, verify, delete, keep\n"},
      {{"ledger", "j", "--step", "-1"}, "--step: '-1' is not a whole number"},
      {{"ledger", "j", "--sample", "x"}, "--sample: 'x' is not a whole number"},
      {{"up", "--dir", long_path.c_str()}, "--dir: has 5000 characters"},
      {{"up", "--lease", "0"}, "--lease: '0' is not 0.5 to 600 seconds"},
      {{"train", "a.yaml", "--workers", "0"}, "--workers: Value 0 not in range 1 to 4096"},
      {{"list", "--to", "nonsense"}, "muster list: --to: 'nonsense' is not an address"},
      {{"list", "--to", "https://127.0.0.1"}, "--to: address \"127.0.0.1\" has no port"},
      {{"list", "--to", "ftp://127.0.0.1:9"}, "--to: 'ftp://127.0.0.1:9' is not an address"},
      {{"list", "--to", "127.0.0.1:99999"}, "--to: address \"127.0.0.1:99999\" has a wrong port"},
  };
  for (const Row& row : rows) {
    const Parsed parsed = Parse(row.words);
    EXPECT_EQ(parsed.exit_code, 64) << row.said;
    EXPECT_THAT(parsed.text, HasSubstr(row.said));
    EXPECT_THAT(parsed.text, HasSubstr(" --help explains what is allowed")) << row.said;
  }
}

TEST(ArgumentsTest, AWordThatIsNoCommandIsNamedWithThoseThereAre) {
  const auto said = [](const std::vector<const char*>& words) { return Parse(words).text; };
  EXPECT_THAT(said({"trian", "a.yaml"}),
              HasSubstr("muster: 'trian' is not a command; did you mean 'train'? Commands: train"));
  EXPECT_THAT(said({"data", "inspct", "a.yaml"}),
              HasSubstr("muster data: 'inspct' is not a command; did you mean 'inspect'?"));
  EXPECT_THAT(said({"checkpoints", "count-1", "list"}),
              HasSubstr("muster checkpoints: 'count-1' is not a command; write: muster checkpoints "
                        "list count-1. Commands: list, show, verify, delete, keep. muster "
                        "checkpoints --help explains them.\n"));
}

TEST(ArgumentsTest, EachCommandHasAnExample) {
  for (const std::string command :
       {"train",  "demo",  "up",     "submit",  "fork",   "adopt",      "list",
        "status", "watch", "stop",   "resume",  "cancel", "delete",     "logs",
        "digest", "audit", "ledger", "history", "plot",   "tensorboard"}) {
    const Parsed parsed = Parse({command.c_str(), "--help"});
    EXPECT_EQ(parsed.exit_code, 0);
    EXPECT_THAT(parsed.text, HasSubstr("\n  muster " + command)) << command;
  }
}

TEST(ArgumentsTest, AnAdoptionNeedsAFolderAndMayNameAnId) {
  const auto adopt = std::get<RemoteArguments>(Parse({"adopt", "old/a", "--as", "b"}).arguments);
  EXPECT_EQ(adopt.command, RemoteArguments::Command::kAdopt);
  EXPECT_EQ(adopt.checkpoints, "old/a");
  EXPECT_EQ(adopt.job, "b");
  EXPECT_EQ(Parse({"adopt", "old/a"}).exit_code, std::nullopt) << "the job keeps its id";
  EXPECT_EQ(Parse({"adopt"}).exit_code, 64);
}

// They were told to work in a folder in which nothing runs.
TEST(ArgumentsTest, TheHelpSaysWhereAClusterHasToRun) {
  for (const char* command : {"fork", "adopt"}) {
    const std::string help = Parse({command, "--help"}).text;
    EXPECT_THAT(help, HasSubstr("the folder of a cluster that runs on this machine")) << command;
    EXPECT_THAT(help, Not(HasSubstr("also when nothing runs"))) << command;
  }
}

TEST(ArgumentsTest, TheHelpSaysWhichCheckpointIsDeleted) {
  const std::string remove = Parse({"checkpoints", "delete", "--help"}).text;
  EXPECT_THAT(remove, HasSubstr("or best; it is to be said, here or as JOB@STEP"));
  EXPECT_THAT(remove, Not(HasSubstr("default: the newest")));
  EXPECT_THAT(remove, Not(HasSubstr("gives the checkpoint out")));
  EXPECT_THAT(Parse({"checkpoints", "verify", "--help"}).text, HasSubstr("(default: all of them)"));
  EXPECT_THAT(Parse({"checkpoints", "show", "--help"}).text, HasSubstr("(default: the newest)"));
}

TEST(ArgumentsTest, AForkNamesAJobAndMayNameAStep) {
  const auto fork = std::get<RemoteArguments>(
      Parse({"fork", "a@40", "--id", "b", "--set", "batch=7", "--set", "lanes=3"}).arguments);
  EXPECT_EQ(fork.command, RemoteArguments::Command::kFork);
  EXPECT_EQ(fork.parent, "a@40");
  EXPECT_EQ(fork.job, "b");
  EXPECT_THAT(fork.settings, ElementsAre("batch=7", "lanes=3"));
  EXPECT_EQ(Parse({"fork"}).exit_code, 64);
  EXPECT_EQ(*ParseForkPlace("a"), (ForkPlace{"a", {}}));
  EXPECT_EQ(*ParseForkPlace("a@40"), (ForkPlace{"a", 40}));
  EXPECT_EQ(*ParseForkPlace("a@latest"), (ForkPlace{"a", {}}));
  EXPECT_EQ(*ParseForkPlace("a@best"), (ForkPlace{"a", {}, "best"}));
  EXPECT_EQ(*ParseForkPlace("a@before-cut"), (ForkPlace{"a", {}, "before-cut"}));
  for (const char* bad : {"", "@40", "a@", "a@-1", "a@4X", "-a", "a@99999999999999999999"})
    EXPECT_FALSE(ParseForkPlace(bad).ok()) << bad;
}

TEST(ArgumentsTest, HelpTeaches) {
  const Parsed parsed = Parse({"--help"});
  EXPECT_EQ(parsed.exit_code, 0);
  EXPECT_THAT(parsed.text, HasSubstr("muster train examples/code-lm.yaml"));
  EXPECT_THAT(parsed.text, HasSubstr("67 a person stopped or cancelled the job"));
  EXPECT_THAT(Parse({"train", "--help"}).text,
              HasSubstr("{at_step: 60, kill: coordinator, for_steps: 20}"));
}

}  // namespace
}  // namespace muster::cli
