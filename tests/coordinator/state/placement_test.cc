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

// Of so many workers on these hosts, in turn; as many as it may have.
PlacedJob Running(const std::string& id, int64_t submission,
                  const std::vector<std::string>& hosts) {
  PlacedJob job{.id = id, .submission = submission};
  for (size_t i = 0; i < hosts.size(); ++i) {
    const std::string name = absl::StrCat("worker-", i);
    job.placed[name] = hosts[i];
    job.workers.insert(job.workers.begin(), name);  // the highest rank leaves first
  }
  job.workers_min = job.workers_max = static_cast<int32_t>(hosts.size());
  return job;
}

PlacedJob Elastic(const std::string& id, int64_t submission, const std::vector<std::string>& hosts,
                  int32_t min, int32_t max) {
  PlacedJob job = Running(id, submission, hosts);
  job.workers_min = min;
  job.workers_max = max;
  job.may_shrink = true;
  return job;
}

void Unplace(PlacedJob& job, const std::string& name) {
  job.unplaced.push_back({name, Role::kWorker});
  job.workers.insert(job.workers.begin(), name);
  job.workers_max = std::max(job.workers_max, static_cast<int32_t>(job.workers.size()));
}

// "job/worker-1 scaled", in the order of jobs and names.
std::string LeavesOf(const PlacementDecision& decision) {
  std::vector<std::string> texts;
  for (const auto& [job, members] : decision.leaves)
    for (const auto& [name, cause] : members)
      texts.push_back(absl::StrCat(job, "/", name,
                                   cause == LeaveCause::kScaled      ? " scaled"
                                   : cause == LeaveCause::kMakesRoom ? " makes room"
                                                                     : " drained"));
  return absl::StrJoin(texts, ", ");
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
  Unplace(hurt, "worker-1");
  const PlacementDecision decision =
      DecidePlacement({{Host("a", 1), Host("b", 1)}, {hurt}, {Queued("new", 2, 1, 1)}});
  EXPECT_EQ(PlacesOf(decision), "hurt/worker-1@b");
  EXPECT_THAT(decision.reasons, ElementsAre(Pair("new", "needs 1 slot; 0 of 2 are free")));
}

TEST(Placement, AMemberIsNotPlacedWhereItsJobIsLeftOut) {
  PlacedJob hurt = Running("hurt", 1, {"a"});
  Unplace(hurt, "worker-1");
  hurt.left_out = {"b"};
  const std::vector<HostRoom> hosts = {Host("a", 1), Host("b", 4)};
  EXPECT_THAT(DecidePlacement({hosts, {hurt}, {}}).places, IsEmpty());
  hurt.left_out = {};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {hurt}, {}})), "hurt/worker-1@b");
}

TEST(Placement, JobsGrowIntoWhatNobodyWaitsFor) {
  PlacedJob small = Running("small", 1, {"a"});
  small.workers_max = 6;
  small.may_grow = true;
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

// Two hosts of node a, and one of node b.
TEST(Placement, NodesThatAreKeptApartShareNoJob) {
  const std::vector<HostRoom> hosts = {{"a1", "a", 2}, {"a2", "a", 1}, {"b", "b", 3}};
  PlacedJob job = Running("j", 1, {"a1"});
  job.unplaced = {
      {"worker-1", Role::kWorker}, {"worker-2", Role::kWorker}, {"server-0", Role::kServer}};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {job}, {}})),
            "j/worker-1@a1 j/worker-2@a2 j/server-0@b");
  job.apart = {{"a", "b"}};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {job}, {}})), "j/worker-1@a1 j/worker-2@a2");
  job.apart = {{"a", "c"}};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {job}, {}})),
            "j/worker-1@a1 j/worker-2@a2 j/server-0@b");
  // It does not grow there either.
  job = Running("j", 1, {"b", "b", "b"});
  job.apart = {{"a", "b"}};
  job.may_grow = true;
  job.workers_max = 5;
  const PlacementDecision decision = DecidePlacement({hosts, {job}, {}});
  EXPECT_EQ(PlacesOf(decision), "");
  EXPECT_THAT(decision.grows, IsEmpty());
  // Where none of its members is on either, the first one decides.
  job = Running("j", 1, {});
  job.apart = {{"a", "b"}};
  job.unplaced = {{"worker-0", Role::kWorker}, {"worker-1", Role::kWorker}};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {job}, {}})), "j/worker-0@b j/worker-1@b");
}

TEST(Placement, NewWorkersTakeTheNamesThatAreFree) {
  PlacedJob job = Running("j", 1, {"a", "a", "a"});
  job.placed.erase("worker-1");
  std::erase(job.workers, "worker-1");
  job.workers_max = 4;
  job.may_grow = true;
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

TEST(Placement, MoreWorkersThanAJobMayHaveLeave) {
  const std::vector<HostRoom> hosts = {Host("a", 4)};
  PlacedJob job = Elastic("j", 1, {"a", "a", "a"}, 1, 1);
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {job}, {}})), "j/worker-1 scaled, j/worker-2 scaled");
  // Those that wait for room are not placed first.
  job = Elastic("j", 1, {"a", "a"}, 1, 2);
  Unplace(job, "worker-2");
  job.workers_max = 2;
  const PlacementDecision decision = DecidePlacement({hosts, {job}, {}});
  EXPECT_EQ(LeavesOf(decision), "j/worker-2 scaled");
  EXPECT_THAT(decision.places, IsEmpty());
}

TEST(Placement, JobsMakeRoomForTheHeadOfTheQueue) {
  const std::vector<HostRoom> hosts = {Host("a", 4)};
  const PlacedJob older = Elastic("older", 1, {"a", "a"}, 1, 2);
  const PlacedJob newer = Elastic("newer", 2, {"a", "a"}, 1, 2);
  const auto leaves = [&](std::vector<PlacedJob> running, std::vector<QueuedJob> queued) {
    return LeavesOf(DecidePlacement({hosts, std::move(running), std::move(queued)}));
  };
  EXPECT_EQ(leaves({older, newer}, {}), "");
  EXPECT_EQ(leaves({older, newer}, {Queued("head", 3, 1, 4)}), "newer/worker-1 makes room");
  EXPECT_EQ(leaves({older, newer}, {Queued("head", 3, 2, 4)}),
            "newer/worker-1 makes room, older/worker-1 makes room");
  EXPECT_EQ(leaves({older, newer}, {Queued("head", 3, 3, 4)}), "") << "it would not fit then";
  EXPECT_EQ(leaves({older, newer}, {Queued("huge", 3, 9, 9), Queued("head", 4, 1, 1)}),
            "newer/worker-1 makes room");
  PlacedJob busy = newer;
  busy.may_shrink = false;
  EXPECT_EQ(leaves({older, busy}, {Queued("head", 3, 1, 4)}), "older/worker-1 makes room");
}

TEST(Placement, WhatBeganGoesOnWhileAHostIsAway) {
  std::vector<HostRoom> hosts = {Host("a", 2), Host("b", 2)};
  hosts[1].takes_new = false;
  PlacedJob job = Elastic("j", 1, {"a", "a"}, 1, 2);
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {job}, {Queued("head", 2, 1, 1)}})), "");
  job.leaving = {"worker-1"};
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {job}, {Queued("head", 2, 1, 1)}})),
            "j/worker-1 makes room");
}

TEST(Placement, WhatIsMadeForTheHeadIsKeptForIt) {
  const std::vector<HostRoom> hosts = {Host("a", 4)};
  const PlacedJob elastic = Elastic("elastic", 1, {"a", "a", "a"}, 1, 3);
  const PlacementDecision decision =
      DecidePlacement({hosts, {elastic}, {Queued("head", 2, 3, 3), Queued("small", 3, 1, 1)}});
  EXPECT_EQ(LeavesOf(decision), "elastic/worker-1 makes room, elastic/worker-2 makes room");
  EXPECT_THAT(decision.starts, IsEmpty());
}

TEST(Placement, MembersOfADrainedHostLeaveAndNothingNewComes) {
  std::vector<HostRoom> hosts = {Host("a", 4), Host("b", 4)};
  hosts[0].drains = true;
  // As many as leave the job its least number of workers.
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {Elastic("j", 1, {"a", "a", "b"}, 1, 3)}, {}})),
            "j/worker-0 drained, j/worker-1 drained");
  // Else others come first, on another host.
  const PlacedJob whole = Elastic("j", 1, {"a", "a"}, 2, 2);
  PlacementDecision decision = DecidePlacement({hosts, {whole}, {Queued("next", 2, 3, 3)}});
  EXPECT_EQ(LeavesOf(decision), "j/worker-0 drained, j/worker-1 drained");
  EXPECT_EQ(PlacesOf(decision), "j/worker-2@b j/worker-3@b");
  EXPECT_THAT(decision.reasons, ElementsAre(Pair("next", "needs 3 slots; 2 of 4 are free")));
  // Where there is no room they stay, those with the lowest ranks.
  hosts[1].slots = 1;
  decision = DecidePlacement({hosts, {whole}, {}});
  EXPECT_EQ(LeavesOf(decision), "j/worker-1 drained");
  EXPECT_EQ(PlacesOf(decision), "j/worker-2@b");
}

TEST(Placement, AHostThatEndsWaitsForNoRoom) {
  std::vector<HostRoom> hosts = {Host("a", 4), Host("b", 4)};
  hosts[0].drains = hosts[0].ends = true;
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {Elastic("j", 1, {"a", "b"}, 1, 2)}, {}})),
            "j/worker-0 drained");
  const PlacementDecision decision =
      DecidePlacement({hosts, {Elastic("j", 1, {"a", "b"}, 2, 2)}, {}});
  EXPECT_EQ(LeavesOf(decision), "");
  EXPECT_THAT(decision.places, IsEmpty());
  EXPECT_THAT(decision.give_way,
              ElementsAre(Pair("j",
                               "host a ends, and without it the job has fewer than "
                               "workers.min")));
}

// They keep no state, and may wait for long.
TEST(Placement, WorkersWithoutAPlaceDoNotStayInTheStead) {
  std::vector<HostRoom> hosts = {Host("a", 2), Host("b", 1)};
  hosts[0].drains = true;
  PlacedJob job = Elastic("j", 1, {"a", "b"}, 2, 2);
  Unplace(job, "worker-2");
  EXPECT_EQ(LeavesOf(DecidePlacement({hosts, {job}, {}})), "") << "two are to stay";
  hosts[0].ends = true;
  EXPECT_EQ(DecidePlacement({hosts, {job}, {}}).give_way.size(), 1u);
}

TEST(Placement, NothingIsPlacedWhileItIsNotKnownWhichNodesAreApart) {
  std::vector<HostRoom> hosts = {Host("a", 2), Host("b", 1)};
  hosts[0].node = "";  // its agent is not back after a restart
  hosts[0].takes_new = false;
  PlacedJob job = Elastic("j", 1, {"a"}, 1, 2);
  Unplace(job, "worker-1");
  job.apart = {{"a", "b"}};
  EXPECT_THAT(DecidePlacement({hosts, {job}, {}}).places, IsEmpty());
  job.apart = {};
  EXPECT_EQ(PlacesOf(DecidePlacement({hosts, {job}, {}})), "j/worker-1@b");
}

TEST(Placement, AJobWithAServerOnADrainedHostGivesWay) {
  std::vector<HostRoom> hosts = {Host("a", 4), Host("b", 4)};
  hosts[0].drains = true;
  PlacedJob job = Elastic("j", 1, {"b", "b"}, 1, 2);
  job.placed["server-0"] = "a";
  EXPECT_THAT(DecidePlacement({hosts, {job}, {}}).give_way,
              ElementsAre(Pair("j",
                               "host a is drained, and a server cannot leave while the job "
                               "runs")));
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
      const bool drains = upto(5) == 0;
      input.hosts.push_back(
          {name, absl::StrCat("n", i / 2), upto(5), upto(4) > 0, drains, drains && upto(2) == 0});
      left[name] = input.hosts.back().slots;
    }
    for (int32_t j = upto(4); j > 0; --j) {
      PlacedJob job{.id = absl::StrCat("r", j), .submission = j};
      job.may_shrink = upto(2) == 0;
      job.may_grow = upto(2) == 0;
      for (int32_t w = upto(4); w > 0; --w) {
        const std::string host = absl::StrCat("h", 1 + upto(6));
        const std::string name = absl::StrCat("worker-", w);
        job.workers.push_back(name);
        if (upto(4) == 0) job.leaving.insert(name);
        if (left.count(host) > 0 && left[host] > 0) {
          job.placed[name] = host;
          --left[host];
        } else {
          job.unplaced.push_back({name, Role::kWorker});
        }
      }
      if (upto(3) == 0) job.left_out.insert("h1");
      job.workers_min = 1 + upto(3);
      job.workers_max = job.workers_min + upto(3);
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
      for (const HostRoom& host : input.hosts)
        EXPECT_FALSE(host.name == place.host && host.drains) << "round " << round;
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
    for (const PlacedJob& job : input.running) {
      const auto leaves = decision.leaves.find(job.id);
      const auto grows = decision.grows.find(job.id);
      const auto had = static_cast<int32_t>(job.workers.size());
      const int32_t gone =
          leaves == decision.leaves.end() ? 0 : static_cast<int32_t>(leaves->second.size());
      const int32_t got = grows == decision.grows.end() ? 0 : grows->second;
      if (decision.give_way.contains(job.id)) {
        EXPECT_EQ(gone + got, 0) << "round " << round;
        continue;
      }
      EXPECT_LE(had - gone + got, job.workers_max) << "round " << round;
      EXPECT_GE(had - gone + got, std::min(had, job.workers_min))
          << "round " << round << ": only those leave without whom there are still enough";
    }
  }
}

}  // namespace
}  // namespace muster::coordinator
