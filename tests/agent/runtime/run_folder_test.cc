#include "agent/runtime/run_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/agent/runtime/stand_in.h"
#include "tests/agent/runtime/taken_port.h"

namespace muster::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(RunFolderTest, MakesWhatBelongsInIt) {
  const std::string path = MakeTestFolder() + "/a/b";
  const auto folder = RunFolder::Open(path);
  ASSERT_TRUE(folder.ok()) << folder.status();
  for (const std::string& inner :
       {folder->logs(), folder->jobs(), folder->store(), folder->checkpoints()})
    EXPECT_TRUE(std::filesystem::is_directory(inner)) << inner;
  EXPECT_TRUE(std::filesystem::exists(path + "/muster-folder")) << "walks of data leave it out";
}

TEST(RunFolderTest, AFolderWithFilesOfSomebodyElseIsLeftAlone) {
  const std::string path = MakeTestFolder() + "/mine";
  std::filesystem::create_directory(path);
  { EXPECT_TRUE(RunFolder::Open(path).ok()) << "an empty one is taken"; }
  std::ofstream(path + "/prometheus.yml") << "x";
  { EXPECT_TRUE(RunFolder::Open(path).ok()) << "ours stays ours"; }
  std::filesystem::remove(path + "/muster-folder");
  const auto refused = RunFolder::Open(path);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("holds other files (checkpoints)"));
  EXPECT_FALSE(std::filesystem::exists(path + "/muster-folder")) << "nothing is written there";
}

TEST(RunFolderTest, OneAgentAtATime) {
  const std::string path = MakeTestFolder();
  {
    const auto first = RunFolder::Open(path);
    ASSERT_TRUE(first.ok()) << first.status();
    const auto second = RunFolder::Open(path);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(second.status().message()),
                HasSubstr(absl::StrCat("process ", getpid())));
  }
  EXPECT_TRUE(RunFolder::Open(path).ok()) << "the lock ends with its holder";
}

TEST(RunFolderTest, APipeInThePlaceOfAFileIsNamed) {
  for (const char* name : {"lock", "cluster.json", "logs/coordinator.log"}) {
    const std::string path = MakeTestFolder();
    ASSERT_TRUE(RunFolder::Open(path).ok());
    const std::string file = absl::StrCat(path, "/", name);
    std::filesystem::remove(file);
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
    auto folder = RunFolder::Open(path);
    const absl::Status refused = folder.ok() ? folder->PickAddresses().status() : folder.status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("/", name, "' is a pipe")));
    EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("this user may write")));
  }
}

// The number of the job takes its place.
TEST(RunFolderTest, APipeInThePlaceOfAJobsNumberIsReplaced) {
  const auto folder = RunFolder::Open(MakeTestFolder());
  ASSERT_TRUE(folder.ok()) << folder.status();
  std::filesystem::create_directories(folder->job("a"));
  ASSERT_EQ(mkfifo((folder->job("a") + "/first_start").c_str(), 0600), 0);
  EXPECT_FALSE(folder->HoldsAnotherJob("a", StartNumber(1)));
  ASSERT_TRUE(folder->MakeJob("a", StartNumber(1)).ok());
  EXPECT_EQ(Text(folder->job("a") + "/first_start"), "1\n");
}

TEST(RunFolderTest, ALinkThatLeadsToItselfIsSaidToBeOne) {
  const std::string path = MakeTestFolder() + "/loop";
  std::filesystem::create_symlink("loop", path);
  const std::string said(RunFolder::Open(path).status().message());
  EXPECT_THAT(said, HasSubstr("Too many levels of symbolic links"));
  EXPECT_THAT(said, Not(HasSubstr("this user may write")));
}

TEST(RunFolderTest, AFolderThatCannotBeMadeIsNamed) {
  const std::string file = MakeTestFolder() + "/file";
  std::ofstream(file) << "x";
  const auto folder = RunFolder::Open(file + "/run");
  ASSERT_FALSE(folder.ok());
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("/file': Not a directory"));
}

TEST(RunFolderTest, AddressesSurviveARestart) {
  const std::string path = MakeTestFolder();
  ClusterAddresses first;
  {
    auto folder = RunFolder::Open(path).value();
    first = folder.PickAddresses().value();
  }
  EXPECT_THAT(first.grpc, StartsWith("127.0.0.1:"));
  EXPECT_NE(first.grpc, first.http);
  auto again = RunFolder::Open(path).value();
  EXPECT_EQ(again.PickAddresses().value(), first);
  EXPECT_EQ(again.PickAddresses("127.0.0.1:8080")->http, "127.0.0.1:8080");
}

TEST(RunFolderTest, TheCoordinatorMayHaveAnAddressThatOthersKnow) {
  auto folder = RunFolder::Open(MakeTestFolder()).value();
  EXPECT_EQ(folder.PickAddresses("", "127.0.0.2:7070")->grpc, "127.0.0.2:7070");
  EXPECT_EQ(folder.PickAddresses("127.0.0.1:8080", "127.0.0.2:7071")->grpc, "127.0.0.2:7071");
  EXPECT_THAT(folder.PickAddresses("", "127.0.0.2:0")->grpc, StartsWith("127.0.0.2:"));
  const absl::Status one_port = folder.PickAddresses("127.0.0.1:8080", "127.0.0.1:8080").status();
  EXPECT_EQ(one_port.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(one_port.message()), testing::HasSubstr("8080"));
}

// Hosts share the folder of their cluster, whichever of them comes first.
TEST(RunFolderTest, AHostHasItsOwnPlaceInTheFolderOfACluster) {
  const std::string path = MakeTestFolder() + "/cluster";
  const auto b = RunFolder::OpenHost(path, "b");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_THAT(b->path(), testing::EndsWith("/cluster/hosts/b"));
  const auto cluster = RunFolder::Open(path);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_TRUE(RunFolder::OpenHost(path, "c").ok());
  EXPECT_EQ(RunFolder::OpenHost(path, "b").status().code(), absl::StatusCode::kAlreadyExists)
      << "an agent of that name runs";
}

// What ran for the agent before ended with it: the folder is locked.
TEST(RunFolderTest, TermsAreThereForTheNextAgent) {
  const std::string path = MakeTestFolder();
  const KnownTerms terms = {{"c1", TermNumber(3)}, {"c2", TermNumber(1)}};
  {
    const RunFolder folder = RunFolder::OpenHost(path, "b").value();
    EXPECT_EQ(folder.ReadTerms().value(), KnownTerms());
    EXPECT_TRUE(folder.WriteTerms({{"c1", TermNumber(2)}}).ok());
    EXPECT_TRUE(folder.WriteTerms(terms).ok());
  }
  const RunFolder folder = RunFolder::OpenHost(path, "b").value();
  EXPECT_EQ(folder.ReadTerms().value(), terms);
  EXPECT_EQ(RunFolder::OpenHost(path, "c").value().ReadTerms().value(), KnownTerms());
  // It is not taken for an empty one: an agent would obey whoever comes.
  std::ofstream(folder.terms()) << "c1";
  const absl::Status damaged = folder.ReadTerms().status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("/hosts/b/terms"));
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("remove it"));
}

TEST(RunFolderTest, AnAgentFollowsTheOneThatHadTheFolderBefore) {
  const std::string path = MakeTestFolder();
  const Incarnation first{1, 7}, second{2, 7};
  const auto folder = RunFolder::Open(path).value();
  EXPECT_EQ(folder.Follow(first).value(), Incarnation{});
  EXPECT_EQ(folder.Follow(second).value(), first);
  std::ofstream(path + "/agent") << "nonsense";
  EXPECT_EQ(folder.Follow(second).value(), Incarnation{}) << "a file that is damaged names nobody";
}

TEST(RunFolderTest, AnyPortOfAnotherHost) {
  const std::string path = MakeTestFolder();
  auto folder = RunFolder::Open(path).value();
  const std::string loopback = folder.PickAddresses("127.0.0.1:0")->http;
  const std::string other = folder.PickAddresses("127.0.0.2:0")->http;
  EXPECT_THAT(other, StartsWith("127.0.0.2:"));
  EXPECT_NE(other, "127.0.0.2:0");
  EXPECT_EQ(folder.PickAddresses("127.0.0.2:0")->http, other);
  EXPECT_EQ(folder.PickAddresses("nonsense").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(folder.PickAddresses("192.0.2.1:0").status().code(), absl::StatusCode::kUnavailable);
}

TEST(RunFolderTest, ATakenPortIsReplaced) {
  const std::string path = MakeTestFolder();
  auto folder = RunFolder::Open(path).value();
  const ClusterAddresses first = folder.PickAddresses().value();
  EXPECT_FALSE(RunFolder::IsTaken(first.grpc));
  const TakenPort taken(first.grpc);
  EXPECT_TRUE(RunFolder::IsTaken(first.grpc));
  const ClusterAddresses second = folder.PickAddresses().value();
  EXPECT_NE(second.grpc, first.grpc);
  EXPECT_EQ(second.http, first.http);
}

TEST(RunFolderTest, OnePortIsNotGivenToBoth) {
  const std::string path = MakeTestFolder();
  auto folder = RunFolder::Open(path).value();
  const ClusterAddresses first = folder.PickAddresses().value();
  std::ofstream(path + "/cluster.json")
      << nlohmann::json{{"grpc", first.grpc}, {"http", first.grpc}};
  const ClusterAddresses second = folder.PickAddresses().value();
  EXPECT_EQ(second.grpc, first.grpc);
  EXPECT_NE(second.http, first.grpc);
  const ClusterAddresses named = folder.PickAddresses(first.grpc).value();
  EXPECT_EQ(named.http, first.grpc) << "a person wishes it";
  EXPECT_NE(named.grpc, first.grpc);
}

// Their coordinators are started later: until then nobody listens there.
TEST(RunFolderTest, CopiesOfAFolderThatStartAtOnceHaveAddressesOfTheirOwn) {
  const std::string path = MakeTestFolder();
  const std::string copy = MakeTestFolder() + "/copy";
  const ClusterAddresses before = RunFolder::Open(path)->PickAddresses().value();
  std::filesystem::copy(path, copy, std::filesystem::copy_options::recursive);
  auto first = RunFolder::Open(path).value();
  auto second = RunFolder::Open(copy).value();
  EXPECT_EQ(first.PickAddresses().value(), before);
  const ClusterAddresses other = second.PickAddresses().value();
  EXPECT_NE(other.grpc, before.grpc);
  EXPECT_NE(other.http, before.http);
  EXPECT_EQ(first.PickAddresses().value(), before) << "they are its own";
  EXPECT_EQ(second.PickAddresses().value(), other);
}

TEST(RunFolderTest, ADamagedAddressFileIsReplaced) {
  const std::string path = MakeTestFolder();
  auto folder = RunFolder::Open(path).value();
  std::ofstream(path + "/cluster.json") << "{\"grpc\": 7";
  EXPECT_TRUE(folder.PickAddresses().ok());
  EXPECT_TRUE(nlohmann::json::accept(Text(path + "/cluster.json")));
}

TEST(RunFolderTest, TargetsForPrometheus) {
  const std::string path = MakeTestFolder();
  const auto folder = RunFolder::Open(path).value();
  ASSERT_TRUE(
      folder.WriteTargets({{kCoordinatorKey, "127.0.0.1:1"}, {{"j", "worker-0"}, "127.0.0.1:2"}})
          .ok());
  const auto list = nlohmann::json::parse(Text(folder.targets()));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(
      list[0],
      nlohmann::json::parse(
          R"({"targets":["127.0.0.1:1"],"labels":{"role":"coordinator","member":"coordinator"}})"));
  EXPECT_EQ(
      list[1],
      nlohmann::json::parse(
          R"({"targets":["127.0.0.1:2"],"labels":{"role":"worker","member":"worker-0","job":"j"}})"));
}

TEST(RunFolderTest, ADeletionThatWasCutShortIsFinished) {
  const std::string path = MakeTestFolder();
  ASSERT_TRUE(RunFolder::Open(path).ok());
  std::filesystem::create_directories(path + "/jobs/.deleted-a-1/logs");
  std::filesystem::create_directories(path + "/jobs/a/logs");
  ASSERT_TRUE(RunFolder::Open(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path + "/jobs/.deleted-a-1"));
  EXPECT_TRUE(std::filesystem::exists(path + "/jobs/a/logs"));
}

TEST(RunFolderTest, EachJobHasAFolderOfItsOwn) {
  const auto folder = RunFolder::Open(MakeTestFolder() + "/run");
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE(folder->MakeJob("a", StartNumber(1)).ok());
  EXPECT_EQ(folder->LogFile({"a", "worker-0"}), folder->path() + "/jobs/a/logs/worker-0.log");
  EXPECT_EQ(folder->LogFile({"b", "worker-0"}), folder->path() + "/jobs/b/logs/worker-0.log");
  EXPECT_EQ(folder->LogFile(kCoordinatorKey), folder->path() + "/logs/coordinator.log");
  EXPECT_TRUE(std::filesystem::is_directory(folder->path() + "/jobs/a/run"));
  EXPECT_FALSE(std::filesystem::exists(folder->path() + "/jobs/b"));
}

TEST(RunFolderTest, WhatADeletedJobOfThatIdLeftIsRemoved) {
  const auto folder = RunFolder::Open(MakeTestFolder() + "/run");
  ASSERT_TRUE(folder.ok()) << folder.status();
  const std::string log = folder->LogFile({"a", "worker-0"});
  const auto exists = [&] { return std::filesystem::exists(log); };
  EXPECT_FALSE(folder->HoldsAnotherJob("a", StartNumber(1))) << "nothing is there";
  ASSERT_TRUE(folder->MakeJob("a", StartNumber(1)).ok());
  std::ofstream(log) << "a line\n";
  const std::string history = folder->job("a") + "/metrics.jsonl";
  std::ofstream(history) << "a line\n";
  ASSERT_TRUE(folder->MakeJob("a", StartNumber(1)).ok());
  EXPECT_TRUE(std::filesystem::exists(history));
  EXPECT_TRUE(exists()) << "the job goes on";
  EXPECT_TRUE(folder->HoldsAnotherJob("a", StartNumber(2)));
  ASSERT_TRUE(folder->MakeJob("a", StartNumber(2)).ok());
  EXPECT_FALSE(exists());
  EXPECT_FALSE(std::filesystem::exists(history));
  EXPECT_TRUE(std::filesystem::is_directory(folder->path() + "/jobs/a/logs"));
  EXPECT_FALSE(folder->HoldsAnotherJob("a", StartNumber(2)));
}

}  // namespace
}  // namespace muster::agent
