#include "coordinator/service/log_followers.h"

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

// A job whose lines and end a test gives. `after` is how many lines were given.
class LogFollowersTest : public testing::Test {
 protected:
  static int64_t NumberIn(const std::string& after) {
    return after.empty() ? 0 : std::stoll(after);
  }

  LogFollowers::Source SourceOfJob() {
    return {.writes = [this](const std::string&) { return writes_; },
            .is_over = [this](const std::string&) -> absl::StatusOr<bool> {
              if (!deleted_) return over_;
              return absl::NotFoundError("there is no job a");
            },
            .read = [this](const std::string&, const FollowQuery& query,
                           bool ends) -> absl::StatusOr<LogPage> {
              ++reads_;
              LogPage page{.lines = {}, .next = query.after, .over = ends};
              for (auto i = static_cast<size_t>(NumberIn(query.after)); i < lines_.size(); ++i)
                page.lines.push_back({"worker-0", lines_[i]});
              page.next = std::to_string(lines_.size());
              return page;
            }};
  }
  void Print(const std::string& line) {
    lines_.push_back(line);
    ++writes_;
  }
  void Follow(const std::string& after = "") {
    answer_.reset();
    followers_.Follow("a", {.after = after}, "",
                      [this](absl::StatusOr<LogPage> page) { answer_ = std::move(page); });
  }
  void Look(int64_t after_ms) {
    now_ += milliseconds(after_ms);
    followers_.Look(now_);
  }
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const LogLine& line : answer_.value().value().lines) lines.push_back(line.line);
    return lines;
  }

  Time now_ = Time(std::chrono::hours(1));
  std::vector<std::string> lines_;
  int64_t writes_ = 0;
  bool over_ = false, deleted_ = false;
  int reads_ = 0;
  std::optional<absl::StatusOr<LogPage>> answer_;
  LogFollowers followers_{SourceOfJob()};
};

TEST_F(LogFollowersTest, LinesAreGivenAsTheyCome) {
  Print("one");
  Follow();
  Look(0);
  EXPECT_THAT(Lines(), ElementsAre("one"));
  Follow(answer_->value().next);
  Look(0);
  Look(200);
  EXPECT_FALSE(answer_) << "it waits";
  Print("two");
  Look(200);
  EXPECT_THAT(Lines(), ElementsAre("two"));
}

// Files are looked at where there are new lines only.
TEST_F(LogFollowersTest, WhoWaitsCostsNoReading) {
  Follow();
  for (int i = 0; i < 20; ++i) Look(200);
  EXPECT_EQ(reads_, 1);
  EXPECT_FALSE(answer_);
}

TEST_F(LogFollowersTest, WhoHasWaitedLongIsToldThatThereIsNothing) {
  Follow();
  Look(0);
  Look(kLongestFollow / milliseconds(1) - 1);
  EXPECT_FALSE(answer_);
  Look(1);
  ASSERT_TRUE(answer_);
  EXPECT_THAT(Lines(), ElementsAre());
  EXPECT_FALSE(answer_->value().over);
}

// Members print their last lines when the job is over.
TEST_F(LogFollowersTest, ItEndsOnceTheJobIsOverAndNoMoreHasComeForAMoment) {
  over_ = true;
  Follow();
  Look(0);
  Look(2400);
  Print("the last line");
  Look(50);
  EXPECT_THAT(Lines(), ElementsAre("the last line"));
  EXPECT_FALSE(answer_->value().over);
  Follow(answer_->value().next);
  Look(50);
  Look(2400);
  EXPECT_FALSE(answer_);
  Look(100);
  ASSERT_TRUE(answer_);
  EXPECT_TRUE(answer_->value().over);
}

// What was quiet before the end says nothing of the last lines.
TEST_F(LogFollowersTest, TheMomentBeginsWithTheEnd) {
  Follow();
  Look(0);
  Look(2400);
  over_ = true;
  Look(200);
  EXPECT_FALSE(answer_);
  Print("the last line");
  Look(200);
  EXPECT_THAT(Lines(), ElementsAre("the last line"));
}

TEST_F(LogFollowersTest, WhoFollowsAJobThatIsDeletedIsTold) {
  Follow();
  Look(0);
  deleted_ = true;
  Look(200);
  ASSERT_TRUE(answer_);
  EXPECT_TRUE(absl::IsNotFound(answer_->status()));
}

TEST_F(LogFollowersTest, OneUserLeavesRoomForOthers) {
  size_t answered = 0, refused = 0;
  const auto follow = [&](const std::string& user) {
    followers_.Follow("a", {.after = std::to_string(lines_.size())}, user,
                      [&](const absl::StatusOr<LogPage>& page) {
                        ++answered;
                        refused += page.ok() ? 0 : 1;
                      });
  };
  for (size_t i = 0; i < kMostLogFollowersOfAUser; ++i) follow("ada");
  Look(0);
  EXPECT_EQ(answered, 0u);
  follow("ada");
  EXPECT_EQ(refused, 1u) << "one user holds all places";
  follow("bob");
  EXPECT_EQ(refused, 1u);
  Print("one");
  Look(200);
  EXPECT_EQ(answered, kMostLogFollowersOfAUser + 2);
  for (size_t i = 0; i < kMostLogFollowersOfAUser; ++i) follow("ada");
  EXPECT_EQ(refused, 1u) << "places of those that were answered are free";
  followers_.Stop();  // before what its answers count
}

TEST_F(LogFollowersTest, OneTooManyIsRefusedAndTheOthersStay) {
  size_t answered = 0;
  for (size_t i = 0; i < kMostLogFollowers; ++i)
    followers_.Follow("a", {}, "", [&](const absl::StatusOr<LogPage>&) { ++answered; });
  Look(0);
  Follow();
  ASSERT_TRUE(answer_);
  EXPECT_TRUE(absl::IsUnavailable(answer_->status())) << answer_->status();
  EXPECT_EQ(answered, 0u);
  Print("one");
  Look(200);
  EXPECT_EQ(answered, kMostLogFollowers);
  Follow();
  Look(0);
  EXPECT_THAT(Lines(), ElementsAre("one")) << "there is room again";
}

TEST_F(LogFollowersTest, WhoWaitsAtTheEndIsAnswered) {
  Follow();
  Look(0);
  followers_.Stop();
  ASSERT_TRUE(answer_);
  EXPECT_TRUE(absl::IsUnavailable(answer_->status()));
  Follow();
  ASSERT_TRUE(answer_) << "nor does anybody wait who comes later";
}

// By its own thread.
TEST_F(LogFollowersTest, WhoComesIsLookedAtAtOnce) {
  Print("one");
  std::promise<std::string> given;
  followers_.Start();
  followers_.Follow("a", {}, "", [&](const absl::StatusOr<LogPage>& page) {
    given.set_value(page.value().lines.at(0).line);
  });
  EXPECT_EQ(given.get_future().get(), "one");
  followers_.Stop();
}

}  // namespace
}  // namespace muster::coordinator
