#include "coordinator/state/queue.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using testing::ElementsAre;
using testing::Pair;

struct Case {
  const char* what;
  QueueInput input;
  std::string starts;  // "id:slots"; empty: nobody
  std::map<std::string, std::string> reasons;
};

std::string StartOf(const QueueDecision& decision) {
  if (!decision.start) return "";
  return decision.start->id + ":" + std::to_string(decision.start->slots);
}

TEST(Queue, StartsWhatFits) {
  const Case cases[] = {
      {"nothing is queued", {4, true, {}, {}}, "", {}},
      {"the only one takes up to its most", {4, true, {}, {{"a", 1, 2, 3}}}, "a:3", {}},
      {"and no more than is free", {4, true, {{1, 2}}, {{"b", 2, 1, 9}}}, "b:2", {}},
      {"the oldest goes first, whatever its name",
       {4, true, {}, {{"a", 2, 4, 4}, {"z", 1, 4, 4}}},
       "z:4",
       {{"a", "needs 4 slots; 0 of 4 are free"}}},
      {"below its least it waits",
       {4, true, {{1, 3}}, {{"b", 2, 2, 2}}},
       "",
       {{"b", "needs 2 slots; 1 of 4 are free"}}},
      {"without a host agent nobody starts",
       {0, false, {}, {{"a", 1, 1, 1}}},
       "",
       {{"a", "waits for a host agent"}}},
      {"one that can never fit holds nobody up",
       {4, true, {}, {{"huge", 1, 5, 5}, {"b", 2, 4, 4}}},
       "b:4",
       {{"huge", "needs 5 slots; the cluster has 4"}}},
      {"jobs hold more than there is, after an agent came back with less",
       {2, true, {{1, 3}}, {{"b", 2, 1, 1}}},
       "",
       {{"b", "needs 1 slot; 0 of 2 are free"}}},
  };
  for (const Case& c : cases) {
    const QueueDecision decision = DecideQueue(c.input);
    EXPECT_EQ(StartOf(decision), c.starts) << c.what;
    EXPECT_EQ(decision.reasons, c.reasons) << c.what;
  }
}

// The head needs 6 of 8 slots and 3 are free: whoever passes it may hold 2 in all.
TEST(Queue, WhoPassesTheHeadTakesOnlyWhatTheHeadLeaves) {
  const std::vector<HeldSlots> elder = {{1, 5}};
  const QueuedJob head{"head", 2, 6, 8};
  EXPECT_EQ(StartOf(DecideQueue({8, true, elder, {head, {"small", 3, 1, 3}}})), "small:2");
  const QueueDecision third = DecideQueue({8, true, {{1, 5}, {3, 2}}, {head, {"third", 4, 1, 1}}});
  EXPECT_EQ(StartOf(third), "");
  EXPECT_THAT(third.reasons, ElementsAre(Pair("head", "needs 6 slots; 1 of 8 are free"),
                                         Pair("third",
                                              "needs 1 slot; they are kept for head, which was "
                                              "submitted before")));
  // The elder ends: the head fits, though a job that passed it still runs.
  EXPECT_EQ(StartOf(DecideQueue({8, true, {{3, 2}}, {head, {"third", 4, 1, 1}}})), "head:6");
}

// Whatever passes, the head starts once the elder ones have ended.
TEST(Queue, TheHeadIsNeverStarved) {
  for (int32_t total = 1; total <= 6; ++total)
    for (int32_t need = 1; need <= total; ++need)
      for (int32_t elder = 1; elder <= total; ++elder) {
        QueueInput input{total, true, {{1, elder}}, {{"head", 2, need, need}}};
        for (int64_t i = 0; i < 8; ++i)
          input.queued.push_back({"later-" + std::to_string(i), 3 + i, 1 + int32_t(i % 2), 3});
        while (true) {
          const QueueDecision decision = DecideQueue(input);
          if (!decision.start || decision.start->id == "head") break;
          const auto it = std::find_if(input.queued.begin(), input.queued.end(),
                                       [&](const auto& j) { return j.id == decision.start->id; });
          input.held.push_back({it->submission, decision.start->slots});
          input.queued.erase(it);
        }
        input.held.erase(input.held.begin());
        EXPECT_EQ(StartOf(DecideQueue(input)), "head:" + std::to_string(need))
            << total << " slots, the head needs " << need << ", the elder job held " << elder;
      }
}

}  // namespace
}  // namespace muster::coordinator
