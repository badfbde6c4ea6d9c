#include "lib/base/name_lookup.h"

#include <atomic>
#include <future>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Answer = absl::StatusOr<std::vector<std::string>>;

Answer AskAndWait(NameLookup& names, const std::string& host) {
  auto answered = std::make_shared<std::promise<Answer>>();
  std::future<Answer> answer = answered->get_future();
  names.Ask(host, [answered](Answer found) { answered->set_value(std::move(found)); });
  return answer.get();
}

TEST(NameLookup, LooksUpAnewEachTime) {
  std::atomic<int> times = 0;
  NameLookup names([&](const std::string& host) -> Answer {
    return std::vector<std::string>{host + std::to_string(++times)};
  });
  EXPECT_THAT(AskAndWait(names, "db").value(), ElementsAre("db1"));
  EXPECT_THAT(AskAndWait(names, "db").value(), ElementsAre("db2"));
}

// The one who gave up is not called; no second lookup begins, and other names are not held up.
TEST(NameLookup, OneThatHangsIsTakenOverByWhoAsksLast) {
  std::promise<void> released;
  std::shared_future<void> release = released.get_future().share();
  std::atomic<int> times = 0;
  NameLookup names([&times, release](const std::string& host) -> Answer {
    ++times;
    if (host == "hangs") release.wait();
    return std::vector<std::string>{host};
  });
  names.Ask("hangs", [](const Answer&) { FAIL() << "another has asked since"; });
  auto answered = std::make_shared<std::promise<Answer>>();
  std::future<Answer> answer = answered->get_future();
  names.Ask("hangs", [answered](Answer found) { answered->set_value(std::move(found)); });
  EXPECT_THAT(AskAndWait(names, "other").value(), ElementsAre("other"));
  released.set_value();
  EXPECT_THAT(answer.get().value(), ElementsAre("hangs"));
  EXPECT_EQ(times, 2);
}

TEST(NameLookup, AFailureNamesTheHost) {
  const Answer answer = ResolveBySystem("a..b");
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(answer.status().message(), HasSubstr("the name a..b cannot be looked up"));
}

}  // namespace
}  // namespace muster
