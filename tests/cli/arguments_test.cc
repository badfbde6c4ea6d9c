#include "cli/arguments.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST(ArgumentsTest, AnAddressIsAUrlWithoutItsBeginning) {
  const auto to = [](const char* text) {
    return std::get<RemoteArguments>(Parse({"list", "--to", text}).arguments).to;
  };
  EXPECT_EQ(to("127.0.0.1:9"), "http://127.0.0.1:9");
  EXPECT_EQ(to("[::1]:9"), "http://[::1]:9");
  EXPECT_EQ(to("http://127.0.0.1:9/"), "http://127.0.0.1:9");
  EXPECT_EQ(to("nonsense"), "nonsense") << "the error quotes what was said";
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
  const Parsed parsed = Parse({"up", "--listen", "10.1.2.3:0", "--allow-plaintext", "10.1.0.0/16"});
  ASSERT_EQ(parsed.exit_code, std::nullopt) << parsed.text;
  const auto& up = std::get<UpArguments>(parsed.arguments);
  EXPECT_EQ(up.listen, "10.1.2.3:0");
  EXPECT_THAT(up.allow_plaintext, ElementsAre("10.1.0.0/16"));
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
  EXPECT_TRUE(remote({"stop", "j", "--json"}).json);
  const Parsed up = Parse({"up", "--slots", "3"});
  EXPECT_EQ(std::get<UpArguments>(up.arguments).slots, 3);
  EXPECT_GE(std::get<UpArguments>(Parse({"up"}).arguments).slots, 1);
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
  EXPECT_EQ(Parse({"ledger", "a", "--step", "-3"}).exit_code, 64);
  EXPECT_TRUE(std::get<RemoteArguments>(Parse({"history", "a", "--csv"}).arguments).csv);
  EXPECT_EQ(Parse({"history", "a", "--csv", "--json"}).exit_code, 64);
}

TEST(ArgumentsTest, TheLeaseIsInSeconds) {
  EXPECT_EQ(std::get<TrainArguments>(Parse({"train", "a.yaml", "--lease", "2.5"}).arguments).lease,
            2.5);
  EXPECT_EQ(std::get<UpArguments>(Parse({"up", "--lease", "600"}).arguments).lease, 600);
  EXPECT_EQ(std::get<UpArguments>(Parse({"up"}).arguments).lease, 0);
  for (const char* lease : {"0", "0.1", "0.49", "601", "-1", "soon"}) {
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
