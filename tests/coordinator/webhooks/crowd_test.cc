// Who pays where more events wait than are kept.
#include "coordinator/webhooks/crowd.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Numbers, as events are added: each a job and a type.
std::vector<int64_t> Surplus(const std::vector<std::pair<std::string, std::string>>& events,
                             size_t many) {
  Crowd crowd;
  int64_t seq = 0;
  for (const auto& [job, type] : events) crowd.Add({{1, ++seq}, {.type = type, .job = job}});
  std::vector<int64_t> numbers;
  for (const OutboxPlace place : crowd.Surplus(many)) numbers.push_back(place.seq);
  return numbers;
}

TEST(CrowdTest, TheJobWithMostPaysAndItsOldestGoFirst) {
  EXPECT_THAT(Surplus({{"a", "job.queued"},
                       {"loud", "job.running"},
                       {"loud", "job.recovering"},
                       {"b", "job.queued"},
                       {"loud", "job.running"},
                       {"loud", "checkpoint.failed"}},
                      2),
              ElementsAre(2, 3));
}

TEST(CrowdTest, TwoThatAreLoudPayUntilTheyHaveAsManyAsEachOther) {
  std::vector<std::pair<std::string, std::string>> events = {{"quiet", "job.queued"}};
  for (int i = 0; i < 3; ++i) events.emplace_back("louder", "job.running");
  for (int i = 0; i < 2; ++i) events.emplace_back("loud", "job.running");
  for (int i = 0; i < 2; ++i) events.emplace_back("louder", "job.running");
  EXPECT_THAT(Surplus(events, 3), ElementsAre(2, 3, 4));
  EXPECT_THAT(Surplus(events, 5), ElementsAre(2, 3, 4, 5, 7));
}

TEST(CrowdTest, AnEndGoesLast) {
  const std::vector<std::pair<std::string, std::string>> events = {
      {"a", "job.done"},    {"a", "job.queued"},     {"a", "job.failed"},  {"a", "job.cancelled"},
      {"a", "job.stopped"}, {"a", "job.recovering"}, {"b", "job.stopping"}};
  EXPECT_THAT(Surplus(events, 2), ElementsAre(2, 6));
  EXPECT_THAT(Surplus(events, 3), ElementsAre(2, 6, 1));
  EXPECT_THAT(Surplus(events, 7), ElementsAre(2, 6, 7, 1, 3, 4, 5));
}

TEST(CrowdTest, OfJobsWithAsManyTheOldestGo) {
  std::vector<std::pair<std::string, std::string>> events;
  for (int i = 0; i < 5; ++i) events.emplace_back(absl::StrCat("j", i), "job.done");
  EXPECT_THAT(Surplus(events, 2), ElementsAre(1, 2));
  EXPECT_THAT(Surplus(events, 100), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(Surplus(events, 0), IsEmpty());
  EXPECT_THAT(Surplus({}, 3), IsEmpty());
}

}  // namespace
}  // namespace muster::coordinator
