#include "coordinator/state/placement.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

HostRoom Host(const std::string& name, int32_t slots) { return {name, name, slots}; }

QueuedJob Queued(const std::string& id, int64_t submission, int32_t min, int32_t max,
                 int32_t servers = 0) {
  return {id, submission, min, max, servers, {}};
}

// Of so many workers on these hosts, in turn.
PlacedJob Running(const std::string& id, int64_t submission,
                  const std::vector<std::string>& hosts) {
  PlacedJob job{id, submission, {}, {}, {}, 0};
  for (size_t i = 0; i < hosts.size(); ++i) job.placed[absl::StrCat("worker-", i)] = hosts[i];
  return job;
}

// "job/worker-0@host job/worker-1@host"
std::string PlacesOf(const PlacementDecision& decision) {
  return absl::StrJoin(decision.places, " ",
                       [](std::string* out, const PlacementDecision::Place& place) {
                         absl::StrAppend(out, place.job, "/", place.member.name, "@", place.host);
                       });
}

TEST(Placement, TheQueueStartsWhatFits) {
  struct Case {
    const char* what;
    PlacementInput input;
    std::map<std::string, int32_t> starts;  // workers by job
    std::map<std::string, std::string> reasons;
  };
  const std::vector<HostRoom> four = {Host("h", 4)};
  const auto held = [](int32_t slots) {
    return Running("r", 1, std::vector<std::string>(static_cast<size_t>(slots), "h"));
  };
  const Case cases[] = {
      {"nothing is queued", {four, {}, {}}, {}, {}},
      {"the only one takes up to its most", {four, {}, {Queued("a", 1, 2, 3)}}, {{"a", 3}}, {}},
      {"and no more than is free", {four, {held(2)}, {Queued("b", 2, 1, 9)}}, {{"b", 2}}, {}},
      {"servers take slots, too", {four, {}, {Queued("a", 1, 1, 9, 2)}}, {{"a", 2}}, {}},
      {"the oldest goes first, whatever its name",
       {four, {}, {Queued("a", 2, 4, 4), Queued("z", 1, 4, 4)}},
       {{"z", 4}},
       {{"a", "needs 4 slots; 0 of 4 are free"}}},
      {"below its least it waits",
       {four, {held(3)}, {Queued("b", 2, 2, 2)}},
       {},
       {{"b", "needs 2 slots; 1 of 4 are free"}}},
      {"without a host agent nobody starts",
       {{}, {}, {Queued("a", 1, 1, 1)}},
       {},
       {{"a", "waits for a host agent"}}},
      {"nor with one that takes nothing new",
       {{{"h", "h", 4, false}}, {}, {Queued("a", 1, 1, 1)}},
       {},
       {{"a", "waits for a host agent"}}},
      {"one that can never fit holds nobody up",
       {four, {}, {Queued("huge", 1, 5, 5), Queued("b", 2, 4, 4)}},
       {{"b", 4}},
       {{"huge", "needs 5 slots; the cluster has 4"}}},
      {"jobs hold more than there is, after an agent came back with less",
       {{Host("h", 2)}, {held(3)}, {Queued("b", 2, 1, 1)}},
       {},
       {{"b", "needs 1 slot; 0 of 2 are free"}}},
      {"a host that is left out for a job has no slots for it",
       {{Host("h", 4), Host("i", 1)}, {}, {{"a", 1, 2, 2, 0, {"h"}}}},
       {},
       {{"a", "needs 2 slots; the cluster has 1"}}},
  };
  for (const Case& c : cases) {
    const PlacementDecision decision = DecidePlacement(c.input);
    EXPECT_EQ(decision.starts, c.starts) << c.what;
    EXPECT_EQ(decision.reasons, c.reasons) << c.what;
  }
}

TEST(Placement, WorkersFillOneNodeAfterTheOtherAndServersAreSpread) {
  const std::vector<HostRoom> hosts = {Host("a", 2), Host("b", 3), Host("c", 2)};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {}, {Queued("j", 1, 5, 5)}})),
            "j/worker-0@b j/worker-1@b j/worker-2@b j/worker-3@a j/worker-4@a");
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {}, {Queued("j", 1, 2, 2, 3)}})),
            "j/server-0@b j/server-1@a j/server-2@c j/worker-0@b j/worker-1@b");
}

// Each task of a launcher is a host of its own on the machine that they share.
TEST(Placement, HostsOfOneNodeAreTakenTogether) {
  const std::vector<HostRoom> hosts = {
      {"t0", "m0", 1}, {"t1", "m1", 1}, {"t2", "m0", 1}, {"t3", "m1", 1}};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {}, {Queued("j", 1, 4, 4)}})),
            "j/worker-0@t0 j/worker-1@t2 j/worker-2@t1 j/worker-3@t3");
}

TEST(Placement, WhatWasLostComesBeforeWhatIsNew) {
  PlacedJob hurt = Running("hurt", 1, {"a"});
  hurt.unplaced = {{"worker-1", Role::kWorker}};
  const PlacementDecision decision =
      DecidePlacement({{Host("a", 1), Host("b", 1)}, {hurt}, {Queued("new", 2, 1, 1)}});
  EXPECT_EQ(PlacesOf(decision), "hurt/worker-1@b");
  EXPECT_THAT(decision.reasons, ElementsAre(Pair("new", "needs 1 slot; 0 of 2 are free")));
}

TEST(Placement, AMemberIsNotPlacedWhereItsJobIsLeftOut) {
  PlacedJob hurt = Running("hurt", 1, {"a"});
  hurt.unplaced = {{"worker-1", Role::kWorker}};
  hurt.left_out = {"b"};
  const std::vector<HostRoom> hosts = {Host("a", 1), Host("b", 4)};
  EXPECT_THAT(DecidePlacement({hosts, {hurt}, {}}).places, IsEmpty());
  hurt.left_out = {};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {hurt}, {}})), "hurt/worker-1@b");
}

TEST(Placement, JobsGrowIntoWhatNobodyWaitsFor) {
  PlacedJob small = Running("small", 1, {"a"});
  small.may_grow_by = 5;
  const std::vector<HostRoom> hosts = {Host("a", 2), Host("b", 1)};
  PlacementDecision decision = DecidePlacement({hosts, {small}, {}});
  EXPECT_EQ(PlacesOf(decision), "small/worker-1@a small/worker-2@b");
  EXPECT_THAT(decision.grows, ElementsAre(Pair("small", 2)));
  // Somebody waits who needs more than is free: it would wait longer.
  decision = DecidePlacement({hosts, {small}, {Queued("next", 2, 3, 3)}});
  EXPECT_THAT(decision.places, IsEmpty());
  EXPECT_THAT(decision.grows, IsEmpty());
  // One that can never start keeps nobody from growing.
  decision = DecidePlacement({hosts, {small}, {Queued("huge", 2, 9, 9)}});
  EXPECT_THAT(decision.grows, ElementsAre(Pair("small", 2)));
}

TEST(Placement, NewWorkersTakeTheNamesThatAreFree) {
  PlacedJob job = Running("j", 1, {"a", "a", "a"});
  job.placed.erase("worker-1");
  job.may_grow_by = 2;
  EXPECT_EQ(PlacesOf(DecidePlacement({{Host("a", 4)}, {job}, {}})), "j/worker-1@a j/worker-3@a");
}

// The head needs 6 of 8 slots and 3 are free: whoever passes it may hold 2 in all.
TEST(Placement, WhoPassesTheHeadTakesOnlyWhatTheHeadLeaves) {
  const std::vector<HostRoom> hosts = {Host("a", 5), Host("b", 3)};
  const PlacedJob elder = Running("elder", 1, {"a", "a", "a", "a", "a"});
  const QueuedJob head = Queued("head", 2, 6, 8);
  EXPECT_THAT(DecidePlacement({hosts, {elder}, {head, Queued("small", 3, 1, 3)}}).starts,
              ElementsAre(Pair("small", 2)));
  const PlacedJob small = Running("small", 3, {"b", "b"});
  const PlacementDecision third =
      DecidePlacement({hosts, {elder, small}, {head, Queued("third", 4, 1, 1)}});
  EXPECT_THAT(third.starts, IsEmpty());
  EXPECT_THAT(third.reasons, ElementsAre(Pair("head", "needs 6 slots; 1 of 8 are free"),
                                         Pair("third",
                                              "needs 1 slot; they are kept for head, which was "
                                              "submitted before")));
  // The elder ends: the head fits, though a job that passed it still runs.
  EXPECT_THAT(DecidePlacement({hosts, {small}, {head, Queued("third", 4, 1, 1)}}).starts,
              ElementsAre(Pair("head", 6)));
}

// Random clusters: whatever is decided fits.
TEST(Placement, NoHostGetsMoreThanItsSlotsAndNobodyIsPlacedTwice) {
  std::mt19937 random(7);
  const auto upto = [&](int n) {
    return static_cast<int32_t>(random() % static_cast<unsigned>(n));
  };
  for (int round = 0; round < 2000; ++round) {
    PlacementInput input;
    std::map<std::string, int32_t> left;
    for (int32_t i = 1 + upto(5); i > 0; --i) {
      const std::string name = absl::StrCat("h", i);
      input.hosts.push_back({name, absl::StrCat("n", i / 2), upto(5), upto(4) > 0});
      left[name] = input.hosts.back().slots;
    }
    for (int32_t j = upto(4); j > 0; --j) {
      PlacedJob job{absl::StrCat("r", j), j, {}, {}, {}, upto(3)};
      for (int32_t w = upto(4); w > 0; --w) {
        const std::string host = absl::StrCat("h", 1 + upto(6));
        const std::string name = absl::StrCat("worker-", w);
        if (left.count(host) > 0 && left[host] > 0) {
          job.placed[name] = host;
          --left[host];
        } else {
          job.unplaced.push_back({name, Role::kWorker});
        }
      }
      if (upto(3) == 0) job.left_out.insert("h1");
      input.running.push_back(job);
    }
    for (int32_t j = upto(4); j > 0; --j)
      input.queued.push_back({absl::StrCat("q", j), 10 + j, 1 + upto(3), 3 + upto(3), upto(2), {}});
    const PlacementDecision decision = DecidePlacement(input);
    std::set<std::pair<std::string, std::string>> seen;
    for (const PlacementDecision::Place& place : decision.places) {
      EXPECT_GE(--left[place.host], 0) << "round " << round << ": " << place.host;
      EXPECT_TRUE(seen.insert({place.job, place.member.name}).second) << round;
      for (const PlacedJob& job : input.running)
        if (job.id == place.job) {
          EXPECT_EQ(job.placed.count(place.member.name), 0u);
          EXPECT_EQ(job.left_out.count(place.host), 0u);
        }
    }
    for (const auto& [id, workers] : decision.starts) {
      const auto job = std::find_if(input.queued.begin(), input.queued.end(),
                                    [&, id = id](const QueuedJob& q) { return q.id == id; });
      EXPECT_GE(workers, job->workers_min);
      EXPECT_LE(workers, job->workers_max);
      const auto placed =
          std::count_if(decision.places.begin(), decision.places.end(),
                        [&, id = id](const auto& place) { return place.job == id; });
      EXPECT_EQ(placed, workers + job->servers) << "a job starts whole";
    }
    EXPECT_EQ(decision.starts.size() + decision.reasons.size(), input.queued.size());
  }
}

}  // namespace
}  // namespace muster::coordinator
