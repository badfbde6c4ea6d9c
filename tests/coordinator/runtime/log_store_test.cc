#include "coordinator/runtime/log_store.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "coordinator/runtime/log_places.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogStoreTest : public ::testing::Test {
 protected:
  LogStoreTest() { std::filesystem::remove_all(folder_); }
  ~LogStoreTest() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Open(LogBudget budget = {}) {
    store_.reset();
    store_.emplace(folder_, std::set<std::string>{"a", "b"}, budget);
    ASSERT_TRUE(store_->Await());
  }
  void Add(const std::string& job, const std::string& name, const std::string& text,
           int64_t left_out = 0) {
    store_->Add({.job = job, .name = name, .text = text, .left_out = left_out});
    ASSERT_TRUE(store_->Await());
  }
  std::string Kept(const std::string& job, const std::string& name, size_t most = 1000) const {
    return ReadKeptLog(folder_, job, name, most).text;
  }

  const std::string folder_ = ::testing::TempDir() + "log-store-" + std::to_string(getpid()) + "-" +
                              ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::optional<LogStore> store_;
};

TEST_F(LogStoreTest, KeepsWhatMembersPrintedAlsoForTheNextCoordinator) {
  Open();
  Add("a", "worker-0", "one\n");
  Add("a", "worker-1", "other\n");
  Open();
  Add("a", "worker-0", "two\n");
  EXPECT_EQ(Kept("a", "worker-0"), "one\ntwo\n");
  EXPECT_THAT(MembersWithLogs(folder_, "a"), ElementsAre("worker-0", "worker-1"));
  EXPECT_THAT(MembersWithLogs(folder_, "b"), IsEmpty());
}

TEST_F(LogStoreTest, ALineSaysWhatIsLeftOut) {
  Open();
  Add("a", "worker-0", "one");
  Add("a", "worker-0", "two\n", 1234);
  EXPECT_EQ(Kept("a", "worker-0"), "one\n... 1234 bytes are left out here\ntwo\n");
}

TEST_F(LogStoreTest, WhatDoesNotFitBehindTheDiskIsLeftOutAndCounted) {
  Open({.waiting = 2000});
  Add("a", "worker-0", std::string(1990, 'x'));
  EXPECT_EQ(Kept("a", "worker-0"), "");
  Add("a", "worker-0", "fits\n");
  EXPECT_EQ(Kept("a", "worker-0"), "... 1990 bytes are left out here\nfits\n");
}

TEST_F(LogStoreTest, OfAMemberTheNewestIsKept) {
  Open({.file = 10});
  for (const char* line : {"1234567\n", "abcdefg\n", "ABCDEFG\n"}) Add("a", "worker-0", line);
  EXPECT_EQ(Kept("a", "worker-0"), "abcdefg\nABCDEFG\n");
  const KeptLog part = ReadKeptLog(folder_, "a", "worker-0", 12);
  EXPECT_EQ(part.text, "efg\nABCDEFG\n");
  EXPECT_TRUE(part.is_cut);
}

TEST_F(LogStoreTest, InAllWhatWasWrittenLongestAgoGoesFirstAlsoAfterARestart) {
  Open({.in_all = 20});
  Add("a", "worker-0", "1234567\n");
  Add("b", "worker-0", "abcdefg\n");
  Add("a", "worker-0", "x\n");
  Add("a", "worker-1", "ABCDEFG\n");
  EXPECT_EQ(Kept("b", "worker-0"), "");
  EXPECT_EQ(Kept("a", "worker-0"), "1234567\nx\n");
  EXPECT_EQ(Kept("a", "worker-1"), "ABCDEFG\n");
  Open({.in_all = 10});
  size_t bytes = 0;
  for (const char* name : {"worker-0", "worker-1"}) bytes += Kept("a", name).size();
  EXPECT_LE(bytes, 10u);
}

TEST_F(LogStoreTest, WhatIsKeptGoesWithItsJob) {
  Open();
  Add("a", "worker-0", "of a\n");
  Add("b", "worker-0", "of b\n");
  store_->Forget("a");
  ASSERT_TRUE(store_->Await());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/a"));
  EXPECT_EQ(Kept("b", "worker-0"), "of b\n");
  Add("a", "worker-0", "of another job of that id\n");
  EXPECT_EQ(Kept("a", "worker-0"), "of another job of that id\n");
}

TEST_F(LogStoreTest, WhatIsLeftOfDeletedJobsIsRemoved) {
  std::filesystem::create_directories(folder_ + "/deleted");
  Open();
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/deleted"));
}

TEST(LogPlacesTest, OnlyTheAgentThatWasToldLastToStartAMemberSpeaksOfIt) {
  LogPlaces places;
  const AgentId one{"one", {1, 1}}, two{"two", {2, 2}};
  const auto told = [&](const AgentId& agent, int64_t number) {
    places.Told(
        agent,
        {.jobs = {{.job = "a",
                   .processes = {{.name = "worker-0", .placement = PlacementNumber(number)}}}}});
  };
  const auto has = [&](const AgentId& agent, int64_t number, const std::string& name = "worker-0") {
    return places.Has(
        agent, {.job = "a", .placement = PlacementNumber(number), .name = name, .text = "x"});
  };
  EXPECT_FALSE(has(one, 1));
  told(one, 1);
  EXPECT_TRUE(has(one, 1));
  EXPECT_FALSE(has(one, 2));
  EXPECT_FALSE(has(two, 1));
  EXPECT_FALSE(has(one, 1, "worker-1"));
  EXPECT_FALSE(has({"one", {3, 3}}, 1)) << "another agent of that host";
  places.Told(one, {});
  EXPECT_TRUE(has(one, 1)) << "its last lines come after it has left";
  told(two, 2);
  EXPECT_FALSE(has(one, 1));
  EXPECT_TRUE(has(two, 2));
  places.Forget("a");
  EXPECT_FALSE(has(two, 2));
}

}  // namespace
}  // namespace muster::coordinator
